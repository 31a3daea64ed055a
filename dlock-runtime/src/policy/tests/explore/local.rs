//! One gate alone: every order of what three waiters, a driver, its server and time can do to it.
//!
//! A step is what the engine does under the gate's mutex (`engine/waiting`), with the wakers and the
//! bell as it uses them. Checked in every state: whoever could go on is awake or will be woken.

use super::local_steps::{Answer, Driver, End, Forgets, Step, Waiter};
use std::collections::BTreeMap;
use std::time::Duration;

use crate::policy::commands::Claim;
use crate::policy::gate::{Fate, Gate, Look, Next, Offer, Place, Position};
use crate::values::moment::Moment;
use crate::values::token::Token;

pub(super) const WAITERS: usize = 3;

/// How far an exploration goes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bounds {
    pub(super) waiters: usize,
    pub(super) tokens: u64,
    pub(super) ticks: u64,
    /// How often the driver's runtime may end.
    pub(super) ends: u8,
}

#[derive(Clone, PartialEq, Eq, Hash)]
pub(super) struct Local {
    pub(super) gate: Gate<usize>,
    pub(super) waiters: [Waiter; WAITERS],
    pub(super) driver: Driver,
    pub(super) bell: bool,
    /// Who did not take its turn once: others may go first since.
    passed: [bool; WAITERS],
    now: u64,
    pub(super) asked: u64,
    /// What became of each token.
    pub(super) ends: BTreeMap<u64, End>,
    /// How much may still happen: tokens, ticks, ends of the driver's runtime.
    rest: (u64, u64, u8),
}

impl Local {
    pub(super) fn new(bounds: Bounds) -> Self {
        Self {
            gate: Gate::default(),
            waiters: std::array::from_fn(|who| {
                if who < bounds.waiters {
                    Waiter::Out
                } else {
                    Waiter::Gone
                }
            }),
            driver: Driver::None,
            bell: false,
            passed: [false; WAITERS],
            now: 0,
            asked: 0,
            ends: BTreeMap::new(),
            rest: (bounds.tokens, bounds.ticks, bounds.ends),
        }
    }

    pub(super) fn somebody_was_passed_over(&self) -> bool {
        self.passed.contains(&true)
    }

    pub(super) fn at(&self) -> Moment {
        Moment::from_nanos((100 + self.now) * 1_000_000_000)
    }

    fn in_a_tick(&self) -> Moment {
        self.at().plus(Duration::from_secs(1))
    }

    pub(super) fn steps(&self) -> Vec<Step> {
        use Answer::{Granted, Nothing, Queued, Refused, Unclear};
        let mut steps = Vec::new();
        for (who, waiter) in self.waiters.iter().enumerate() {
            match waiter {
                Waiter::Out => steps.push(Step::Enter(who)),
                Waiter::In { woken, .. } => {
                    steps.extend(woken.then_some(Step::Look(who)));
                    steps.push(Step::Leave(who));
                }
                Waiter::Gone => {}
            }
        }
        match self.driver {
            Driver::Running => steps.push(Step::Drive),
            Driver::Sleeping(until) if self.bell || until <= self.at() => steps.push(Step::Drive),
            Driver::Asking(_) | Driver::Polling(_) => {
                steps.extend([Queued, Granted, Nothing, Unclear, Refused].map(Step::Answer));
            }
            _ => {}
        }
        if self.awaited().is_some() {
            steps.extend([Step::Push, Step::Hurry]);
        }
        if self.rest.1 > 0 {
            steps.push(Step::Tick);
        }
        if self.driver != Driver::None && self.rest.2 > 0 {
            steps.push(Step::RuntimeEnds);
        }
        if let Place::Held(position, _) = self.gate.place() {
            steps.push(Step::Left(number(position.token)));
        }
        steps
    }

    fn awaited(&self) -> Option<Token> {
        match self.gate.place() {
            Place::Asking(position) | Place::Queued { position, .. } => Some(position.token),
            _ => None,
        }
    }

