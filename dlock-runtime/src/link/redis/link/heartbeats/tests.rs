//! Property test of the heartbeats' state: random sequences of heartbeats, pauses and dropped
//! callers. Every heartbeat is sent once, within the window, or withdrawn.

use std::time::Duration;

use proptest::collection::vec;
use proptest::prelude::{Strategy, prop_oneof};
use proptest::proptest;
use proptest::test_runner::{Config as ProptestConfig, RngSeed};
use tokio::sync::oneshot;
use tokio::time::Instant;

use super::state::{BatchNumber, HeartbeatId, HeartbeatState};
use super::{HeartbeatItem, HeartbeatOutcome, Heartbeats};
use crate::rules::commands::Claim;

const WINDOW: Duration = Duration::from_millis(25);
const MOST: usize = 3;

#[derive(Clone, Debug)]
enum Event {
    /// This many ms pass, and due batches are sent.
    Pass(u64),
    Beats,
    /// A waiting caller goes, or one whose heartbeat is in a batch.
    Goes(usize),
}

fn event() -> impl Strategy<Value = Event> {
    prop_oneof![
        3 => (1..40_u64).prop_map(Event::Pass),
        6 => (0..1_u8).prop_map(|_| Event::Beats),
        2 => (0..4_usize).prop_map(Event::Goes),
    ]
}

/// The model that the state is compared with.
struct World {
    state: HeartbeatState<usize>,
    now: Instant,
    beats: usize,
    /// When the last command went out.
    last: Option<Instant>,
    /// Batches with the time at which they are sent.
    due: Vec<(Instant, BatchNumber)>,
    waiting: Vec<(HeartbeatId, usize)>,
    gone: Vec<HeartbeatId>,
}

impl World {
    fn step(&mut self, event: &Event) {
        match *event {
            Event::Beats => self.beats(),
            Event::Pass(ms) => self.pass(Duration::from_millis(ms)),
            Event::Goes(at) if at < self.waiting.len() => {
                let (id, who) = self.waiting.remove(at);
                assert_eq!(self.state.withdraw(id), Some(who));
                self.gone.push(id);
            }
            Event::Goes(_) => {
                for id in &self.gone {
                    assert_eq!(self.state.withdraw(*id), None);
                }
            }
        }
    }

    fn beats(&mut self) {
        let who = self.beats;
        self.beats += 1;
        let is_lone = self.last.is_none_or(|last| last + WINDOW <= self.now);
        let at_once = self.state.claim_lone_poll(self.now);
        assert_eq!(at_once, is_lone && self.waiting.is_empty(), "who waits");
        if at_once {
            self.last = Some(self.now);
            return;
        }
        let waits = self.state.wait(who, self.now);
        self.waiting.push((waits.id, who));
        if let Some((due, number)) = waits.opens {
            assert!(due <= self.now + WINDOW, "nobody waits for longer");
            self.due.push((due, number));
        }
        assert_eq!(waits.full.is_empty(), self.waiting.len() < MOST);
        if !waits.full.is_empty() {
            self.sent(&waits.full);
        }
    }

    fn pass(&mut self, time: Duration) {
        let until = self.now + time;
        while let Some(at) = self.due.iter().position(|(due, _)| *due <= until) {
            let (due, number) = self.due.remove(at);
            self.now = self.now.max(due);
            let batch = self.state.due(number, self.now);
            if !batch.is_empty() {
                self.sent(&batch);
            }
        }
        self.now = until;
    }

    /// A batch has all waiting items, once each and in order.
    fn sent(&mut self, batch: &[usize]) {
        let expected: Vec<_> = self.waiting.iter().map(|it| it.1).collect();
        assert_eq!(batch, expected);
        assert!(batch.len() <= MOST);
        self.gone.extend(self.waiting.drain(..).map(|it| it.0));
        self.last = Some(self.now);
    }

    /// While an item waits, a time is set at which it is sent.
    fn check(&self) {
        assert!(self.waiting.is_empty() || !self.due.is_empty());
    }
}

proptest! {
    #![proptest_config(ProptestConfig { rng_seed: RngSeed::Fixed(7), failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn who_waits_is_sent_once_within_the_window_or_goes(events in vec(event(), 0..200)) {
        let mut world = World {
            state: HeartbeatState::new(WINDOW, MOST),
            now: Instant::now(),
            beats: 0,
            last: None,
            due: Vec::new(),
            waiting: Vec::new(),
            gone: Vec::new(),
        };
        for event in &events {
            world.step(event);
            world.check();
        }
        world.step(&Event::Pass(25));
        assert!(world.waiting.is_empty());
        world.step(&Event::Pass(25));
        assert!(world.state.claim_lone_poll(world.now), "a lone one waits for nobody");
    }
}

/// Access for the tests of a batch's answers.
impl Heartbeats {
    /// Sends one command at once.
    pub(crate) async fn beat_together(
        &self,
        claims: Vec<Claim>,
        within: Duration,
    ) -> Vec<Option<HeartbeatOutcome>> {
        let until = Instant::now() + within;
        let item = |claim| {
            let (answer, receiver) = oneshot::channel();
            (
                HeartbeatItem {
                    claim,
                    until,
                    answer,
                },
                receiver,
            )
        };
        let (batch, receivers): (Vec<_>, Vec<_>) = claims.into_iter().map(item).unzip();
        self.send(batch).await;
        let outcome = |mut it: oneshot::Receiver<HeartbeatOutcome>| it.try_recv().ok();
        receivers.into_iter().map(outcome).collect()
    }
}
