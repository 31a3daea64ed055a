//! The properties that hold in every state.

use std::rc::Rc;
use std::time::Duration;

use super::host::queue_key;
use super::kind::{Holds, agree, is_kept_of, is_or_was, token_of_entry};
use super::process::{Begun, Body, Process};
use super::run::Run;
use super::token_rest::EveryAnswer;
use super::world::{FOREIGN, KEY, What, World, token_in};
use crate::client::local_queue::Remote;
use crate::values::moment::Moment;
use crate::values::token::Token;

impl World {
    /// A body begins: its fence is above all before it, and its token has no other body.
    pub(super) fn began(&mut self, begun: &Begun) {
        let body = &begun.body;
        if begun.twice {
            self.wrong = Some("S3b one token, two bodies");
        } else if !self.rises(body) && !self.promises_off && !self.is_excused(&body.claim.value) {
            self.wrong = Some("S8 a fence that does not rise");
        }
        // Where many may hold the lock at once, the fences order nothing.
        let orders = matches!(Holds::of(&body.claim.value), Holds::Alone | Holds::As(_));
        if orders && !self.is_excused(&body.claim.value) {
            self.last_fence = self.last_fence.max(body.fence);
            self.last_begun = Some(body.claim.value.clone());
        }
        if let Some(min_hold) = begun.min_hold {
            let until = body.time + u64::try_from(min_hold.as_micros()).expect("short");
            self.kept.push((body.claim.value.clone(), until));
            self.kept.sort_unstable();
        }
    }

    /// The entries of an owner share the epoch of their hold.
    fn rises(&self, body: &Body) -> bool {
        match Holds::of(&body.claim.value) {
            Holds::Takes { .. } => true,
            ours @ Holds::As(_) if body.fence == self.last_fence => {
                let last = self.last_begun.as_deref();
                last.is_some_and(|last| Holds::of(last) == ours)
            }
            _ => body.fence > self.last_fence,
        }
    }

