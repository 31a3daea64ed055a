//! What a process does by itself, and how each of these steps is executed.

use super::mutants::Mutant;
use super::process::{Contender, Leader, Phase, Process, Turn};
use super::run::{Run, Wants};
use super::step::Step;
use super::world::{Answer, Clock, What, Wire};
use crate::client::SentAcquire;
use crate::client::local_queue::LeaderStep;
use crate::values::moment::Moment;
use crate::values::token::Token;

impl Process {
    /// The steps that the process has to take by itself now.
    pub(super) fn own(&self, run: &Run, now: Moment, steps: &mut Vec<Step>) {
        self.by_itself(run, now, |from, step| {
            if from <= now {
                steps.push(step);
            }
        });
    }

    /// The steps that it has to take by itself, now or later, and from when on.
    pub(super) fn by_itself(&self, run: &Run, now: Moment, mut tell: impl FnMut(Moment, Step)) {
        let at = self.at;
        match self.leads_next(run, now) {
            Some(LeaderStep::Sleep(until)) => tell(until, Step::Lead(at)),
            Some(_) => tell(now, Step::Lead(at)),
            None => {}
        }
        tell(self.client.tokens.next_check(), Step::Guard(at));
        let late = |sent: Moment| sent.plus(run.tick);
        match &self.leader {
            Leader::Acquiring {
                sent: SentAcquire { at: sent, .. },
                ..
            }
            | Leader::Polling { sent, .. } => tell(late(*sent), Step::LeaderTimesOut(at)),
            Leader::Idle => {}
        }
        if let Some(sent) = unanswered(&self.commands, false).map(|it| it.2).min() {
            tell(late(sent), Step::BehindTimesOut(at));
        }
        if let Some(sent) = unanswered(&self.watchdog, true).map(|it| it.2).min() {
            tell(late(sent), Step::WatchdogTimesOut(at));
        }
        for (wire, watchdog) in [(&self.commands, false), (&self.watchdog, true)] {
            if let Some(first) = wire.out.front() {
                tell(first.sent.plus(run.tick * 2), Step::Rebuild(at, watchdog));
            }
        }
        for (who, contender) in self.contenders.iter().enumerate() {
            if self.can_check(who, now) {
                tell(now, Step::Check(at, who));
            }
            if let Some(sent) = contender.asked() {
                tell(late(sent), Step::TimesOut(at, who));
            }
            if let Phase::Body(body) = &contender.phase {
                let from = if body.lost { now } else { body.deadline };
                tell(from, Step::Stopped(at, who));
            }
        }
    }

    pub(super) fn act(&mut self, turn: &mut Turn<'_>, step: Step) {
        let now = turn.now();
        let tick = turn.run.tick;
        let late = |it: &(Token, bool, Moment)| it.2.plus(tick) <= now;
        match step {
            Step::Enter(_, who) if self.contenders[who].wants == Wants::Once => {
                self.contenders[who].phase = Phase::Alone;
                self.go_past(turn, who, None);
            }
            Step::Enter(_, who) => self.enter(turn, who),
            Step::Check(_, who) => drop(self.look(turn, who, None)),
            Step::WaitOver(_, who) => self.go_past(turn, who, None),
            Step::BodyEnds(_, who) => self.give_back(turn, who),
            Step::Downgrade(_, who) => self.downgrade(turn, who),
            Step::Extend(_, who) => self.extend(turn, who),
            Step::Leave(_, who) => {
                if let Some((sent, _)) = self.contenders[who].over.take() {
                    self.unread(turn, &sent, false, true);
                }
                self.leave(turn, who);
            }
            Step::GuardDropped(_, who) | Step::Stopped(_, who) => self.drop_hold(turn, who),
            Step::Lead(_) => self.lead(turn),
            Step::Guard(_) => self.guard(turn),
            Step::Hear(_, watchdog) => {
                let wire = if watchdog {
                    &mut self.watchdog
                } else {
                    &mut self.commands
                };
                if let Some(reply) = wire.back.pop_front() {
                    self.hear(turn, watchdog, reply);
                }
            }
            Step::Push(_, index) => {
                let grant = self.pushes.remove(index);
                let since = (!turn.run.timeless_pushes).then(|| Clock::moment_of(grant.time));
                super::past_the_queue::pushed(self, turn, grant, since);
            }
            Step::LeaderTimesOut(_) => self.leader_timed_out(turn),
            Step::TimesOut(_, who) => self.timed_out(turn, who),
            Step::BehindTimesOut(_) => {
                let behind = unanswered(&self.commands, false).find(late);
                if let Some((token, ..)) = behind {
                    let is = |what: &What| matches!(what, What::Cancel { .. });
                    self.commands.forget(token, is);
                    self.client.tokens.cancel_failed(token, now);
                }
            }
            Step::WatchdogTimesOut(_) => {
                let guarded = unanswered(&self.watchdog, true).find(late);
                if let Some((token, renews, sent)) = guarded {
                    let is = |what: &What| matches!(what, What::Renew(_)) == renews;
                    self.watchdog.forget(token, is);
                    self.watchdog_failed(turn, token, renews, sent);
                }
            }
            _ => unreachable!("not a step of a process"),
        }
    }

