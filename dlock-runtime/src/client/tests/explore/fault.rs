//! The faults; each costs one of the run's budget. Recovery costs nothing.
//!
//! What a fault does to a process is here; what the process does about it is in `process` and
//! `leading`.

use super::process::{Leader, Phase, Process, Turn};
use super::run::Run;
use super::seen::{Seen, Witness};
use super::world::{Answer, FOREIGN, KEY, Reply, What, Wire, World};
use crate::client::local_queue::Remote;
use crate::values::moment::Moment;
use crate::values::token::Token;
use std::rc::Rc;

/// The kinds of faults that a run allows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// The command connection, or the watchdog's, breaks.
    Break,
    /// A push is lost, or the server believes that the waiter's channel has no subscriber.
    Push,
    /// Something stalls, for any time.
    Stall,
    /// Only this stalls.
    Only(Stall),
    Crash,
    /// As `Crash`, but only for a process in the queue, and the server does not notice.
    CrashInQueue,
    /// A program without dlock takes the lock by `SET NX PX`.
    Foreign,
    /// A command is executed twice.
    Twice,
    /// As `Twice`, with the second execution at any later time; an acquire is sent only once.
    TwiceLater,
    /// The leader's runtime ends.
    Leader,
    /// The queue's keys are evicted.
    QueueLost,
    /// FLUSHALL, or the key is deleted.
    Memory,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Fault {
    /// `limbo`: commands that were sent may yet be executed, and the server has not noticed.
    Break {
        at: usize,
        limbo: bool,
    },
    WatchdogBreak {
        at: usize,
        limbo: bool,
    },
    PushLost(usize, usize),
    PushDown(usize),
    Stall(usize, Stall),
    Crash {
        at: usize,
        noticed: bool,
    },
    ForeignSet,
    Twice(usize, bool),
    TwiceLater(usize, bool),
    LeaderLost(usize),
    QueueLost,
    Flush,
    ForeignDel,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Stall {
    Requests,
    Replies,
    Pushes,
    Watchdog,
    Process,
}

const STALLS: [Stall; 5] = [
    Stall::Requests,
    Stall::Replies,
    Stall::Pushes,
    Stall::Watchdog,
    Stall::Process,
];

impl World {
    /// The faults that make a difference now.
    pub(super) fn faults(&self, run: &Run) -> Vec<Fault> {
        let mut faults = Vec::new();
        if self.budget == 0 {
            return faults;
        }
        for kind in run.faults {
            match kind {
                Kind::Foreign => {
                    let free = (*self.server)
                        .clone()
                        .read(KEY, self.clock.time())
                        .is_none();
                    faults.extend(free.then_some(Fault::ForeignSet));
                }
                Kind::QueueLost => faults.push(Fault::QueueLost),
                Kind::Memory => faults.extend([Fault::Flush, Fault::ForeignDel]),
                _ => {
                    let living = self.processes.iter().filter(|it| it.alive);
                    living.for_each(|it| self.faults_of(*kind, it, &mut faults));
                }
            }
        }
        faults
    }

    fn faults_of(&self, kind: Kind, process: &Process, faults: &mut Vec<Fault>) {
        let at = process.at;
        let begun = process.contenders.iter().any(|it| it.phase != Phase::Idle);
        match kind {
            Kind::Break if begun && process.stall.is_none() => {
                faults.push(Fault::Break { at, limbo: false });
                if !process.commands.out.is_empty() {
                    faults.push(Fault::Break { at, limbo: true });
                }
                if process.watchdog != Wire::default() {
                    faults.push(Fault::WatchdogBreak { at, limbo: false });
                }
                if !process.watchdog.out.is_empty() {
                    faults.push(Fault::WatchdogBreak { at, limbo: true });
                }
            }
            Kind::Push => {
                let pushes = (0..process.pushes.len()).map(|index| Fault::PushLost(at, index));
                faults.extend(pushes);
                if begun && self.channels.contains(&(at, process.connection)) {
                    faults.push(Fault::PushDown(at));
                }
            }
            Kind::Stall if begun && process.stall.is_none() => {
                faults.extend(STALLS.map(|stall| Fault::Stall(at, stall)));
            }
            Kind::Only(stall) if begun && process.stall.is_none() => {
                faults.push(Fault::Stall(at, stall));
            }
            Kind::Crash if begun => {
                faults.push(Fault::Crash { at, noticed: true });
                faults.push(Fault::Crash { at, noticed: false });
            }
            Kind::CrashInQueue if matches!(process.remote(), Some(Remote::Queued { .. })) => {
                faults.push(Fault::Crash { at, noticed: false });
            }
            Kind::Twice => {
                let wires = [(&process.commands, false), (&process.watchdog, true)];
                let busy = wires.iter().filter(|(wire, _)| !wire.out.is_empty());
                faults.extend(busy.map(|(_, watchdog)| Fault::Twice(at, *watchdog)));
            }
            Kind::TwiceLater => {
                let may = |wire: &Wire| {
                    let first = wire.out.front();
                    first.is_some_and(|it| !matches!(it.what, What::Acquire(_)))
                };
                let wires = [(&process.commands, false), (&process.watchdog, true)];
                let may = wires.iter().filter(|(wire, _)| may(wire));
                faults.extend(may.map(|(_, watchdog)| Fault::TwiceLater(at, *watchdog)));
            }
            Kind::Leader if process.is_driven() => faults.push(Fault::LeaderLost(at)),
            _ => {}
        }
    }

    pub(super) fn strike(
        &mut self,
        run: &Run,
        fault: Fault,
        seen: &mut Seen,
    ) -> Option<&'static str> {
        self.budget -= 1;
        match fault {
            Fault::Break { at, limbo } => self.break_wire(at, limbo),
            Fault::WatchdogBreak { at, limbo } => self.break_watchdog(run, at, limbo, seen),
            Fault::PushLost(at, index) => {
                self.process(at).pushes.remove(index);
            }
            Fault::PushDown(at) => {
                let gone = (at, self.processes[at].connection);
                self.channels.retain(|it| *it != gone);
            }
            Fault::Stall(at, stall) => self.process(at).stall = Some(stall),
            Fault::Crash { at, noticed } => self.crash(at, noticed, seen),
            Fault::ForeignSet => {
                let (ends, time) = (run.ttl, self.clock.time());
                let expires = time + u64::try_from(ends.as_micros()).expect("short");
                self.server().put(KEY, FOREIGN, Some(expires));
                self.foreign = Some(self.clock.now().plus(ends));
                seen.saw(Witness::ForeignHolder);
            }
            Fault::Twice(at, watchdog) => {
                // Immediately: the client promises to send an acquire only once (rule 1).
                let mut first = self.wire(at, watchdog).out.front()?.clone();
                first.heard = false;
                let (_, wrong) = self.execute(run, first, seen);
                return wrong.or(self.execute_next(run, at, watchdog, seen));
            }
            Fault::TwiceLater(at, watchdog) => {
                let mut again = self.wire(at, watchdog).out.front()?.clone();
                again.heard = false;
                self.limbo.push(again);
            }
            Fault::LeaderLost(at) => self.turn(run, at, seen, |it, turn| it.leader_lost(turn)),
            Fault::QueueLost => self.server().lose_queue(KEY),
            Fault::Flush => {
                *self.server() = crate::rules::Server::default();
                self.promises_off = true;
                self.deleted = Some(self.clock.now());
            }
            Fault::ForeignDel => {
                self.server().remove(KEY);
                self.promises_off = true;
                self.deleted = Some(self.clock.now());
            }
        }
        None
    }

    pub(super) fn break_wire(&mut self, at: usize, limbo: bool) {
        let now = self.clock.now();
        let process = self.process(at);
        let old = (at, process.connection);
        let wire = process.cut(now);
        let new = (at, process.connection);
        self.channels.retain(|it| limbo || *it != old);
        self.channels.push(new);
        self.channels.sort_unstable();
        if limbo {
            self.limbo.extend(wire.out.into_iter().map(|mut command| {
                command.heard = false;
                command
            }));
        }
    }

    pub(super) fn break_watchdog(&mut self, run: &Run, at: usize, limbo: bool, seen: &mut Seen) {
        if limbo {
            let sent = self.processes[at].watchdog.out.clone();
            self.limbo.extend(sent.into_iter().map(|mut command| {
                command.heard = false;
                command
            }));
        }
        self.turn(run, at, seen, Process::cut_watchdog);
    }

    fn crash(&mut self, at: usize, noticed: bool, seen: &mut Seen) {
        if self.processes[at].bodies().next().is_some() {
            seen.saw(Witness::CrashWhileHolding);
        }
        let process = self.process(at);
        process.alive = false;
        process.stall = None;
        process.pushes.clear();
        process.leader = Leader::Idle;
        let wires = [
            std::mem::take(&mut process.commands),
            std::mem::take(&mut process.watchdog),
        ];
        *process = process.dead(); // what it knew makes no difference
        if noticed {
            self.channels.retain(|(whose, _)| *whose != at);
        } else {
            let sent = wires.into_iter().flat_map(|wire| wire.out);
            self.limbo.extend(sent.map(|mut command| {
                command.heard = false;
                command
            }));
        }
    }

    pub(super) fn process(&mut self, at: usize) -> &mut Process {
        Rc::make_mut(&mut self.processes[at])
    }

    pub(super) fn wire(&mut self, at: usize, watchdog: bool) -> &mut Wire {
        let process = self.process(at);
        if watchdog {
            &mut process.watchdog
        } else {
            &mut process.commands
        }
    }

    /// Runs one step of a process, and records which body began.
    pub(super) fn turn(
        &mut self,
        run: &Run,
        at: usize,
        seen: &mut Seen,
        act: impl FnOnce(&mut Process, &mut Turn<'_>),
    ) {
        let clock = self.clock_of(at);
        let mut turn = Turn {
            run,
            clock,
            time: self.clock.time(),
            seen: &mut *seen,
            begun: None,
        };
        act(Rc::make_mut(&mut self.processes[at]), &mut turn);
        let begun = turn.begun;
        if let Some(begun) = begun {
            self.began(&begun);
            if self.processes.iter().flat_map(|it| it.bodies()).count() > 1 {
                seen.saw(Witness::TwoBelievers);
            }
        }
    }
}

/// The end of a connection.
impl Process {
    /// The process learns of it with the next reply that it reads; from now on it has a new
    /// connection. Returns what was on its way on the old one.
    pub(super) fn cut(&mut self, now: Moment) -> Wire {
        let wire = std::mem::take(&mut self.commands);
        let behind = |what: &What| matches!(what, What::Cancel { behind: true, .. });
        let mut cancels: Vec<Token> = Vec::new();
        for command in &wire.out {
            cancels.extend((command.heard && behind(&command.what)).then_some(command.token));
        }
        for reply in &wire.back {
            let of = matches!(reply.answer, Answer::Cancelled(_, true));
            cancels.extend(of.then_some(reply.token));
        }
        self.connection += 1;
        self.pushes.clear();
        self.commands.back.push_back(Reply {
            token: Token::of_test(0),
            sent: now,
            answer: Answer::Broken(cancels),
        });
        wire
    }

    pub(super) fn cut_watchdog(&mut self, turn: &mut Turn<'_>) {
        let wire = std::mem::take(&mut self.watchdog);
        let mut failed: Vec<(Token, bool, _)> = Vec::new();
        for command in wire.out.iter().filter(|it| it.heard) {
            let renews = matches!(command.what, What::Renew(_));
            failed.push((command.token, renews, command.sent));
        }
        for reply in &wire.back {
            let renews = matches!(reply.answer, Answer::Renewed(_));
            failed.push((reply.token, renews, reply.sent));
        }
        for (token, renews, sent) in failed {
            self.watchdog_failed(turn, token, renews, sent);
        }
    }
}
