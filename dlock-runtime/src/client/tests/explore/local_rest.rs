//! What follows in every state of the waiters of one process: news of other tokens change nothing,
//! and once nothing more goes wrong, each waiter is served within a few steps.
//!
//! Checked by the search and by the random walks alike, beside the properties of `local_runs`.

use super::host::queue_key;
use super::local::{Local, LocalRun, LocalSeen};
use super::local_steps::{Answer, Forgets, LEASE, LeaderTask, LocalHost, Step, Waiter};
use crate::client::local_queue::{Grant, MessageOutcome, Remote};
use crate::client::{ClientActions, LeaderEpoch};
use crate::rules::tests::explore::{Model, Outcome};
use crate::values::token::Token;

/// A waiter's part: it enters or is in line, somebody sends for it, it takes the lock and releases it.
const STEPS_EACH: usize = 10;

impl Local {
    /// A late answer or push about a token that is not awaited, of this process or not, is no news,
    /// and its holder's end is no end of another hold.
    pub(super) fn wrong_by_news_of_others(&self) -> Option<&'static str> {
        let tokens = (1..=self.asked + 1).map(|number| (number, Token::of_test(number)));
        let heeds = |(number, token): (u64, Token)| self.heeds(number, token);
        let mut others = tokens.filter(|(_, token)| self.awaited() != Some(*token));
        others.any(heeds).then_some("news of another token count")
    }

    fn heeds(&self, number: u64, token: Token) -> bool {
        let (now, grant) = (self.at(), Grant::in_turn(self.at(), LEASE, 1, 1));
        let (key, value) = (queue_key(), number.to_string());
        let mut client = self.client.clone();
        let mut out = ClientActions::<LocalHost>::default();
        let push = (key.key(), token, &*value);
        let mut is_news = client.pushed(push, Some(grant), (now, &mut out)) || out.wake.is_some();
        if let Some(state) = client.queues.by_key.get_mut(&key) {
            let queue = &mut state.queue;
            is_news |= queue.queued(token, now) != MessageOutcome::NotOurs;
            is_news |= queue.granted(token, grant) != MessageOutcome::NotOurs;
            is_news |= queue.ended(token, now);
            if !matches!(queue.remote(), Remote::Held(ours, _) if *ours == token) {
                is_news |= queue.hand_on(token, now, |_, _| true);
                queue.left(token, now);
            }
        }
        is_news || client != self.client
    }

    /// From here on the server answers, no runtime ends and no waiter leaves: everybody, and those
    /// who have not come yet, get the lock in turn, and nothing is left of any token. `acquired`:
    /// the answer to each acquire.
    pub(super) fn serves_all(
        &self,
        run: &LocalRun,
        acquired: Answer,
    ) -> Result<(), (&'static str, Vec<Step>)> {
        let calm = LocalRun {
            forgets: Forgets::Nothing,
            ..*run
        };
        let (mut local, mut way) = (self.clone(), vec![Step::Calm]);
        let waiters = self.waiters.iter();
        let most = STEPS_EACH * (1 + waiters.filter(|it| **it != Waiter::Gone).count());
        loop {
            let step = *way.last().expect("the first one is there");
            if let Outcome::Wrong(wrong) = local.step(&calm, step, &mut LocalSeen::default()) {
                return Err((wrong, way));
            }
            if local.is_served() {
                return Ok(());
            }
            if way.len() > most {
                return Err(("not everybody is served", way));
            }
            way.push(local.calm_step(&calm, acquired));
        }
    }

    fn is_served(&self) -> bool {
        let is_gone = |it: &Waiter| *it == Waiter::Gone;
        self.waiters.iter().all(is_gone)
            && self.leaders.is_empty()
            && self.client.queues.by_key.is_empty()
            && self.client.tokens.all().is_empty()
    }

    /// The first step of a world in which nothing goes wrong; without one, time passes.
    fn calm_step(&self, run: &LocalRun, acquired: Answer) -> Step {
        let mut steps = Vec::new();
        self.steps(run, &mut steps);
        let polls =
            |epoch: &LeaderEpoch| matches!(self.leaders.get(epoch), Some(LeaderTask::Polling(_)));
        let is_calm = |step: &&Step| match step {
            Step::Enter(_)
            | Step::Look(_)
            | Step::Dropped(_)
            | Step::Release(_)
            | Step::Lead(_) => true,
            Step::OwnConnected(_, is_connected) | Step::Connected(_, is_connected) => *is_connected,
            Step::Answer(epoch, answer) if polls(epoch) => *answer == Answer::Granted,
            Step::OwnAnswer(_, answer) | Step::Answer(_, answer) => *answer == acquired,
            _ => false,
        };
        steps.iter().find(is_calm).copied().unwrap_or(Step::Tick)
    }
}