    fn timed_out(&mut self, turn: &mut Turn<'_>, who: usize) {
        if let Some((sent, _)) = self.contenders[who].over.take() {
            self.unread(turn, &sent, false, true);
            return self.leave(turn, who);
        }
        match self.contenders[who].phase.clone() {
            Phase::Confirming { body, .. } => self.confirm_failed(turn, who, &body),
            Phase::Releasing { token, .. } => self.release_unclear(turn, who, token),
            Phase::Body(body) => self.downgrade_unclear(body.token),
            _ => {}
        }
    }

    fn drop_hold(&mut self, turn: &mut Turn<'_>, who: usize) {
        match self.contenders[who].phase.clone() {
            Phase::Confirming { body, .. } | Phase::Body(body) => {
                if turn.run.is(Mutant::WatchdogNotStopped) {
                    self.left(turn, body.token);
                    self.contenders[who].phase = Phase::Done;
                    return;
                }
                self.drop_guard(turn, &body, who, false);
            }
            Phase::Releasing { token, .. } => self.release_unclear(turn, who, token),
            _ => {}
        }
    }

    /// The end of its connection is the next thing that it will read.
    pub(super) fn is_cut(&self) -> bool {
        let first = self.commands.back.front();
        first.is_some_and(|reply| matches!(reply.answer, Answer::Broken(_)))
    }

    /// The same process, dead: only what it sent is left.
    pub(super) fn dead(&self) -> Self {
        let gone = Contender {
            wants: Wants::Forever,
            order: None,
            phase: Phase::Done,
            over: None,
        };
        let mut dead = Self::new(self.at, &[], self.client.rules.clone());
        (dead.alive, dead.connection) = (false, self.connection);
        dead.contenders = vec![gone; self.contenders.len()];
        dead
    }
}

impl Contender {
    /// When the first command that it waits for was sent.
    fn asked(&self) -> Option<Moment> {
        let by_phase = match &self.phase {
            Phase::Confirming { sent, .. } | Phase::Releasing { sent, .. } => Some(*sent),
            Phase::Body(body) => body.asked,
            _ => None,
        };
        let over = self.over.as_ref().map(|(sent, _)| sent.at);
        by_phase.into_iter().chain(over).min()
    }
}

/// The commands of clean-ups and renewals that wait for answers: the token, whether it is a
/// renewal, and when it was sent.
fn unanswered(wire: &Wire, guarded: bool) -> impl Iterator<Item = (Token, bool, Moment)> {
    let sent = wire
        .out
        .iter()
        .filter(|it| it.heard)
        .map(move |it| match it.what {
            What::Cancel { .. } => Some((it.token, false, it.sent)),
            What::Renew(_) if guarded => Some((it.token, true, it.sent)),
            _ => None,
        });
    let answered = wire.back.iter().map(move |it| match it.answer {
        Answer::Cancelled(..) => Some((it.token, false, it.sent)),
        Answer::Renewed(_) if guarded => Some((it.token, true, it.sent)),
        _ => None,
    });
    sent.chain(answered).flatten()
}
