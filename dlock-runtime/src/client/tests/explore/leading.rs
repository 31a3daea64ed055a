//! The leader of a process, and what the answers to its commands mean, as in
//! `driver/waiting/leader`.
//!
//! Attempts outside the local queue are in `past_the_queue`.

use super::mutants::Mutant;
use super::process::{Leader, Phase, Process, SentAcquire, Turn};
use super::seen::Witness;
use super::world::What;
use crate::client::local_queue::{Attempt, Grant, GrantKind, LeaderStep, Remote};
use crate::policy::commands::{Acquired, Busy, Claim, Left, Polled};
use crate::values::ttl::{Margin, Ttl};

use crate::client::retry::{self, Jitter};
use crate::values::entry;
use crate::values::moment::Moment;
use crate::values::token::Token;

/// The leader.
impl Process {
    pub(super) fn lead(&mut self, turn: &mut Turn<'_>) {
        match self.client(turn).next(turn.now()) {
            LeaderStep::Acquire => self.ask(turn),
            LeaderStep::Poll(attempt) => self.poll(turn, attempt),
            LeaderStep::GiveUp(attempt) => {
                turn.seen.saw(Witness::StaleGrant);
                self.hand_to_watchdog(turn, Some(attempt.token));
            }
            LeaderStep::PassOn | LeaderStep::Sleep(_) | LeaderStep::Rest => {}
        }
    }

    fn ask(&mut self, turn: &Turn<'_>) {
        let Some(first) = self.queue.first().copied() else {
            return;
        };
        let Some((attempt, command)) = self.prepare(turn, first, true) else {
            return self.reject(turn);
        };
        self.client(turn).sending(Attempt {
            token: attempt.token,
            claim: attempt.claim.clone(),
        });
        self.send(turn, attempt.token, What::Acquire(command));
        self.leader = Leader::Acquiring(attempt);
    }

    fn poll(&mut self, turn: &Turn<'_>, attempt: Attempt) {
        let what = if turn.run.is(Mutant::PollByAcquire) {
            let lease = self.lease_of(turn, &attempt.claim);
            What::Acquire(crate::policy::commands::Acquire {
                claim: attempt.claim.clone(),
                lease,
                not_after: turn.time + 1_000_000,
                repair_missing_ttl: None,
            })
        } else {
            What::Poll(attempt.claim.clone())
        };
        self.send(turn, attempt.token, what);
        let sent = turn.now();
        self.leader = Leader::Polling { attempt, sent };
    }

    /// The lease that an acquire of this claim requested.
    fn lease_of(&self, turn: &Turn<'_>, claim: &Claim) -> Ttl {
        let asked = entry::read(&claim.value).and_then(|entry| Ttl::new(entry.lease).ok());
        asked.unwrap_or_else(|| turn.run.terms(self.at).lease())
    }

    /// The command took too long.
    pub(super) fn leader_timed_out(&mut self, turn: &Turn<'_>) {
        match std::mem::replace(&mut self.leader, Leader::Idle) {
            Leader::Idle => {}
            Leader::Acquiring(attempt) => self.ask_failed(turn, &attempt, true),
            Leader::Polling { attempt, .. } => {
                self.commands.forget(attempt.token, |what| {
                    matches!(what, What::Poll(_) | What::Acquire(_))
                });
                self.poll_failed(turn, &attempt);
            }
        }
    }

    /// The leader's runtime ends while it waits.
    pub(super) fn leader_lost(&mut self, turn: &Turn<'_>) {
        match std::mem::replace(&mut self.leader, Leader::Idle) {
            Leader::Idle => {}
            Leader::Acquiring(attempt) => {
                let link = !self.is_cut();
                self.abandon(turn, &attempt, true, link);
            }
            Leader::Polling { attempt, .. } => self
                .commands
                .forget(attempt.token, |what| matches!(what, What::Poll(_))),
        }
        self.queue.leader_gone();
    }

