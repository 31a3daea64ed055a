//! Property test of the batcher's state: random sequences of commands, answers, flushes and dropped
//! callers. Every item is sent once or withdrawn, and a flusher is pending while one waits.

mod access;

use std::sync::Arc;
use std::task::{Wake, Waker};
use std::time::Duration;

use proptest::collection::vec;
use proptest::prelude::{Just, Strategy, any, prop_oneof};
use proptest::proptest;
use proptest::test_runner::{Config as ProptestConfig, RngSeed};
use tokio::time::Instant;

use super::outcomes::{OutcomeSlot, Outcomes};
use crate::link::batched::state::{BatcherState, ItemId, MANY, Takes};

const MOST: usize = 6;

const WINDOW: Duration = Duration::from_millis(25);

#[derive(Clone, Debug)]
enum Event {
    /// A caller has a command; `true`: a release.
    Command(bool),
    /// A command or a batch that is in flight ends.
    Ends(usize),
    /// This many ms pass.
    Passes(u64),
    /// A full batch is taken besides the flusher.
    TakesFull,
    /// The flusher runs and takes a batch, unless it has to wait …
    Takes,
    /// … and has sent it.
    Sends,
    /// A waiting caller goes; its item may be in a batch by now.
    Goes(usize),
    /// A waiting caller has seen no flusher for `STUCK_AFTER`.
    StopsWaiting(usize),
    /// The flusher's runtime ends.
    RuntimeEnds,
}

fn event() -> impl Strategy<Value = Event> {
    let number = || 0..8_usize;
    prop_oneof![
        8 => any::<bool>().prop_map(Event::Command),
        4 => number().prop_map(Event::Ends),
        3 => (1..40_u64).prop_map(Event::Passes),
        2 => Just(Event::TakesFull),
        4 => Just(Event::Takes),
        4 => Just(Event::Sends),
        2 => number().prop_map(Event::Goes),
        2 => number().prop_map(Event::StopsWaiting),
        1 => Just(Event::RuntimeEnds),
    ]
}

/// A caller by number; `true`: it releases.
type Who = (usize, bool);

/// The one flusher, if any.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Flushing {
    Nobody,
    Started,
    /// It has taken a batch that is not on the wire yet.
    Busy,
}

/// The model that the state is compared with.
struct World {
    state: BatcherState<Who>,
    takes: Takes,
    now: Instant,
    /// The size of the latest batch.
    latest: usize,
    /// Whether the latest batch was of releases.
    latest_sort: bool,
    /// When something left last.
    left_at: Option<Instant>,
    asked: usize,
    /// The sizes of the commands and batches in flight.
    in_flight: Vec<usize>,
    flusher: Flushing,
    /// In order of arrival.
    waiting: Vec<(ItemId, Who)>,
    gone: Vec<ItemId>,
    /// Callers during whose wait a batch was taken.
    seen_a_batch: Vec<Who>,
}

impl World {
    fn new(takes: Takes) -> Self {
        Self {
            state: BatcherState::new(MOST, takes),
            takes,
            now: Instant::now(),
            latest: 0,
            latest_sort: false,
            left_at: None,
            asked: 0,
            in_flight: Vec::new(),
            flusher: Flushing::Nobody,
            waiting: Vec::new(),
            gone: Vec::new(),
            seen_a_batch: Vec::new(),
        }
    }

    fn step(&mut self, event: &Event) {
        match *event {
            Event::Command(is_release) => self.command(is_release),
            Event::Ends(number) if number < self.in_flight.len() => {
                let items = self.in_flight.remove(number);
                self.state.ended(items);
            }
            Event::TakesFull => {
                let (waiting, sent) = (self.waiting.len(), self.in_flight.iter().sum::<usize>());
                let is_full = match self.takes {
                    Takes::Half => waiting >= MOST && waiting + sent > 2 * MOST - 2,
                    Takes::All | Takes::OneSort => false,
                    Takes::Window(_) => waiting > 0 && waiting % MOST == 0,
                };
                assert_eq!(self.state.has_full_batch(), is_full);
                if self.state.has_full_batch() {
                    self.take();
                    assert_eq!(self.latest, MOST);
                }
            }
            Event::Passes(ms) => self.now += Duration::from_millis(ms),
            Event::Takes if self.flusher == Flushing::Started => {
                assert_eq!(self.state.not_before(self.now), self.not_before());
                if self.not_before().is_none() {
                    self.take();
                    self.flusher = Flushing::Busy;
                }
            }
            Event::Sends if self.flusher == Flushing::Busy => {
                let more = self.state.flushed();
                assert_eq!(more, !self.waiting.is_empty());
                self.flusher = if more {
                    Flushing::Started
                } else {
                    Flushing::Nobody
                };
            }
            Event::Goes(number) if number < self.waiting.len() => {
                let (id, who) = self.waiting.remove(number);
                assert_eq!(self.state.withdraw(id), Some(who));
                self.gone.push(id);
            }
            Event::StopsWaiting(number) if number < self.waiting.len() => {
                let (id, who) = self.waiting[number];
                let is_stuck = !self.seen_a_batch.contains(&who);
                let withdrawn = self.state.withdraw_if_stuck(id);
                assert_eq!(withdrawn, is_stuck.then_some(who));
                if is_stuck {
                    self.waiting.remove(number);
                    self.gone.push(id);
                }
            }
            Event::Goes(_) => {
                for id in &self.gone {
                    assert_eq!(self.state.withdraw(*id), None);
                }
            }
            Event::RuntimeEnds if self.flusher != Flushing::Nobody => {
                self.flusher = Flushing::Nobody;
                assert_eq!(self.state.give_up().len(), self.waiting.len());
                self.gone.extend(self.waiting.drain(..).map(|it| it.0));
            }
            _ => {}
        }
    }

