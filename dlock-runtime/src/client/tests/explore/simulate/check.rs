//! What must hold in a simulation, at each step and at the end.
//!
//! The properties are the explorer's (`properties`, `judge`). This file adds what only time and
//! numbers show: that no waiter starves, that a claim ends, that nothing is left.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use super::fleet::Fleet;
use crate::client::tests::explore::kind::{Holds, fits, is_or_was, token_of_entry};
use crate::client::tests::explore::process::Phase;
use crate::client::tests::explore::token_rest::EVERY_ANSWER;
use crate::client::tests::explore::world::{Answer, Command, KEY, What, World, token_in};
use crate::rules::commands::Acquired;
use crate::rules::queue::{CLAIM, HEARTBEAT};
use crate::values::entry;
use crate::values::moment::Moment;
use crate::values::token::Token;

/// If a waiter could have the lock, somebody has it after this time, if nothing goes wrong
/// meanwhile.
const WAITS_AT_MOST: u64 = 12_000_000;

/// After a server's clock was set, a connection may use the old time for this long.
const OLD_TIME: u64 = 3_000_000;

/// The interval of the audits.
const EVERY: u64 = 500_000;

#[derive(Debug, Default)]
pub(super) struct Check {
    /// The latest time at which something went wrong.
    disturbed: u64,
    /// Until when everything that exists is excused.
    excuses_until: u64,
    /// Since when a waiter could have the lock, but does not have it.
    idle_since: Option<u64>,
    began: u64,
    seen_begun: u64,
    /// Values that were granted out of the queue, with the times of their grants: by the server's
    /// clock, and true. A value is removed when its body begins.
    claims: BTreeMap<String, (u64, u64)>,
    /// When the server last saw a sign of life of each queue entry, by its own clock.
    signs: BTreeMap<String, u64>,
    /// The holders of the lock when it was deleted, with the latest deadline that a command sent
    /// before can give.
    deleted: Vec<(usize, Token, Moment)>,
    twice: bool,
}

/// What stood at the server before a command.
pub(super) struct Before {
    waiting: Vec<String>,
    standing: Vec<String>,
}

impl Before {
    pub(super) fn of(world: &mut World) -> Self {
        let time = world.clock.time();
        let waiting = world.server().waiting(KEY, time);
        let value = |(entry, _): &(Arc<str>, u64)| entry.to_string();
        Self {
            waiting: waiting.iter().map(value).collect(),
            standing: world.standing(),
        }
    }
}

impl Check {
    pub(super) fn disturbed(&mut self, now: u64) {
        self.disturbed = now;
        self.idle_since = None;
    }

    pub(super) fn calms(&mut self, now: u64) {
        self.disturbed(now);
    }

    pub(super) fn promises_broken(&mut self, now: u64) {
        self.excuses_until = now + OLD_TIME;
    }

    pub(super) fn is_excusing(&self, now: u64) -> bool {
        now < self.excuses_until
    }

    /// A replica has what was deleted.
    pub(super) fn restored(&mut self) {
        self.deleted.clear();
    }

    pub(super) fn twice_next(&mut self) {
        self.twice = true;
    }

    pub(super) fn takes_twice(&mut self) -> bool {
        std::mem::take(&mut self.twice)
    }

    pub(super) fn begins(&mut self, value: &str) {
        self.began += 1;
        self.claims.remove(value);
    }

    /// Records the values that were granted out of the queue.
    pub(super) fn executed(&mut self, before: &Before, world: &mut World, now: u64) {
        let time = world.clock.time();
        for value in world.standing() {
            if !before.standing.contains(&value) && before.waiting.contains(&value) {
                self.claims.insert(value, (time, now));
            }
        }
    }
}

fn is_shared(value: &str) -> bool {
    entry::read(value).is_some_and(|it| it.letter.is_shared())
}