    pub(super) fn ask_failed(&mut self, turn: &Turn<'_>, attempt: &SentAcquire, link: bool) {
        if turn.run.is(Mutant::AcquireSentAgain) && !link {
            let command = crate::policy::commands::Acquire {
                claim: attempt.claim.clone(),
                lease: attempt.lease,
                not_after: turn.time + 1_000_000,
                repair_missing_ttl: None,
            };
            self.send(turn, attempt.token, What::Acquire(command));
            let mut again = attempt.clone();
            again.sent = turn.now();
            self.leader = Leader::Acquiring(again);
            return;
        }
        self.abandon(turn, attempt, true, link);
        self.pause(turn);
    }

    pub(super) fn poll_failed(&mut self, turn: &Turn<'_>, attempt: &Attempt) {
        self.polls_again(turn, attempt.token, outage_pause());
    }

    fn pause(&mut self, turn: &Turn<'_>) {
        self.queue.pause(turn.now().plus(outage_pause()));
    }

    /// The run has no more tokens for this process: all waiters leave, as after a permanent
    /// refusal.
    fn reject(&mut self, turn: &Turn<'_>) {
        let (line, unowned) = self.client(turn).clear(turn.now());
        for (_, who) in line {
            if let Some(attempt) = self.contenders[who].over.take() {
                self.abandon(turn, &attempt, false, true);
            }
            self.contenders[who].phase = Phase::Done;
        }
        self.hand_to_watchdog(turn, unowned);
    }

    fn polls_again(&mut self, turn: &Turn<'_>, token: Token, pause: std::time::Duration) {
        let next = turn.now().plus(pause);
        let settled = self.client(turn).queued(token, next, turn.now());
        self.hand_to_watchdog(turn, settled.unowned());
    }
}

/// The meaning of the answers.
impl Process {
    pub(super) fn acquired(&mut self, turn: &mut Turn<'_>, token: Token, answer: Acquired) {
        match std::mem::replace(&mut self.leader, Leader::Idle) {
            Leader::Acquiring(attempt) if attempt.token == token => {
                return self.asked(turn, &attempt, answer);
            }
            // Only in the variant whose polls are acquires.
            Leader::Polling { attempt, sent } if attempt.token == token => {
                return self.asked_for_poll(turn, attempt, sent, answer);
            }
            other => self.leader = other,
        }
        let theirs = |it: &Option<SentAcquire>| it.as_ref().is_some_and(|over| over.token == token);
        let who = self.contenders.iter().position(|it| theirs(&it.over));
        if let Some(who) = who
            && let Some(attempt) = self.contenders[who].over.take()
        {
            self.past_the_queue(turn, who, attempt, answer);
        }
    }

    fn asked(&mut self, turn: &mut Turn<'_>, attempt: &SentAcquire, answer: Acquired) {
        let (token, since) = (attempt.token, attempt.sent);
        match answer {
            Acquired::Granted { time, epoch } => {
                let lease = attempt.lease.get();
                let how = GrantKind::AtOnce;
                self.granted(turn, token, grant_of(since, lease, epoch, time, how));
            }
            Acquired::Yours { time, epoch, left } => {
                self.granted(
                    turn,
                    token,
                    grant_of(since, left, epoch, time, GrantKind::InTurn),
                );
            }
            Acquired::Queued(busy) => {
                if matches!(self.queue.remote(), Remote::Granted(attempt, _) if attempt.token == token)
                {
                    turn.seen.saw(Witness::PushBeforeReply);
                }
                self.queued(turn, token, &busy);
            }
            Acquired::NoQuorum(_) => unreachable!("one server"),
            Acquired::WrongKind { .. } => {
                turn.seen.saw(Witness::WrongKind);
                self.created_nothing(turn, token);
                self.reject(turn);
            }
            Acquired::Busy(busy) => {
                self.created_nothing(turn, token);
                let pause = after_busy(turn, &busy);
                self.queue.pause(turn.now().plus(pause));
            }
            Acquired::Late { .. } => {
                self.created_nothing(turn, token);
                if std::mem::replace(&mut self.was_late, true) {
                    self.pause(turn);
                }
            }
        }
    }