    fn command(&mut self, is_release: bool) {
        let who = (self.asked, is_release);
        self.asked += 1;
        let sent: usize = self.in_flight.iter().sum();
        let many = match self.takes {
            Takes::Half | Takes::OneSort | Takes::Window(_) => MOST,
            Takes::All => MANY,
        };
        let is_alone = match self.takes {
            Takes::Window(_) => self.waiting.is_empty() && self.not_before().is_none(),
            _ => sent < 2 && self.flusher == Flushing::Nobody && self.latest < many,
        };
        assert_eq!(self.state.claim_lone_flight(|| self.now), is_alone);
        if is_alone {
            self.in_flight.push(1);
            self.left_at = Some(self.now);
            return;
        }
        let (id, needs_flusher) = self.state.wait(is_release, who);
        assert_eq!(
            needs_flusher,
            self.flusher == Flushing::Nobody,
            "one at a time"
        );
        if needs_flusher {
            self.flusher = Flushing::Started;
        }
        self.waiting.push((id, who));
    }

    fn take(&mut self) {
        let sent: usize = self.in_flight.iter().sum();
        let most = match self.takes {
            Takes::Half => (self.waiting.len() + sent).div_ceil(2).min(MOST),
            Takes::All | Takes::OneSort | Takes::Window(_) => MOST,
        };
        let batch = self.state.next_batch(self.now);
        if !batch.is_empty() {
            self.latest = batch.len();
            self.left_at = Some(self.now);
        }
        let mut candidates = self.waiting.clone();
        if self.takes == Takes::OneSort {
            let waits = |sort: bool| self.waiting.iter().any(|(_, who)| who.1 == sort);
            self.latest_sort ^= waits(!self.latest_sort);
            candidates.retain(|(_, who)| who.1 == self.latest_sort);
        }
        let mut expected: Vec<_> = candidates.into_iter().take(most).collect();
        expected.sort_by_key(|(_, who)| !who.1);
        let who: Vec<_> = expected.iter().map(|it| it.1).collect();
        assert_eq!(
            batch, who,
            "the first ones, releases before acquires, or of one sort"
        );
        assert_eq!(batch.is_empty(), self.waiting.is_empty());
        self.waiting.retain(|it| !expected.contains(it));
        self.gone.extend(expected.iter().map(|it| it.0));
        self.seen_a_batch.extend(self.waiting.iter().map(|it| it.1));
        self.in_flight.push(batch.len());
    }

    /// Until the window is over.
    fn not_before(&self) -> Option<Instant> {
        let Takes::Window(window) = self.takes else {
            return None;
        };
        let end = self.left_at? + window;
        (self.now < end).then_some(end)
    }

