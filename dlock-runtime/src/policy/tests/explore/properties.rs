//! What must hold in every state.

use std::rc::Rc;

use super::process::{Begun, Process};
use super::run::Run;
use super::serve::holder_of;
use super::world::{FOREIGN, KEY, What, World};
use crate::policy::gate::{Gate, Place};
use crate::policy::queue;
use crate::values::moment::Moment;
use crate::values::token::Token;

impl World {
    /// A body begins: with a fence above all before it, and as the only one of its token.
    pub(super) fn began(&mut self, run: &Run, begun: &Begun) {
        let body = &begun.body;
        if begun.twice {
            self.wrong = Some("S3b one token, two bodies");
        } else if body.epoch <= self.last_fence && !self.promises_off {
            self.wrong = Some("S8 a fence that does not rise");
        }
        self.last_fence = self.last_fence.max(body.epoch);
        if let Some(min_hold) = run.min_hold {
            let until = body.time + u64::try_from(min_hold.as_micros()).expect("short");
            self.kept = Some((body.claim.value.clone(), until));
        }
    }

    /// The property that this state breaks.
    pub(super) fn broken_property(&mut self, run: &Run) -> Option<&'static str> {
        let (time, now) = (self.clock.time(), self.clock.now());
        let stands = self.server().read(KEY, time);
        let queue = self.server().waiting(KEY, time);
        let broken = self.exclusion(stands.as_deref(), now);
        if let Some(broken) = broken.or_else(|| self.loss(run, stands.as_deref(), now)) {
            return Some(broken);
        }
        for (entry, _) in &queue {
            let value = queue::read(entry).expect("the model's entries").value;
            let (at, token) = holder_of(value).expect("the model's values");
            let owner = &self.processes[at];
            if owner.alive && !owner.is_place(token) && !owner.tokens.is_cleaning_up(token) {
                return Some("S3c orphan in the queue");
            }
        }
        if let Some((at, token)) = stands.as_deref().and_then(holder_of) {
            let owner = &self.processes[at];
            if owner.alive && !owner.knows(token) {
                return Some("S3c orphan at the key");
            }
        }
        None
    }

    /// Whose key was deleted behind its back learns of it before its lease would have ended.
    fn loss(&self, run: &Run, stands: Option<&str>, now: Moment) -> Option<&'static str> {
        let latest = self.deleted?.plus(run.ttl);
        let living = self.processes.iter().filter(|it| it.alive);
        let mut bodies = living.flat_map(|it| it.bodies());
        let unaware = bodies.any(|body| {
            let believes = !body.lost && now < body.deadline;
            believes && body.deadline > latest && stands != Some(&*body.claim.value)
        });
        unaware.then_some("S9 a loss that is not noticed")
    }

    fn exclusion(&self, stands: Option<&str>, now: Moment) -> Option<&'static str> {
        if self.promises_off {
            return None;
        }
        let living = self.processes.iter().filter(|it| it.alive);
        let bodies = living.flat_map(|it| it.bodies());
        let believers = bodies.filter(|body| !body.lost && now < body.deadline);
        let mut values: Vec<&str> = believers.map(|body| &*body.claim.value).collect();
        if self.foreign.is_some_and(|until| now < until) {
            values.push(FOREIGN);
        }
        if values.len() > 1 {
            return Some("S1 two believers");
        }
        if values.iter().any(|value| stands != Some(value)) {
            return Some("S3a taken from under its believer");
        }
        if let Some((value, _)) = &self.kept {
            let retired = format!("1|-{}", &value[2..]);
            if stands != Some(value) && stands != Some(&retired) {
                return Some("S7 min_hold");
            }
        }
        None
    }

    /// Drops what has passed, so that like states are alike.
    pub(super) fn tidy(&mut self) {
        let (time, now) = (self.clock.time(), self.clock.now());
        self.server().read(KEY, time);
        self.server().waiting(KEY, time);
        self.foreign = self.foreign.filter(|until| now < *until);
        self.kept = self.kept.take().filter(|(_, until)| time < *until);
        for process in &mut self.processes {
            if let Place::Vacant { not_before } = process.gate.place()
                && *not_before <= now
                && *not_before != Moment::from_nanos(0)
            {
                Rc::make_mut(process).gate.pause(Moment::from_nanos(0));
            }
        }
    }
}

impl Process {
    fn is_place(&self, token: Token) -> bool {
        place_of(&self.gate) == Some(token)
    }

    /// Its table has it, or a word about it is on its way.
    fn knows(&self, token: Token) -> bool {
        let ends = |what: &What| matches!(what, What::Release { .. } | What::Cancel { .. });
        self.tokens.next_look_at(token).is_some()
            || self
                .pushes
                .iter()
                .any(|push| holder_of(&push.value).is_some_and(|(_, theirs)| theirs == token))
            || [&self.commands, &self.guardian].iter().any(|wire| {
                let mut sent = wire.out.iter();
                sent.any(|command| command.token == token && ends(&command.what))
            })
    }
}

fn place_of(gate: &Gate<usize>) -> Option<Token> {
    match gate.place() {
        Place::Asking(position) | Place::Queued { position, .. } | Place::Offered(position, _) => {
            Some(position.token)
        }
        Place::Held(token) => Some(*token),
        Place::Vacant { .. } => None,
    }
}