    fn asked_for_poll(
        &mut self,
        turn: &mut Turn<'_>,
        attempt: Attempt,
        sent: Moment,
        answer: Acquired,
    ) {
        match answer {
            Acquired::Queued(busy) => self.queued(turn, attempt.token, &busy),
            Acquired::Granted { time, epoch } => {
                let lease = self.lease_of(turn, &attempt.claim).get();
                let grant = grant_of(sent, lease, epoch, time, GrantKind::AtOnce);
                self.granted(turn, attempt.token, grant);
            }
            Acquired::Yours { time, epoch, left } => {
                let grant = grant_of(sent, left, epoch, time, GrantKind::InTurn);
                self.granted(turn, attempt.token, grant);
            }
            Acquired::NoQuorum(_) => unreachable!("one server"),
            Acquired::Busy(_) | Acquired::Late { .. } | Acquired::WrongKind { .. } => {
                self.poll_failed(turn, &attempt);
            }
        }
    }

    pub(super) fn polled(&mut self, turn: &mut Turn<'_>, token: Token, answer: Polled) {
        let Leader::Polling { attempt, sent } = std::mem::replace(&mut self.leader, Leader::Idle)
        else {
            unreachable!("nobody else polls");
        };
        match answer {
            Polled::Yours { time, epoch, left } => {
                turn.seen.saw(Witness::HeldByYours);
                let left = if turn.run.is(Mutant::YoursForTheWholeTtl) {
                    turn.run.ttl
                } else {
                    left
                };
                self.granted(
                    turn,
                    token,
                    grant_of(sent, left, epoch, time, GrantKind::InTurn),
                );
            }
            Polled::Queued(_) if !self.answers_at(&attempt) => {
                let unowned = self.client(turn).unreachable(&attempt, turn.now());
                self.hand_to_watchdog(turn, unowned);
            }
            Polled::Queued(busy) => self.queued(turn, token, &busy),
            Polled::Gone { .. } => {
                turn.seen.saw(Witness::Gone);
                self.created_nothing(turn, token);
            }
        }
    }

    fn granted(&mut self, turn: &mut Turn<'_>, token: Token, mut grant: Grant) {
        if turn.run.is(Mutant::DeadlineFromReply) {
            grant.since = turn.now();
        }
        self.was_late = false;
        Self::saw_held(turn, grant.how);
        let grant = grant.with_handoff_limit(&turn.run.handoff(), Margin::DEFAULT, turn.now());
        let settled = self.client(turn).granted(token, grant, turn.now());
        self.hand_to_watchdog(turn, settled.unowned());
    }

    fn queued(&mut self, turn: &Turn<'_>, token: Token, busy: &Busy) {
        self.was_late = false;
        self.polls_again(turn, token, after_busy(turn, busy));
    }

    fn created_nothing(&mut self, turn: &Turn<'_>, token: Token) {
        self.client(turn).nothing_there(token, turn.now());
    }

    fn answers_at(&self, attempt: &Attempt) -> bool {
        let entry = entry::read(&attempt.claim.value);
        entry.is_some_and(|it| *it.address == self.address())
    }
}

pub(super) fn grant_of(
    since: Moment,
    lease: std::time::Duration,
    epoch: u64,
    time: u64,
    how: GrantKind,
) -> Grant {
    match how {
        GrantKind::AtOnce => Grant::at_once(since, lease, epoch, time),
        GrantKind::InTurn => Grant::in_turn(since, lease, epoch, time),
    }
}

fn after_busy(turn: &Turn<'_>, busy: &Busy) -> std::time::Duration {
    let left = match busy.left {
        Left::For(left) => left,
        Left::Endless => std::time::Duration::MAX,
    };
    retry::after_busy(left, turn.run.poll_interval(), &mut Jitter::seeded(1))
}

/// Less than a tick, too.
fn outage_pause() -> std::time::Duration {
    retry::after_failure(1, &mut Jitter::seeded(1))
}