impl Check {
    /// S12: after a command of a kind with many holders, unless a value is stored at the key, the head
    /// of the queue has shown a sign of life recently enough.
    pub(super) fn head_is_dead(
        &mut self,
        world: &mut World,
        command: &Command,
        answer: Option<&Answer>,
    ) -> Option<&'static str> {
        let time = world.clock.time();
        let value = &command.claim().value;
        if matches!(command.what, What::Acquire(_) | What::Poll(_)) {
            self.signs.insert(value.to_string(), time);
        }
        let waiting = world.server().waiting(KEY, time);
        let stands = |value: &String| waiting.iter().any(|(it, _)| **it == **value);
        self.signs.retain(|value, _| stands(value));
        let sweeps = match &command.what {
            What::Renew(_) => false,
            What::Acquire(_) => {
                !matches!(answer, Some(Answer::Acquired(Acquired::Late { .. })) | None)
            }
            _ => is_shared(value),
        };
        let is_taken =
            world.server().meta(KEY, time).is_none() && world.server().read(KEY, time).is_some();
        let sweeps = sweeps && !is_taken;
        let (first, _) = waiting.first().filter(|_| sweeps && is_shared(value))?;
        let sign = self.signs.get(&**first)?;
        let most = u64::try_from(HEARTBEAT.as_micros()).expect("short");
        (sign + most < time).then_some("S12 a dead waiter stands first")
    }
}

impl Fleet {
    /// Checks each step.
    pub(super) fn judge(&mut self) {
        if self.wrong.is_some() {
            return;
        }
        if self.check.is_excusing(self.now) {
            let until = self.check.excuses_until;
            self.breaks_promises();
            self.check.excuses_until = until;
        }
        let clock = self.site.clock(self.now);
        self.world.clock = clock;
        for (at, member) in self.members.iter().enumerate() {
            self.world.clocks[at] = member.host.clock.clock(self.now);
        }
        let time = clock.time();
        self.world.kept.retain(|(_, until)| time < *until);
        self.world.foreign = self.world.foreign.filter(|until| clock.now() < *until);
        let stands = self.world.standing();
        let broken = self.world.exclusion(&stands);
        let broken = broken.or_else(|| self.world.orphan(&stands));
        let broken = broken.or_else(|| self.world.looks_in_step());
        self.wrong = broken.or_else(|| self.unnoticed(&stands));
    }

    /// A key is deleted behind its holders' backs. The lock may still be handed on inside a
    /// process, on other terms.
    pub(super) fn notes_holders(&mut self) {
        let longest = Duration::from_micros(self.plan.longest());
        for process in self.world.processes.iter().filter(|it| it.alive) {
            let now = self.members[process.at].host.clock.clock(self.now).now();
            for body in process.bodies() {
                let latest = now.plus(longest);
                self.check.deleted.push((process.at, body.token, latest));
            }
        }
    }

