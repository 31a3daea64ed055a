//! What users do with the lock: who wants it when, for how long, and who gives up.

use super::fleet::{Fleet, Next};
use super::plan::{Theme, exponential};
use super::process::{Event, holder};
use crate::client::tests::explore::kind::Asks;
use crate::client::tests::explore::process::{Begun, Phase};
use crate::client::tests::explore::run::Wants;
use crate::client::tests::explore::step::Step;

/// What a user does at a time that was drawn before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Deed {
    Enter,
    /// The time that the wait may take is over.
    WaitOver,
    /// The wait is cancelled, or the guard dropped.
    Leave,
    BodyEnds,
    Downgrade,
    Extend,
}

/// One contender, and what it is about to do.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Script {
    /// The number of the request: events for an earlier one are ignored.
    number: u64,
    /// How long the body takes.
    body: u64,
    /// A request is under way.
    wants: bool,
    has_begun: bool,
    /// Its body waits until this contender's body has ended: a process and a contender.
    waits_for: Option<(usize, usize)>,
    /// The task is not polled before then.
    pub(super) unpolled_until: u64,
}

impl Fleet {
    /// The next request comes some time later.
    pub(super) fn thinks(&mut self, at: usize, who: usize) {
        if self.calm.is_none() && !self.members[at].leaves {
            let pause = exponential(&mut self.rng, self.plan.think);
            self.deed_in(at, who, pause, Deed::Enter);
        }
    }

    fn deed_in(&mut self, at: usize, who: usize, pause: u64, deed: Deed) {
        let number = self.members[at].scripts[who].number;
        self.at(self.now + pause, Next::Deed(at, who, number, deed));
    }

    pub(super) fn deed(&mut self, at: usize, who: usize, number: u64, deed: Deed) {
        let script = self.members[at].scripts[who];
        if script.number != number || !self.world.processes[at].alive {
            return;
        }
        let cut = self.world.processes[at].is_cut();
        let step = match (deed, self.phase_of(at, who)) {
            (Deed::Enter, Phase::Idle | Phase::Done) if !script.wants => {
                return self.enter(at, who);
            }
            (_, _) if cut => return,
            (Deed::WaitOver, Phase::Queue(_)) if self.is_in_line_only(at, who) => {
                Step::WaitOver(at, who)
            }
            (Deed::Leave, Phase::Queue(_) | Phase::Alone) => Step::Leave(at, who),
            (Deed::Leave, Phase::Body(_) | Phase::Confirming { .. } | Phase::Releasing { .. }) => {
                Step::GuardDropped(at, who)
            }
            (Deed::BodyEnds, Phase::Body(body)) if !body.lost => {
                if self.inner_waits(at, who) {
                    return self.deed_in(at, who, 50_000, Deed::BodyEnds);
                }
                Step::BodyEnds(at, who)
            }
            (Deed::Downgrade, Phase::Body(body)) => {
                let now = self.members[at].host.clock.clock(self.now).now();
                if body.lost
                    || body.reads
                    || body.asked.is_some()
                    || now.until(body.deadline).as_millis() < 20
                {
                    return;
                }
                Step::Downgrade(at, who)
            }
            (Deed::Extend, Phase::Body(body)) if !body.lost => Step::Extend(at, who),
            _ => return,
        };
        self.process(at, Event::Deed(step));
    }

    fn is_in_line_only(&self, at: usize, who: usize) -> bool {
        self.world.processes[at].contenders[who].over.is_none()
    }

    fn enter(&mut self, at: usize, who: usize) {
        if self.calm.is_some() || self.members[at].leaves {
            return;
        }
        if self.plan.theme != Theme::Exclusive
            && self.world.processes[at]
                .queue()
                .is_some_and(|it| !it.is_idle())
        {
            // Each attempt needs a local queue of its own: the one before comes to its end first.
            return self.deed_in(at, who, 20_000, Deed::Enter);
        }
        let place = self.members[at].place;
        let (wants, order, body) = self.plan.wish(&mut self.rng, place);
        let script = &mut self.members[at].scripts[who];
        script.number += 1;
        (script.body, script.wants, script.has_begun) = (body, true, false);
        script.waits_for = None;
        if wants == Wants::For {
            let wait = self.rng.u64(0..4_000_000);
            self.deed_in(at, who, wait, Deed::WaitOver);
        }
        if self.rng.u32(0..self.plan.cancels) == 0 {
            let most = [100, 10_000, 3_000_000][self.rng.usize(0..3)];
            let after = self.rng.u64(0..most);
            self.deed_in(at, who, after, Deed::Leave);
        }
        self.process(at, Event::Enter(who, wants, order));
    }

