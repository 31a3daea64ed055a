//! The commands of a process's queue: its leader and its only contender send them, as in
//! `driver/waiting`. What the answers mean, the machine says.

use super::host::{AlwaysAwake, LEADER, queue_key, unclear};
use super::mutants::Mutant;
use super::process::{Leader, Phase, Process, Turn};
use super::seen::Witness;
use super::world::What;
use crate::client::answers::Landed;
use crate::client::leading::Answered;
use crate::client::local_queue::Remote;
use crate::client::tokens::Attempt;
use crate::client::{AcquireRefusal, AttemptFault, Heard, LeaderTurn, ReadAnswer, SentAcquire};
use crate::rules::commands::{Acquire, Acquired, Claim, Polled};
use crate::values::entry;
use crate::values::moment::Moment;
use crate::values::token::Token;
use crate::values::ttl::Ttl;

/// The leader.
impl Process {
    pub(super) fn lead(&mut self, turn: &mut Turn<'_>) {
        let granted = self
            .remote()
            .is_some_and(|it| matches!(it, Remote::Granted(..)));
        let next = self.at(turn, |queue| queue.lead(LEADER, &AlwaysAwake));
        if granted && !matches!(self.remote(), Some(Remote::Granted(..))) {
            turn.seen.saw(Witness::StaleGrant);
        }
        match next {
            LeaderTurn::Acquire(request) => self.ask(turn, request.who, None),
            LeaderTurn::Poll { attempt, .. } => self.poll(turn, attempt),
            LeaderTurn::Sleep(_) | LeaderTurn::Rest => {}
        }
    }

    pub(super) fn ask(&mut self, turn: &Turn<'_>, who: usize, reader: Option<usize>) {
        let Some(sent) = self.prepare(turn, who, true) else {
            return self.reject(turn);
        };
        let sends = self.tell(turn, |client, told| {
            client.sending((&queue_key(), LEADER), &sent, told)
        });
        assert!(sends, "it was just told to");
        self.send_acquire(turn, who, &sent);
        self.leader = Leader::Acquiring { sent, reader };
    }

    fn poll(&mut self, turn: &Turn<'_>, attempt: Attempt) {
        let what = if turn.run.is(Mutant::PollByAcquire) {
            What::Acquire(self.again(turn, &attempt.claim))
        } else {
            What::Poll(attempt.claim.clone())
        };
        self.send(turn, attempt.token, what);
        let sent = turn.now();
        self.leader = Leader::Polling { attempt, sent };
    }

    fn again(&self, turn: &Turn<'_>, claim: &Claim) -> Acquire {
        let asked = entry::read(&claim.value).and_then(|entry| Ttl::new(entry.lease).ok());
        Acquire {
            claim: claim.clone(),
            lease: asked.unwrap_or_else(|| turn.run.terms(self.at).lease()),
            not_after: turn.time + 1_000_000,
            repair_missing_ttl: None,
        }
    }

    /// The command took too long.
    pub(super) fn leader_timed_out(&mut self, turn: &mut Turn<'_>) {
        match std::mem::replace(&mut self.leader, Leader::Idle) {
            Leader::Idle => {}
            Leader::Acquiring { sent, reader } => self.ask_failed(turn, sent, reader, true),
            Leader::Polling { attempt, sent } => {
                self.commands.forget(attempt.token, |what| {
                    matches!(what, What::Poll(_) | What::Acquire(_))
                });
                self.poll_failed(turn, &attempt, sent);
            }
        }
    }

    /// The leader's runtime ends while it waits.
    pub(super) fn leader_lost(&mut self, turn: &Turn<'_>) {
        match std::mem::replace(&mut self.leader, Leader::Idle) {
            Leader::Idle => {}
            // Its own waiter sends it, in another runtime.
            kept @ Leader::Acquiring {
                reader: Some(_), ..
            } => {
                self.leader = kept;
                return;
            }
            Leader::Acquiring { sent, .. } => {
                let link = !self.is_cut();
                self.unread(turn, &sent, true, link);
            }
            Leader::Polling { attempt, .. } => self
                .commands
                .forget(attempt.token, |what| matches!(what, What::Poll(_))),
        }
        self.at(turn, |queue| queue.leader_gone(LEADER));
    }

