//! Runs the heartbeats of several claims in one command on the real server. If it answers that a
//! claim still waits, a poll on the pure machine must answer the same and change only the
//! heartbeat; if it answers that the claim has to poll, both servers are polled.

use std::time::Duration;

use super::Pair;
use crate::link::redis::link::batcher::HeartbeatPace;
use crate::link::redis::tests::alike::Who;
use crate::link::redis::tests::lab::CAP;
use crate::rules::Server;
use crate::rules::commands::{Claim, Left, Polled};

impl Pair<'_> {
    pub(super) async fn heartbeats(&mut self, people: &[Who]) {
        let mut people = people.to_vec();
        people.retain(|who| self.named(*who).queues);
        let claims: Vec<_> = people.iter().map(|who| self.named(*who)).collect();
        let heartbeats = self.lab.link.heartbeats(HeartbeatPace::of(CAP));
        let answers = heartbeats.beat_together(claims.clone(), CAP).await;
        let answers = answers.into_iter();
        let answers: Vec<_> = answers.map(|it| it.expect("no error")).collect();
        self.compare_told().await; // no lock was granted
        let is_sent = claims.len() > 1;
        for (claim, (key, _)) in claims.iter().zip(&people) {
            if is_sent && !self.other_type.contains(key) {
                self.pure.beat(&claim.key, &claim.value, self.time);
            }
            // What has lapsed is absent on the real server, and is now removed here too.
            self.pure.read(&claim.key, self.time);
        }
        for (at, answer) in answers.iter().enumerate() {
            match answer {
                Some(answer) => self.still_waits(answer, at, &claims, &answers),
                None if is_sent && !self.other_type.contains(&people[at].0) => {
                    self.has_a_reason(&claims[at], &claims);
                }
                None => {}
            }
        }
        for (who, answer) in people.iter().zip(answers) {
            if answer.is_none() {
                self.poll(*who).await;
            }
        }
    }

    fn still_waits(
        &mut self,
        real: &Polled,
        at: usize,
        claims: &[Claim],
        answers: &[Option<Polled>],
    ) {
        let (claim, time) = (&claims[at], self.time);
        let waiting = self.pure.waiting(&claim.key, time);
        assert!(waiting.iter().any(|it| it.0 == claim.value), "not there");
        let Polled::Queued(busy) = real else {
            panic!("{real:?}");
        };
        let is_left_to_others = busy.value.is_empty() && busy.left == Left::For(Duration::ZERO);
        let mut others = claims.iter().zip(answers);
        if is_left_to_others && others.any(|it| it.1.is_none() && are_together(it.0, claim)) {
            return;
        }
        let (pure, after) = self.polled(claim);
        self.compare_polled(real.clone(), pure);
        assert!(after == self.pure, "a poll of {claim:?} changes something");
    }

    /// A poll of some claim in its group would do more than refresh the heartbeat.
    fn has_a_reason(&mut self, claim: &Claim, claims: &[Claim]) {
        let group = claims.iter().filter(|it| are_together(it, claim));
        let does_more = |it: &Claim| {
            let (answer, after) = self.polled(it);
            !matches!(answer, Polled::Queued(_)) || after != self.pure
        };
        assert!(group.clone().any(does_more), "{group:?} poll for nothing");
    }

    /// Polls on a copy of the machine.
    fn polled(&self, claim: &Claim) -> (Polled, Server) {
        let mut pure = self.pure.clone();
        let mut wire = self.wire.clone();
        let answer = pure.poll(claim, self.time, &mut wire);
        (answer, pure)
    }
}

/// Whether both claims are in one group of the command.
fn are_together(one: &Claim, other: &Claim) -> bool {
    let is_shared = |it: &Claim| it.kind().is_shared();
    one.key == other.key && is_shared(one) == is_shared(other)
}