    /// The property that this state breaks.
    pub(super) fn broken_property(&mut self, run: &Run) -> Option<&'static str> {
        let stands = self.standing();
        let broken = self.exclusion(&stands);
        let broken = broken.or_else(|| self.loss(run, &stands));
        let broken = broken.or_else(|| self.orphan(&stands));
        broken.or_else(|| self.looks_in_step())
    }

    /// Of every process's token table.
    pub(super) fn looks_in_step(&self) -> Option<&'static str> {
        let mut living = self.processes.iter().filter(|it| it.alive);
        living.find_map(|it| it.looks_in_step())
    }

    /// What would be left in the token table of a process, for good, if every command were answered
    /// so.
    pub(super) fn left_for_good(
        &self,
        longest: Duration,
        answer: EveryAnswer,
    ) -> Option<&'static str> {
        let mut living = self.processes.iter().filter(|it| it.alive);
        living.find_map(|it| it.runs_dry(self.clock_of(it.at).now(), longest, answer))
    }

    /// A token at the key or in the queue that its living process knows nothing about.
    pub(super) fn orphan(&mut self, stands: &[String]) -> Option<&'static str> {
        let time = self.clock.time();
        let queue = self.server().waiting(KEY, time);
        for (entry, alive_until) in &queue {
            if self.is_excused(entry) {
                continue;
            }
            let (at, token) = token_of_entry(entry).expect("the model's values");
            let owner = &self.processes[at];
            // No `cancel` of it was executed for so long that the entry is dead, and the next grant
            // drops it.
            let was_left = owner.given_up.contains(&token) && *alive_until <= time;
            let is_known = owner.is_place(token) || owner.client.tokens.is_cleaning_up(token);
            if owner.alive && !is_known && !was_left {
                return Some("S3c orphan in the queue");
            }
        }
        let answer_for = stands.iter().filter(|it| !self.is_excused(it));
        for (at, token) in answer_for.filter_map(|it| token_in(it)) {
            let owner = &self.processes[at];
            if owner.alive && !owner.knows(token) {
                return Some("S3c orphan at the key");
            }
        }
        None
    }

    /// A holder whose key was deleted learns of it before its lease would have ended.
    fn loss(&self, run: &Run, stands: &[String]) -> Option<&'static str> {
        let (now, latest) = (self.clock.now(), self.deleted?.plus(run.ttl));
        let living = self.processes.iter().filter(|it| it.alive);
        let mut bodies = living.flat_map(|it| it.bodies());
        let unaware = bodies.any(|body| {
            let believes = !body.lost && now < body.deadline;
            believes && body.deadline > latest && !stands_for(stands, &body.claim.value)
        });
        unaware.then_some("S9 a loss that is not noticed")
    }

    /// The bodies that believe that they hold the lock, and may rely on it.
    pub(super) fn believers(&self) -> Vec<&Body> {
        let mut believers = Vec::new();
        for process in self.processes.iter().filter(|it| it.alive) {
            let now = self.clock_of(process.at).now();
            let holds = |body: &&Body| !body.lost && now < body.deadline;
            let promised = |body: &&Body| !self.is_excused(&body.claim.value);
            believers.extend(process.bodies().filter(holds).filter(promised));
        }
        believers
    }

    /// Nothing is promised for this token: it is older than an event that breaks promises.
    pub(super) fn is_excused(&self, value: &str) -> bool {
        if self.excused.is_empty() {
            return false;
        }
        token_of_entry(value).is_some_and(|(at, token)| {
            let upto = self.excused.get(at).copied().unwrap_or(0);
            token <= Token::of_test(upto)
        })
    }

    pub(super) fn exclusion(&self, stands: &[String]) -> Option<&'static str> {
        if self.promises_off {
            return None;
        }
        let now = self.clock.now();
        let believers = self.believers();
        let foreign = self.foreign.filter(|until| now < *until);
        let mut holders: Vec<Holds<'_>> = believers.iter().map(|it| Holds::of_body(it)).collect();
        holders.extend(foreign.map(|_| Holds::Alone));
        if !agree(&holders) {
            return Some("S1 two believers");
        }
        let mut values = believers.iter().map(|body| &*body.claim.value);
        let foreign_gone = foreign.is_some() && !stands_for(stands, FOREIGN);
        if foreign_gone || values.any(|value| !stands_for(stands, value)) {
            return Some("S3a taken from under its believer");
        }
        for (value, _) in self.kept.iter().filter(|it| !self.is_excused(&it.0)) {
            if !stands_for(stands, value) && !stands.iter().any(|it| is_kept_of(it, value)) {
                return Some("S7 min_hold");
            }
        }
        None
    }

    /// Drops times that have passed, so that equal states have equal fingerprints.
    pub(super) fn tidy(&mut self) {
        let (time, now) = (self.clock.time(), self.clock.now());
        self.server().read(KEY, time);
        self.server().waiting(KEY, time);
        self.foreign = self.foreign.filter(|until| now < *until);
        self.kept.retain(|(_, until)| time < *until);
        for process in &mut self.processes {
            if let Some(Remote::Vacant { not_before }) = process.remote()
                && *not_before <= now
                && *not_before != Moment::from_nanos(0)
            {
                let queue = &mut Rc::make_mut(process).client.queues;
                let queue = queue.by_key.get_mut(&queue_key()).expect("it is there");
                queue.queue.pause(Moment::from_nanos(0));
            }
        }
    }
}

fn stands_for(stands: &[String], value: &str) -> bool {
    stands.iter().any(|it| is_or_was(it, value))
}

impl Process {
    fn is_place(&self, token: Token) -> bool {
        self.remote().and_then(place_of) == Some(token)
    }

    /// The token is in its table, or a release or cancel of it is on its way.
    fn knows(&self, token: Token) -> bool {
        let ends = |what: &What| matches!(what, What::Release { .. } | What::Cancel { .. });
        self.client.tokens.next_check_at(token).is_some()
            || self
                .pushes
                .iter()
                .any(|push| token_in(&push.value).is_some_and(|(_, theirs)| theirs == token))
            || [&self.commands, &self.watchdog].iter().any(|wire| {
                let mut sent = wire.out.iter();
                sent.any(|command| command.token == token && ends(&command.what))
            })
    }
}

fn place_of(remote: &Remote) -> Option<Token> {
    match remote {
        Remote::Acquiring(token)
        | Remote::Queued { token, .. }
        | Remote::Granted(token, _)
        | Remote::Held(token, _) => Some(*token),
        Remote::Vacant { .. } => None,
    }
}