    pub(super) fn ask_failed(
        &mut self,
        turn: &mut Turn<'_>,
        mut sent: SentAcquire,
        reader: Option<usize>,
        link: bool,
    ) {
        if turn.run.is(Mutant::AcquireSentAgain) && !link {
            sent.command.not_after = turn.time + 1_000_000;
            self.send(turn, sent.token, What::Acquire(sent.command.clone()));
            sent.at = turn.now();
            self.leader = Leader::Acquiring { sent, reader };
            return;
        }
        self.commands
            .forget(sent.token, |what| matches!(what, What::Acquire(_)));
        self.answered(turn, sent, reader, Err(unclear(true)), link);
    }

    pub(super) fn poll_failed(&mut self, turn: &Turn<'_>, attempt: &Attempt, sent: Moment) {
        self.tell_poll(turn, attempt, sent, Err(unclear(false)));
    }

    /// The run has no more tokens for this process: all waiters leave, as after a permanent
    /// refusal.
    fn reject(&mut self, turn: &Turn<'_>) {
        self.at(turn, |queue| queue.refuse_all(&AcquireRefusal::ShutDown));
        self.read_refusals(turn);
        let goes_on = self.at(turn, |queue| queue.continue_or_dismiss(LEADER));
        if goes_on.is_none() {
            self.leader = Leader::Idle;
        }
    }

    /// A contender reads that it was refused.
    fn leave_refused(&mut self, turn: &Turn<'_>, who: usize) {
        if let Phase::Queue(waiter_id) = self.contenders[who].phase {
            self.at(turn, |queue| queue.leave(waiter_id));
        }
        self.contenders[who].phase = Phase::Done;
    }
}

/// The answers.
impl Process {
    pub(super) fn acquired(&mut self, turn: &mut Turn<'_>, token: Token, answer: Acquired) {
        match std::mem::replace(&mut self.leader, Leader::Idle) {
            Leader::Acquiring { sent, reader } if sent.token == token => {
                return self.asked(turn, sent, reader, answer);
            }
            // Only in the variant whose polls are acquires.
            Leader::Polling { attempt, sent } if attempt.token == token => {
                return self.asked_for_poll(turn, &attempt, sent, answer);
            }
            other => self.leader = other,
        }
        let theirs = |it: &Option<_>| {
            it.as_ref()
                .is_some_and(|(over, _): &(SentAcquire, _)| over.token == token)
        };
        let who = self.contenders.iter().position(|it| theirs(&it.over));
        if let Some(who) = who
            && let Some((sent, tries)) = self.contenders[who].over.take()
        {
            self.past_the_queue(turn, who, sent, tries, answer);
        }
    }

    fn asked(
        &mut self,
        turn: &mut Turn<'_>,
        sent: SentAcquire,
        reader: Option<usize>,
        answer: Acquired,
    ) {
        let token = sent.token;
        let mut landed = sent.landed(answer);
        match &mut landed {
            Landed::Granted(grant) => {
                Self::saw_held(turn, grant.how);
                if turn.run.is(Mutant::DeadlineFromReply) {
                    grant.since = turn.now();
                }
            }
            Landed::Queued(_) if matches!(self.remote(), Some(Remote::Granted(ours, _)) if *ours == token) =>
            {
                turn.seen.saw(Witness::PushBeforeReply);
            }
            Landed::WrongKind { .. } => turn.seen.saw(Witness::WrongKind),
            _ => {}
        }
        let link = !self.is_cut();
        self.answered(turn, sent, reader, Ok(landed), link);
    }

