//! The boundary between the simulator and a process: events in, commands out. Only this file of the
//! simulator calls the explorer's process.

use std::rc::Rc;

use fastrand::Rng;

use super::clocks::Drifting;
use crate::client::local_queue::Remote;
use crate::client::server_clock::{Executed, ServerClock};
use crate::client::tests::explore::host::queue_key;
use crate::client::tests::explore::past_the_queue;
use crate::client::tests::explore::process::{Begun, Leader, Phase, Process, Turn};
use crate::client::tests::explore::run::{Order, Run, Wants};
use crate::client::tests::explore::seen::Seen;
use crate::client::tests::explore::step::Step;
use crate::client::tests::explore::world::{Answer, Clock, Command, Push, Reply, token_in};
use crate::values::moment::Moment;
use crate::values::token::Token;
use crate::values::ttl::Margin;

/// What a process is told.
#[derive(Clone, Debug)]
pub(super) enum Event {
    /// A contender begins to wait.
    Enter(usize, Wants, Order),
    /// A contender's wait is over or cancelled, its body ends, its guard is dropped, …
    Deed(Step),
    /// The oldest unanswered command of a connection is answered.
    Answered {
        watchdog: bool,
        reply: Reply,
    },
    Pushed(Push),
    /// A message says that this value was granted; the sender need not be the server.
    Hinted(String),
    /// The command connection has ended; from now on there is another one.
    Cut,
    WatchdogCut,
    /// The leader's task ended with its runtime.
    LeaderLost,
}

/// What a process has done.
#[derive(Default)]
pub(super) struct Done {
    pub(super) begun: Option<Begun>,
    /// The commands that it sends, and on which connection.
    pub(super) sent: Vec<(bool, Command)>,
    /// It replaces this connection (`true`: the watchdog's).
    pub(super) reconnects: Option<bool>,
    /// What it did by itself, for people who read a trace.
    pub(super) step: Option<Step>,
}

/// A process, and what its connections know about the server's time.
#[derive(Debug)]
pub(super) struct Host {
    pub(super) clock: Drifting,
    /// How many of the unanswered commands have been sent, on either connection.
    sent: [usize; 2],
    executed: Option<Executed>,
    server: Option<ServerClock>,
}

impl Host {
    pub(super) fn new(clock: Drifting) -> Self {
        Self {
            clock,
            sent: [0, 0],
            executed: None,
            server: None,
        }
    }

    /// The connection's handshake tells the server's time.
    pub(super) fn greeted(&mut self, time: u64, sent: Moment, now: u64) {
        let now = self.clock.clock(now).now();
        self.heard_time(time, sent, now);
    }

    fn heard_time(&mut self, time: u64, sent: Moment, now: Moment) {
        if self.executed.is_none_or(|latest| latest.sent <= sent) {
            self.executed = Some(Executed { sent, time });
        }
        let server = self.server.get_or_insert(ServerClock { time, heard: now });
        server.hear(time, sent, now);
    }

    /// A turn with the server's time as this host estimates it.
    fn turn<'a>(&self, run: &'a Run, clock: Clock, seen: &'a mut Seen) -> Turn<'a> {
        let time = self.server.map(|it| it.at(clock.now()));
        Turn {
            run,
            clock,
            time: time.unwrap_or_else(|| clock.time()),
            seen,
            begun: None,
        }
    }

    pub(super) fn tell(
        &mut self,
        process: &mut Rc<Process>,
        run: &Run,
        seen: &mut Seen,
        now: u64,
        event: Event,
    ) -> Done {
        let clock = self.clock.clock(now);
        let process = Rc::make_mut(process);
        let mut turn = self.turn(run, clock, seen);
        match event {
            Event::Enter(who, wants, order) => {
                let contender = &mut process.contenders[who];
                contender.wants = wants;
                contender.order = Some(order);
                contender.phase = Phase::Idle;
                process.act(&mut turn, Step::Enter(process.at, who));
            }
            Event::Deed(step) => process.act(&mut turn, step),
            Event::Answered { watchdog, reply } => {
                if let Some(time) = time_of(&reply.answer) {
                    self.heard_time(time, reply.sent, clock.now());
                }
                self.answered(process, &mut turn, watchdog, reply);
            }
            Event::Pushed(grant) => {
                if let Some(index) = process.pushes.iter().position(|it| *it == grant) {
                    process.pushes.remove(index);
                    let (known, now) = (self.executed, clock.now());
                    let since =
                        known.and_then(|it| it.no_later_than(grant.time, now, Margin::DEFAULT));
                    past_the_queue::pushed(process, &mut turn, grant, since);
                }
            }
            Event::Hinted(value) => {
                let (key, at) = (queue_key(), process.at);
                if let Some((_, token)) = token_in(&value).filter(|it| it.0 == at) {
                    process.tell(&turn, |client, told| {
                        client.pushed((key.key(), token, &value), None, told)
                    });
                }
            }
            Event::Cut => {
                process.cut(turn.now());
                (self.sent[0], self.executed, self.server) = (0, None, None);
                process.act(&mut turn, Step::Hear(process.at, false));
            }
            Event::WatchdogCut => {
                process.cut_watchdog(&mut turn);
                self.sent[1] = 0;
            }
            Event::LeaderLost => process.leader_lost(&turn),
        }
        self.done(process, turn.begun)
    }

