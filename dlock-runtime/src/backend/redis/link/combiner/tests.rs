//! The state of a combiner in random sequences of what can happen to it.

use std::time::Duration;

use proptest::collection::vec;
use proptest::prelude::{Just, Strategy, any, prop_oneof};
use proptest::proptest;
use proptest::test_runner::{Config as ProptestConfig, RngSeed};
use tokio::sync::oneshot;
use tokio::time::Instant;

use super::state::{State, Ticket};
use super::{Ask, Combiner, Item, Outcome};
use crate::backend::fault::Fault;
use crate::backend::redis::reply;

const AT_ONCE: usize = 2;
const MOST: usize = 3;

#[derive(Clone, Debug)]
enum Event {
    /// Somebody asks, for a release or not.
    Ask(bool),
    /// The command of one of the callers that have a slot ends.
    Ends,
    /// One of the carriers has its answer, and looks for more.
    Answered,
    /// One of those who asked has waited for long, or goes; it may be in a batch by now.
    Hurry(usize),
    Goes(usize),
    /// A carrier's runtime ends.
    RuntimeEnds,
}

fn event() -> impl Strategy<Value = Event> {
    let number = || 0..8_usize;
    prop_oneof![
        6 => any::<bool>().prop_map(Event::Ask),
        3 => Just(Event::Ends),
        4 => Just(Event::Answered),
        1 => number().prop_map(Event::Hurry),
        2 => number().prop_map(Event::Goes),
        1 => Just(Event::RuntimeEnds),
    ]
}

/// Who asked, by number, and whether for a release.
type Who = (usize, bool);

/// What the state has to account for.
struct World {
    state: State<Who>,
    asked: usize,
    /// Callers with a slot.
    direct: usize,
    carriers: usize,
    /// In order of arrival.
    waiting: Vec<(Ticket, Who)>,
    gone: Vec<Ticket>,
}

impl World {
    fn step(&mut self, event: &Event) {
        match *event {
            Event::Ask(is_release) => self.ask(is_release),
            Event::Ends if self.direct > 0 => {
                self.direct -= 1;
                let goes_on = self.state.ended();
                assert_eq!(goes_on, !self.waiting.is_empty());
                self.carriers += usize::from(goes_on);
            }
            Event::Answered if self.carriers > 0 => self.next_batch(),
            Event::Hurry(number) => {
                if let Some((ticket, _)) = self.waiting.get(number) {
                    assert!(self.state.hurry(*ticket));
                    self.carriers += 1;
                }
                for ticket in &self.gone {
                    assert!(!self.state.hurry(*ticket), "in a batch, or gone");
                }
            }
            Event::Goes(number) if number < self.waiting.len() => {
                let (ticket, who) = self.waiting.remove(number);
                assert_eq!(self.state.withdraw(ticket), Some(who));
                self.gone.push(ticket);
            }
            Event::Goes(_) => {
                for ticket in &self.gone {
                    assert_eq!(self.state.withdraw(*ticket), None);
                }
            }
            Event::RuntimeEnds if self.carriers > 0 => {
                self.carriers -= 1;
                assert_eq!(self.state.give_up().len(), self.waiting.len());
                self.gone.extend(self.waiting.drain(..).map(|it| it.0));
            }
            _ => {}
        }
    }

    fn ask(&mut self, is_release: bool) {
        let who = (self.asked, is_release);
        self.asked += 1;
        let free = self.direct + self.carriers < AT_ONCE;
        assert_eq!(self.state.goes_at_once(), free, "a lone one never waits");
        if free {
            self.direct += 1;
        } else {
            let ticket = self.state.wait(is_release, who);
            self.waiting.push((ticket, who));
        }
    }

    fn next_batch(&mut self) {
        let batch = self.state.next_batch();
        let releases = self.waiting.iter().filter(|(_, who)| who.1);
        let acquires = self.waiting.iter().filter(|(_, who)| !who.1);
        let releases = releases.take(MOST - acquires.clone().count().min(1));
        let expected: Vec<_> = releases.chain(acquires).copied().take(MOST).collect();
        let who: Vec<_> = expected.iter().map(|it| it.1).collect();
        assert_eq!(batch, who, "releases first, each in order of arrival");
        self.waiting.retain(|it| !expected.contains(it));
        self.gone.extend(expected.iter().map(|it| it.0));
        self.carriers -= usize::from(batch.is_empty());
    }

    /// Somebody is there who looks for those who wait.
    fn check(&self) {
        let under_way = self.direct + self.carriers;
        assert!(self.waiting.is_empty() || under_way >= AT_ONCE);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { rng_seed: RngSeed::Fixed(7), failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn who_waits_is_sent_once_in_order_or_goes(events in vec(event(), 0..200)) {
        let mut world = World {
            state: State::new(AT_ONCE, MOST),
            asked: 0,
            direct: 0,
            carriers: 0,
            waiting: Vec::new(),
            gone: Vec::new(),
        };
        for event in &events {
            world.step(event);
            world.check();
        }
        while world.direct + world.carriers > 0 {
            world.step(&Event::Ends);
            world.step(&Event::Answered);
        }
        assert!(world.waiting.is_empty());
        assert!(world.state.goes_at_once(), "all slots came back");
    }
}

/// Locks that are taken together come by another way, and give their releases to this one without an acquire.
#[test]
fn releases_without_end_keep_no_acquire_waiting() {
    let mut state = State::new(AT_ONCE, MOST);
    let is_release = true;
    let ticket = state.wait(!is_release, !is_release);
    for _ in 0..MOST * 2 {
        for _ in 0..MOST {
            state.wait(is_release, is_release);
        }
        if state.next_batch().contains(&!is_release) {
            return;
        }
    }
    panic!("{ticket:?} still waits");
}

/// For the tests of what a batch answers.
impl Combiner {
    /// One batch, at once.
    pub(in crate::backend::redis) async fn ask_together(
        &self,
        asks: Vec<Ask<'static>>,
        within: Duration,
    ) -> Vec<Option<Result<reply::Item, Fault>>> {
        let until = Instant::now() + within;
        let item = |ask| {
            let (answer, receiver) = oneshot::channel();
            (Item { ask, until, answer }, receiver)
        };
        let (batch, receivers): (Vec<_>, Vec<_>) = asks.into_iter().map(item).unzip();
        self.send(batch).await;
        let outcome = |mut it: oneshot::Receiver<Outcome>| match it
            .try_recv()
            .expect("everybody is answered")
        {
            Outcome::Answered(value) => Some(Ok(value)),
            Outcome::Failed(fault) => Some(Err(fault)),
            Outcome::Alone => None,
        };
        receivers.into_iter().map(outcome).collect()
    }
}