    /// S9: a holder whose lock was deleted learns of it before its lease would have ended.
    fn unnoticed(&mut self, stands: &[String]) -> Option<&'static str> {
        let (world, check) = (&self.world, &mut self.check);
        check.deleted.retain(|(at, token, _)| {
            let process = &world.processes[*at];
            process.bodies().any(|body| body.token == *token)
        });
        let unnoticed = check.deleted.iter().any(|(at, token, latest)| {
            let now = world.clock_of(*at).now();
            let mut bodies = world.processes[*at]
                .bodies()
                .filter(|it| it.token == *token);
            bodies.any(|body| {
                let stands = stands.iter().any(|it| is_or_was(it, &body.claim.value));
                !body.lost && now < body.deadline && body.deadline > *latest && !stands
            })
        });
        unnoticed.then_some("S9 a loss that is not noticed")
    }

    /// Checks at regular intervals.
    pub(super) fn audit(&mut self) {
        self.at(self.now + EVERY, super::fleet::Next::Audit);
        let mut answers = EVERY_ANSWER.into_iter().cycle();
        let answer = usize::try_from(self.now / EVERY)
            .ok()
            .and_then(|it| answers.nth(it % 4));
        let longest = Duration::from_micros(self.plan.longest());
        let left = answer.and_then(|answer| self.world.left_for_good(longest, answer));
        self.wrong = self.wrong.or(left);
        if !self.site.is_up {
            return self.check.disturbed(self.now);
        }
        self.world.clock = self.site.clock(self.now);
        let stands = self.world.standing();
        self.wrong = self.wrong.or_else(|| self.overdue_claim(&stands));
        self.wrong = self.wrong.or_else(|| self.left_behind(&stands));
        let could = self.somebody_could_have_it(&stands);
        if !could || self.check.seen_begun != self.check.began {
            self.check.seen_begun = self.check.began;
            self.check.idle_since = None;
            return;
        }
        let since = *self.check.idle_since.get_or_insert(self.now);
        if since + WAITS_AT_MOST < self.now {
            self.wrong = self
                .wrong
                .or(Some("L2 somebody waits for a lock that it could have"));
        }
    }

    /// S10: a grant to a waiter that had died before ends with its claim.
    fn overdue_claim(&mut self, stands: &[String]) -> Option<&'static str> {
        let time = self.world.clock.time();
        self.check.claims.retain(|value, _| stands.contains(value));
        let most = u64::try_from(CLAIM.as_micros()).expect("short") + 2_000;
        let overdue = self.check.claims.iter().any(|(value, (granted, then))| {
            let died = token_in(value).and_then(|(at, _)| self.members[at].died);
            let was_dead = died.is_some_and(|died| died < *then);
            was_dead && time > granted + most && !self.world.is_excused(value)
        });
        overdue.then_some("S10 a claim that does not end")
    }

    /// S11: a process that was shut down in peace leaves nothing.
    fn left_behind(&mut self, stands: &[String]) -> Option<&'static str> {
        let time = self.world.clock.time();
        let waiting = self.world.server().waiting(KEY, time);
        let entries = waiting.iter().map(|(entry, _)| &**entry);
        let mut all = stands.iter().map(|it| &**it).chain(entries);
        let left = all.any(|value| {
            let owner = token_of_entry(value).map(|(at, _)| at);
            owner.is_some_and(|at| self.members[at].left) && !self.world.is_excused(value)
        });
        left.then_some("S11 something is left of a process that was shut down")
    }

    /// A living waiter that can reach the server would fit beside the holders.
    fn somebody_could_have_it(&mut self, stands: &[String]) -> bool {
        let time = self.world.clock.time();
        let waiting = self.world.server().waiting(KEY, time);
        let lives = |at: usize| self.world.processes[at].alive;
        // The first living waiter; the dead in front of it are to be passed over.
        let mut living = waiting
            .iter()
            .filter(|(entry, _)| token_of_entry(entry).is_some_and(|(at, _)| lives(at)));
        let first = living.next().map(|(entry, _)| entry.to_string());
        let first_fits = first
            .as_deref()
            .is_none_or(|it| fits(Holds::of(it), stands));
        let mut reaches = (0..self.members.len()).filter(|at| {
            let member = &self.members[*at];
            let links = member
                .links
                .iter()
                .all(|link| self.links[*link].works(self.now));
            lives(*at) && links && member.paused_until <= self.now
        });
        reaches.any(|at| {
            let process = &self.world.processes[at];
            let waits = |who: &usize| matches!(process.contenders[*who].phase, Phase::Queue(_));
            let polled = |who: &usize| self.members[at].scripts[*who].unpolled_until <= self.now;
            let mut waiters = (0..process.contenders.len()).filter(waits);
            waiters.any(|who| {
                let asks = process.order(&self.plan.run, who).asks;
                let value = asks.claim(0, Some("0.0"), self.world_lease());
                let fits = fits(Holds::of(&value.value), stands);
                let passes = matches!(Holds::of(&value.value), Holds::As(_)) && !stands.is_empty();
                polled(&who) && fits && (first_fits || passes)
            })
        })
    }

    fn world_lease(&self) -> crate::values::ttl::Ttl {
        self.plan.run.terms(0).ttl
    }

    /// The calm has lasted long enough, or everything has come to rest.
    pub(super) fn is_over(&mut self) -> bool {
        if self.wrong.is_some() {
            return true;
        }
        let all = (0..self.members.len()).all(|at| self.is_at_rest(at));
        if all {
            let time = self.site.clock(self.now).time();
            let waiting = self.world.server().waiting(KEY, time);
            let mut all = self.world.standing();
            all.extend(waiting.iter().map(|(entry, _)| entry.to_string()));
            let lives = |value: &String| {
                token_of_entry(value).is_some_and(|(at, _)| self.world.processes[at].alive)
            };
            if !all.iter().any(lives) {
                return true;
            }
        }
        let most = 2 * self.plan.longest() + 60_000_000;
        if self.calm.is_some_and(|since| since + most < self.now) {
            self.wrong = Some("L1 no rest");
            return true;
        }
        false
    }
}