    /// Takes one of the steps that the process has to take by itself, in any order; without one,
    /// returns when the next is due.
    pub(super) fn acts(
        &mut self,
        process: &mut Rc<Process>,
        run: &Run,
        seen: &mut Seen,
        (now, rng): (u64, &mut Rng),
        is_polled: impl Fn(usize) -> bool,
    ) -> Result<Done, u64> {
        let clock = self.clock.clock(now);
        let process = Rc::make_mut(process);
        let granted = matches!(process.remote(), Some(Remote::Granted(..)));
        if granted && process.leader == Leader::Idle && process.is_driven() {
            process.rest(&self.turn(run, clock, seen));
        }
        let (mut due, mut next) = (Vec::new(), Moment::NEVER);
        process.by_itself(run, clock.now(), |from, step| {
            let polled = match step {
                Step::Check(_, who) | Step::Stopped(_, who) | Step::TimesOut(_, who) => {
                    is_polled(who)
                }
                _ => true,
            };
            match (polled, from <= clock.now()) {
                (true, true) => due.push(step),
                (true, false) => next = next.min(from),
                (false, _) => {}
            }
        });
        if due.is_empty() {
            return Err(self.when(next, now));
        }
        let step = due[rng.usize(0..due.len())];
        let mut turn = self.turn(run, clock, seen);
        let reconnects = if let Step::Rebuild(_, watchdog) = step {
            Some(watchdog)
        } else {
            process.act(&mut turn, step);
            None
        };
        let mut done = self.done(process, turn.begun);
        (done.reconnects, done.step) = (reconnects, Some(step));
        Ok(done)
    }

    fn when(&self, moment: Moment, now: u64) -> u64 {
        if moment == Moment::NEVER {
            return u64::MAX;
        }
        let ahead = self.clock.clock(now).now().until(moment);
        let ahead = u64::try_from(ahead.as_nanos().div_ceil(1000)).expect("soon");
        self.clock.when(self.clock.at(now) + ahead, now)
    }

    fn answered(
        &mut self,
        process: &mut Process,
        turn: &mut Turn<'_>,
        watchdog: bool,
        reply: Reply,
    ) {
        let wire = if watchdog {
            &mut process.watchdog
        } else {
            &mut process.commands
        };
        let Some(command) = wire.out.pop_front() else {
            unreachable!("an answer to nothing");
        };
        self.sent[usize::from(watchdog)] -= 1;
        debug_assert_eq!(command.token, reply.token, "in order");
        if command.heard {
            wire.back.push_back(reply);
            process.act(turn, Step::Hear(process.at, watchdog));
        }
    }

    fn done(&mut self, process: &Process, begun: Option<Begun>) -> Done {
        let mut done = Done {
            begun,
            ..Done::default()
        };
        for (wire, watchdog) in [(&process.commands, false), (&process.watchdog, true)] {
            let known = &mut self.sent[usize::from(watchdog)];
            let new = wire.out.iter().skip(*known).cloned();
            done.sent.extend(new.map(|command| (watchdog, command)));
            *known = wire.out.len();
        }
        done
    }
}

/// The phase of a contender, as an outsider sees it.
pub(super) fn phase(process: &Process, who: usize) -> &Phase {
    &process.contenders[who].phase
}

/// The contender whose body has this token.
pub(super) fn holder(process: &Process, token: Token) -> Option<usize> {
    let of = |it: &Phase| matches!(it, Phase::Body(body) if body.token == token);
    process.contenders.iter().position(|it| of(&it.phase))
}

/// The server's time in an answer.
fn time_of(answer: &Answer) -> Option<u64> {
    match answer {
        Answer::Acquired(answer) => Some(answer.time()),
        Answer::Polled(answer) => Some(answer.time()),
        Answer::Cancelled(answer, _) => Some(answer.time),
        _ => None,
    }
}