    /// A body begins: draws how long it takes.
    pub(super) fn begins(&mut self, at: usize, begun: &Begun) {
        let Some(who) = holder(&self.world.processes[at], begun.body.token) else {
            return;
        };
        self.check.begins(&begun.body.claim.value);
        let script = &mut self.members[at].scripts[who];
        script.has_begun = true;
        let body = if self.calm.is_some() {
            script.body.min(50_000)
        } else {
            script.body
        };
        self.deed_in(at, who, body, Deed::BodyEnds);
        let order = self.world.processes[at].order(&self.plan.run, who);
        if self.plan.downgrades && order.asks == Asks::Write {
            let after = self.rng.u64(0..=body);
            self.deed_in(at, who, after, Deed::Downgrade);
        }
        if self.rng.u8(0..6) == 0 {
            let after = self.rng.u64(0..=body);
            self.deed_in(at, who, after, Deed::Extend);
        }
        if self.plan.theme == Theme::Owners && self.rng.u8(0..3) == 0 && self.calm.is_none() {
            self.calls_inside(at, who, order.asks);
        }
    }

    /// The body waits for another one of the same owner.
    fn calls_inside(&mut self, at: usize, who: usize, asks: Asks) {
        let idle = (0..self.members.len()).find(|inner| {
            let is_ours = *inner != at && self.world.processes[*inner].alive;
            let place = self.members[*inner].place;
            let owner = asks == Asks::As(["a", "b", "c"][place % 3]);
            is_ours
                && owner
                && !self.members[*inner].leaves
                && !self.members[*inner].scripts[0].wants
        });
        if let Some(inner) = idle {
            self.enter(inner, 0);
            if !self.members[inner].scripts[0].wants {
                return;
            }
            let number = self.members[inner].scripts[0].number;
            let number = usize::try_from(number).expect("few");
            self.members[at].scripts[who].waits_for = Some((inner, number));
        }
    }

    /// Whether the body waits for one that has not ended.
    fn inner_waits(&self, at: usize, who: usize) -> bool {
        let Some((inner, number)) = self.members[at].scripts[who].waits_for else {
            return false;
        };
        let script = self.members[inner].scripts[0];
        let is_it = script.number == number as u64;
        self.world.processes[inner].alive && is_it && script.wants
    }

    /// A waiter checks once a second; that matters for one whose task was not polled for a while.
    pub(super) fn polled(&mut self, at: usize) {
        for who in 0..self.members[at].scripts.len() {
            let waits = matches!(self.phase_of(at, who), Phase::Queue(_));
            let polled = self.members[at].scripts[who].unpolled_until <= self.now;
            if waits && polled && !self.world.processes[at].is_cut() {
                self.process(at, Event::Deed(Step::Check(at, who)));
            }
        }
    }

    /// Records what has ended since the last step.
    pub(super) fn follow(&mut self, at: usize) {
        for who in 0..self.members[at].scripts.len() {
            let done = matches!(self.phase_of(at, who), Phase::Done);
            if done && self.members[at].scripts[who].wants {
                self.members[at].scripts[who].wants = false;
                self.thinks(at, who);
            }
        }
    }

    /// All contenders release what they have.
    pub(super) fn hurries_home(&mut self, at: usize) {
        for who in 0..self.members[at].scripts.len() {
            if matches!(self.phase_of(at, who), Phase::Body(_)) {
                let after = self.rng.u64(0..50_000);
                self.deed_in(at, who, after, Deed::BodyEnds);
            }
        }
    }

    /// A pool that is shut down sends its waiters away.
    pub(super) fn sends_away(&mut self, at: usize) {
        for who in 0..self.members[at].scripts.len() {
            if matches!(self.phase_of(at, who), Phase::Queue(_) | Phase::Alone) {
                self.deed_in(at, who, 0, Deed::Leave);
            }
        }
        self.hurries_home(at);
    }
}