    /// While an item waits, a flusher is pending.
    fn check(&self) {
        for (id, _) in &self.waiting {
            assert!(self.state.is_waiting(*id));
        }
        assert!(self.waiting.is_empty() || self.flusher != Flushing::Nobody);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { rng_seed: RngSeed::Fixed(7), failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn who_waits_is_sent_once_in_order_or_goes(
        events in vec(event(), 0..200),
        takes in prop_oneof![Just(Takes::Half), Just(Takes::All), Just(Takes::OneSort), Just(Takes::Window(WINDOW))],
    ) {
        let mut world = World::new(takes);
        for event in &events {
            world.step(event);
            world.check();
        }
        // Even without further answers, everything is sent.
        while world.flusher != Flushing::Nobody {
            world.now += WINDOW; // nobody waits for longer
            world.step(&Event::Takes);
            world.step(&Event::Sends);
        }
        assert!(world.waiting.is_empty());
        while !world.in_flight.is_empty() {
            world.step(&Event::Ends(0));
        }
        // Nothing is on its way: the next one goes alone, or the one behind it does.
        world.step(&Event::Command(false));
        world.now += WINDOW;
        world.step(&Event::Takes);
        world.step(&Event::Sends);
        world.step(&Event::Ends(0));
        world.now += WINDOW;
        assert!(world.state.claim_lone_flight(|| world.now));
    }
}

/// Half of the waiting items are sent first and the rest after them, so that client and server work
/// at the same time.
#[test]
fn what_comes_together_leaves_in_halves_until_a_batch_is_full() {
    let batches = |number: usize, takes: Takes| {
        let mut state = BatcherState::new(64, takes);
        for item in 0..number {
            state.wait(item % 2 == 0, item);
        }
        let batches = std::iter::from_fn(|| Some(state.next_batch(Instant::now()).len()));
        batches.take_while(|it| *it > 0).collect::<Vec<_>>()
    };
    for (number, expected) in [
        (1, vec![1]),
        (2, vec![1, 1]),
        (5, vec![3, 2]),
        (64, vec![32, 32]),
        (100, vec![50, 50]),
        (200, vec![64, 64, 64, 8]),
    ] {
        assert_eq!(batches(number, Takes::Half), expected, "of {number}");
    }
    // The others work meanwhile.
    for (number, expected) in [(1, vec![1]), (64, vec![64]), (100, vec![64, 36])] {
        assert_eq!(batches(number, Takes::All), expected, "of {number}");
    }
}

/// A caller and its item go in any order, and the slot is free again.
#[test]
fn a_slot_is_free_when_neither_caller_nor_item_is_left() {
    let waker = Waker::noop();
    let mut outcomes = Outcomes::new();
    let (read, late, withdrawn, missed) = (
        outcomes.open(waker),
        outcomes.open(waker),
        outcomes.open(waker),
        outcomes.open(waker),
    );
    assert!(outcomes.is_awaited(read));
    assert_eq!(outcomes.poll(read, waker).outcome(), None);
    assert!(
        outcomes.end(read, 1).is_some(),
        "its caller has to be woken"
    );
    assert!(!outcomes.is_awaited(read));
    assert_eq!(outcomes.poll(read, waker).outcome(), Some(1));

    assert_eq!(outcomes.departures(), 0);
    assert_eq!(outcomes.leave(late, false).outcome(), None);
    assert!(!outcomes.is_awaited(late));
    assert_eq!(outcomes.departures(), 1);
    assert_eq!(outcomes.in_use(), 3, "its item still has the slot");
    assert!(outcomes.end(late, 2).is_none(), "nobody is left");

    assert_eq!(outcomes.leave(withdrawn, true).outcome(), None);
    assert!(outcomes.end(missed, 3).is_some(), "it can be woken");
    assert_eq!(outcomes.leave(missed, false).outcome(), Some(3));
    assert_eq!(outcomes.departures(), 1, "these left no item behind");
    assert_eq!(outcomes.in_use(), 0);

    let again = outcomes.open(waker);
    assert!(outcomes.is_awaited(again));
    assert_eq!(outcomes.poll(again, waker).outcome(), None);
    assert_eq!(outcomes.in_use(), 1);
}

/// Dropping a waker may run anybody's code, also code that drops a guard and so comes back here.
#[test]
fn a_waker_that_is_replaced_or_left_behind_is_handed_out() {
    let waker = || Waker::from(Arc::new(Caller));
    let mut outcomes = Outcomes::<u8>::new();
    let [first, second] = [waker(), waker()];
    let slots = [(); 3].map(|()| outcomes.open(&first));
    for slot in slots {
        let replaced = outcomes.poll(slot, &second);
        assert!(matches!(&replaced, OutcomeSlot::Waits(it) if it.will_wake(&first)));
        assert!(
            matches!(outcomes.poll(slot, &second), OutcomeSlot::Free),
            "the same"
        );
    }
    let [stays, withdrawn, ends] = slots;
    for former in [
        outcomes.leave(stays, false),
        outcomes.leave(withdrawn, true),
    ] {
        assert!(matches!(&former, OutcomeSlot::Waits(it) if it.will_wake(&second)));
    }
    assert!(
        outcomes
            .end(ends, 1)
            .is_some_and(|it| it.will_wake(&second))
    );
}

/// Each has an address of its own.
struct Caller;

impl Wake for Caller {
    fn wake(self: Arc<Self>) {}
}