    /// The leader's task, or the contender that has sent it, tells the answer.
    fn answered(
        &mut self,
        turn: &mut Turn<'_>,
        sent: SentAcquire,
        reader: Option<usize>,
        answer: Result<Landed, AttemptFault<()>>,
        link: bool,
    ) {
        let heard = Heard {
            is_told: true,
            follows: Some(turn.now().plus(turn.run.tick)),
        };
        let Answered { cancels_behind, .. } = if let Some(who) = reader {
            let read = ReadAnswer {
                leader_epoch: LEADER,
                answer: Some((&sent, answer, heard)),
            };
            self.look(turn, who, Some(read))
        } else {
            self.at(turn, |queue| queue.answered(LEADER, (&sent, answer), heard))
        };
        if cancels_behind {
            self.cancel_behind(turn, &sent, link);
        }
        self.read_refusals(turn);
    }

    /// Contenders that were refused read it.
    fn read_refusals(&mut self, turn: &Turn<'_>) {
        if self
            .client
            .queues
            .by_key
            .values()
            .any(|it| !it.refused.is_empty())
        {
            for who in 0..self.contenders.len() {
                let Phase::Queue(waiter_id) = self.contenders[who].phase else {
                    continue;
                };
                let queues = &self.client.queues.by_key;
                if queues
                    .values()
                    .any(|it| it.refused.contains_key(&waiter_id))
                {
                    if let Some((sent, _)) = self.contenders[who].over.take() {
                        self.unread(turn, &sent, false, true);
                    }
                    self.leave_refused(turn, who);
                }
            }
        }
    }

    fn asked_for_poll(
        &mut self,
        turn: &mut Turn<'_>,
        attempt: &Attempt,
        sent: Moment,
        answer: Acquired,
    ) {
        let as_sent = SentAcquire {
            token: attempt.token,
            command: self.again(turn, &attempt.claim),
            at: sent,
            give_up: Moment::NEVER,
        };
        match as_sent.landed(answer) {
            Landed::Granted(grant) => {
                Self::saw_held(turn, grant.how);
                let key = queue_key();
                let value = attempt.claim.value.clone();
                let (push, grant) = ((key.key(), attempt.token, &*value), Some(grant));
                self.tell(turn, |client, told| client.pushed(push, grant, told));
            }
            Landed::Queued(busy) => self.tell_poll(turn, attempt, sent, Ok(Polled::Queued(busy))),
            _ => self.poll_failed(turn, attempt, sent),
        }
    }

    pub(super) fn polled(&mut self, turn: &mut Turn<'_>, token: Token, mut answer: Polled) {
        let Leader::Polling { attempt, mut sent } =
            std::mem::replace(&mut self.leader, Leader::Idle)
        else {
            unreachable!("nobody else polls");
        };
        debug_assert_eq!(token, attempt.token);
        match &mut answer {
            Polled::Yours { left, .. } => {
                turn.seen.saw(Witness::HeldByYours);
                if turn.run.is(Mutant::YoursForTheWholeTtl) {
                    *left = turn.run.ttl;
                }
                if turn.run.is(Mutant::DeadlineFromReply) {
                    sent = turn.now();
                }
            }
            Polled::Gone { .. } | Polled::NotDue(_) => turn.seen.saw(Witness::Gone),
            Polled::Queued(_) => {}
        }
        self.tell_poll(turn, &attempt, sent, Ok(answer));
    }

    fn tell_poll(
        &mut self,
        turn: &Turn<'_>,
        attempt: &Attempt,
        sent: Moment,
        answer: Result<Polled, AttemptFault<()>>,
    ) {
        let heard = (self.answers_at(attempt), true);
        let of = (attempt.token, sent);
        self.at(turn, |queue| queue.polled(LEADER, of, answer, heard));
        self.read_refusals(turn);
    }

    fn answers_at(&self, attempt: &Attempt) -> bool {
        let entry = entry::read(&attempt.claim.value);
        entry.is_some_and(|it| *it.address == self.address())
    }
}
