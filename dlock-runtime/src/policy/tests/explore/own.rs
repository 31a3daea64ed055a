//! What a process does by itself, and how each of its steps is carried out.

use super::mutants::Mutant;
use super::process::{Contender, Driver, Phase, Process, Turn};
use super::run::{Run, Wants};
use super::step::Step;
use super::world::{Answer, What, Wire};
use crate::values::moment::Moment;
use crate::values::token::Token;

impl Process {
    /// What is to be done by itself, now.
    pub(super) fn own(&self, run: &Run, now: Moment, steps: &mut Vec<Step>) {
        let at = self.at;
        if self.drives(run, now).is_some() {
            steps.push(Step::Drive(at));
        }
        if self.tokens.next_look() <= now {
            steps.push(Step::Guard(at));
        }
        let late = |sent: Moment| sent.plus(run.tick) <= now;
        match &self.driver {
            Driver::Asking(attempt) if late(attempt.sent) => steps.push(Step::DriverTimesOut(at)),
            Driver::Polling { sent, .. } if late(*sent) => steps.push(Step::DriverTimesOut(at)),
            _ => {}
        }
        if self.behind(&late).is_some() {
            steps.push(Step::BehindTimesOut(at));
        }
        if unanswered(&self.guardian, &late, true).is_some() {
            steps.push(Step::GuardianTimesOut(at));
        }
        for (wire, guardian) in [(&self.commands, false), (&self.guardian, true)] {
            let silent = |sent: Moment| sent.plus(run.tick * 2) <= now;
            if wire.out.front().is_some_and(|first| silent(first.sent)) {
                steps.push(Step::Rebuild(at, guardian));
            }
        }
        for (who, contender) in self.contenders.iter().enumerate() {
            if self.can_look(who, now) {
                steps.push(Step::Look(at, who));
            }
            if contender.is_late(&late) {
                steps.push(Step::TimesOut(at, who));
            }
            match &contender.phase {
                Phase::Body(body) if body.lost || now >= body.deadline => {
                    steps.push(Step::Stopped(at, who));
                }
                _ => {}
            }
        }
    }

    fn behind(&self, late: &impl Fn(Moment) -> bool) -> Option<(Token, bool, Moment)> {
        unanswered(&self.commands, late, false)
    }

    pub(super) fn act(&mut self, turn: &mut Turn<'_>, step: Step) {
        let now = turn.now();
        let tick = turn.run.tick;
        let late = move |sent: Moment| sent.plus(tick) <= now;
        match step {
            Step::Enter(_, who) if self.contenders[who].wants == Wants::Once => {
                self.contenders[who].phase = Phase::Alone;
                self.go_past(turn, who, false);
            }
            Step::Enter(_, who) => self.enter(turn, who),
            Step::Look(_, who) => self.look(turn, who),
            Step::WaitOver(_, who) => self.go_past(turn, who, false),
            Step::BodyEnds(_, who) => self.give_back(turn, who),
            Step::Downgrade(_, who) => self.downgrade(turn, who),
            Step::Leave(_, who) => {
                if let Some(attempt) = self.contenders[who].over.take() {
                    self.abandon(turn, &attempt, false, true);
                }
                self.leave(turn, who);
            }
            Step::GuardDropped(_, who) | Step::Stopped(_, who) => self.drop_hold(turn, who),
            Step::Drive(_) => self.drive(turn),
            Step::Guard(_) => self.guard(turn),
            Step::Hear(_, guardian) => {
                let wire = if guardian {
                    &mut self.guardian
                } else {
                    &mut self.commands
                };
                if let Some(reply) = wire.back.pop_front() {
                    self.hear(turn, guardian, reply);
                }
            }
            Step::Push(_, index) => {
                let grant = self.pushes.remove(index);
                super::past::pushed(self, turn, grant);
            }
            Step::DriverTimesOut(_) => self.driver_timed_out(turn),
            Step::TimesOut(_, who) => self.timed_out(turn, who),
            Step::BehindTimesOut(_) => {
                if let Some((token, ..)) = self.behind(&late) {
                    let is = |what: &What| matches!(what, What::Cancel { .. });
                    self.commands.forget(token, is);
                    self.tokens.cancel_failed(token, now);
                }
            }
            Step::GuardianTimesOut(_) => {
                if let Some((token, renews, sent)) = unanswered(&self.guardian, &late, true) {
                    let is = |what: &What| matches!(what, What::Renew(_)) == renews;
                    self.guardian.forget(token, is);
                    self.guardian_failed(turn, token, renews, sent);
                }
            }
            _ => unreachable!("not a step of a process"),
        }
    }

    fn timed_out(&mut self, turn: &mut Turn<'_>, who: usize) {
        if let Some(attempt) = self.contenders[who].over.take() {
            self.abandon(turn, &attempt, false, true);
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
                    self.gate.left(body.token, turn.now());
                    self.contenders[who].phase = Phase::Done;
                    return;
                }
                self.drop_guard(turn, &body, who, false);
            }
            Phase::Releasing { token, .. } => self.release_unclear(turn, who, token),
            _ => {}
        }
    }

    /// The end of its connection is the next thing that it hears.
    pub(super) fn is_cut(&self) -> bool {
        let first = self.commands.back.front();
        first.is_some_and(|reply| matches!(reply.answer, Answer::Broken(_)))
    }

    /// Nothing is left of it but what it sent.
    pub(super) fn dead(at: usize, connection: u8, contenders: usize) -> Self {
        let gone = Contender {
            wants: Wants::Forever,
            phase: Phase::Done,
            over: None,
        };
        let mut dead = Self::new(at, &[]);
        (dead.alive, dead.connection) = (false, connection);
        dead.contenders = vec![gone; contenders];
        dead
    }
}

impl Contender {
    fn is_late(&self, late: &impl Fn(Moment) -> bool) -> bool {
        let by_phase = match &self.phase {
            Phase::Confirming { sent, .. } | Phase::Releasing { sent, .. } => late(*sent),
            Phase::Body(body) => body.asked.is_some_and(late),
            _ => false,
        };
        by_phase || self.over.as_ref().is_some_and(|over| late(over.sent))
    }
}

/// The first command that waits too long for its answer: whose, whether it renews, and when it was sent.
fn unanswered(
    wire: &Wire,
    late: &impl Fn(Moment) -> bool,
    guarded: bool,
) -> Option<(Token, bool, Moment)> {
    let sent = wire
        .out
        .iter()
        .filter(|it| it.heard)
        .map(|it| match it.what {
            What::Cancel { .. } => Some((it.token, false, it.sent)),
            What::Renew(_) if guarded => Some((it.token, true, it.sent)),
            _ => None,
        });
    let answered = wire.back.iter().map(|it| match it.answer {
        Answer::Cancelled(..) => Some((it.token, false, it.sent)),
        Answer::Renewed(_) if guarded => Some((it.token, true, it.sent)),
        _ => None,
    });
    sent.chain(answered)
        .flatten()
        .find(|(.., sent)| late(*sent))
}