    /// Does it; what is wrong with it.
    pub(super) fn step(&mut self, step: Step, forgets: Forgets) -> Option<&'static str> {
        match step {
            Step::Enter(who) => {
                self.bell |= self.gate.is_waited_at() && self.gate.first().is_none();
                let seat = self.gate.enter(who);
                self.waiters[who] = Waiter::In { seat, woken: true };
                if self.gate.take_wheel() {
                    self.driver = Driver::Running;
                }
            }
            Step::Look(who) => return self.look(who, forgets),
            Step::Leave(who) => {
                let Waiter::In { seat, .. } = self.waiters[who] else {
                    return None;
                };
                let unwanted = self.gate.leave(seat);
                self.waiters[who] = Waiter::Gone;
                self.bell = true;
                if forgets != Forgets::ToWakeTheNextWhenOneLeaves {
                    self.wake_called();
                }
                return self.clean_up(unwanted);
            }
            Step::Drive => return self.drive(),
            Step::Answer(answer) => return self.answer(answer, forgets),
            Step::Push => {
                let token = self.awaited()?;
                return self.granted(token, forgets);
            }
            Step::Hurry => {
                self.gate.hurry(self.at());
                self.bell = true;
            }
            Step::Tick => {
                self.now += 1;
                self.rest.1 -= 1;
            }
            Step::RuntimeEnds => {
                self.rest.2 -= 1;
                return self.runtime_ends(forgets);
            }
            Step::Left(token) => self.gate.left(Token::of_test(token), self.at()),
        }
        None
    }

    fn look(&mut self, who: usize, forgets: Forgets) -> Option<&'static str> {
        let Waiter::In { seat, .. } = self.waiters[who] else {
            return None;
        };
        self.bell |= self.gate.hears(seat);
        let mut others = self.waiters.iter().zip(self.passed);
        let before_me = others.any(|(it, passed)| {
            !passed && matches!(it, Waiter::In { seat: theirs, .. } if *theirs < seat)
        });
        let stale = match self.gate.look(seat, self.at()) {
            Look::Yours(position, _) => {
                self.waiters[who] = Waiter::Gone;
                self.bell |= forgets != Forgets::ToRingWhenTaken;
                let twice = self.end(position.token, End::Taken);
                return before_me.then_some("not first in line").or(twice);
            }
            Look::Stale(position) => {
                self.bell = true;
                self.end(position.token, End::CleanedUp)
            }
            Look::Wait => None,
        };
        self.waiters[who] = Waiter::In { seat, woken: false };
        if self.gate.take_wheel() {
            self.driver = Driver::Running;
        }
        stale
    }

    fn drive(&mut self) -> Option<&'static str> {
        if matches!(self.driver, Driver::Sleeping(_)) {
            self.bell = false;
        }
        self.driver = Driver::Running;
        let called = self.gate.called().copied();
        match self.gate.next(self.at()) {
            Next::PassOn => {
                called.inspect(|who| self.passed[*who] = true);
                self.wake_called();
            }
            Next::Ask if self.asked == self.rest.0 => return self.send_away(),
            Next::Ask => {
                self.asked += 1;
                self.gate.asking(position(self.asked));
                self.driver = Driver::Asking(self.asked);
            }
            Next::Poll(position) => self.driver = Driver::Polling(number(position.token)),
            Next::GiveUp(position) => {
                called.inspect(|who| self.passed[*who] = true);
                return self.end(position.token, End::CleanedUp);
            }
            Next::Sleep(until) => self.driver = Driver::Sleeping(until),
            Next::Rest => self.driver = Driver::None,
        }
        None
    }

    fn answer(&mut self, answer: Answer, forgets: Forgets) -> Option<&'static str> {
        let (Driver::Asking(number) | Driver::Polling(number)) = self.driver else {
            return None;
        };
        let polled = matches!(self.driver, Driver::Polling(_));
        self.driver = Driver::Running;
        let token = Token::of_test(number);
        match answer {
            Answer::Granted => self.granted(token, forgets),
            Answer::Refused if polled => self.send_away(),
            Answer::Unclear if !polled => {
                let ours = self.gate.ended(token, self.in_a_tick());
                ours.then(|| self.end(token, End::CleanedUp)).flatten()
            }
            Answer::Queued | Answer::Unclear => {
                let fate = self.gate.queued(token, self.in_a_tick());
                self.fate(fate)
            }
            Answer::Nothing | Answer::Refused => {
                let ours = self.gate.ended(token, self.at());
                let wrong = ours.then(|| self.end(token, End::Nothing)).flatten();
                if answer == Answer::Refused {
                    return wrong.or(self.send_away());
                }
                wrong
            }
        }
    }

    fn granted(&mut self, token: Token, forgets: Forgets) -> Option<&'static str> {
        let lease = Duration::from_millis(2500); // longer than a turn, shorter than three ticks
        let offer = Offer::in_turn(self.at(), lease, 1, 1);
        let fate = self.gate.granted(token, offer);
        if fate == Fate::Taken && forgets != Forgets::ToWakeTheFirstWhenGranted {
            self.wake_called();
        }
        self.fate(fate)
    }

    fn fate(&mut self, fate: Fate) -> Option<&'static str> {
        match fate {
            Fate::Unwanted(position) => self.end(position.token, End::CleanedUp),
            Fate::Taken | Fate::NotOurs => None,
        }
    }

    /// `Drop for Driver`, and for the acquire that it waits for.
    fn runtime_ends(&mut self, forgets: Forgets) -> Option<&'static str> {
        let mut wrong = None;
        if let Driver::Asking(number) = self.driver {
            let token = Token::of_test(number);
            if self.gate.ended(token, self.at()) {
                wrong = self.end(token, End::CleanedUp);
            }
        }
        self.driver = Driver::None;
        if forgets != Forgets::ToSayThatTheDriverIsGone {
            self.gate.driver_gone();
        }
        if forgets != Forgets::ToWakeAllWhenTheRuntimeEnds {
            for waiter in &mut self.waiters {
                if let Waiter::In { woken, .. } = waiter {
                    *woken = true;
                }
            }
        }
        wrong
    }

    fn send_away(&mut self) -> Option<&'static str> {
        let (line, unwanted) = self.gate.clear();
        for (_, who) in line {
            self.waiters[who] = Waiter::Gone;
        }
        self.bell = true;
        self.clean_up(unwanted)
    }

    fn wake_called(&mut self) {
        if let Some(who) = self.gate.called()
            && let Waiter::In { woken, .. } = &mut self.waiters[*who]
        {
            *woken = true;
        }
    }

    fn clean_up(&mut self, unwanted: Option<Position>) -> Option<&'static str> {
        unwanted.and_then(|position| self.end(position.token, End::CleanedUp))
    }

    fn end(&mut self, token: Token, end: End) -> Option<&'static str> {
        let before = self.ends.insert(number(token), end);
        before.map(|_| "a token left twice")
    }
}

fn position(number: u64) -> Position {
    Position {
        token: Token::of_test(number),
        claim: Claim {
            key: "k".into(),
            value: number.to_string().into(),
            queues: false,
        },
    }
}

pub(super) fn number(token: Token) -> u64 {
    (1..=9)
        .find(|number| Token::of_test(*number) == token)
        .expect("a token of this model")
}
