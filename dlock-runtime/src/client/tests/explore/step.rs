//! What can happen next, and what must happen before time passes.

use super::drain::{Broken, comes_to_rest};
use super::fault::{Fault, Stall};
use super::kind::{Asks, Keeps};
use super::process::{Phase, Process};
use super::run::{Run, Wants};
use super::seen::{Seen, Witness};
use super::token_rest::EVERY_ANSWER;
use super::world::{FOREIGN, KEY, Wire, World};
use crate::rules::tests::explore::{Model, Outcome};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    Tick,
    /// Process, contender.
    Enter(usize, usize),
    Check(usize, usize),
    /// Its wait is cancelled.
    Leave(usize, usize),
    WaitOver(usize, usize),
    BodyEnds(usize, usize),
    Downgrade(usize, usize),
    Extend(usize, usize),
    /// Its guard is dropped.
    GuardDropped(usize, usize),
    /// It notices that its lease is over.
    Stopped(usize, usize),
    Lead(usize),
    Guard(usize),
    /// The first command of a connection; `true`: the watchdog's.
    Execute(usize, bool),
    Hear(usize, bool),
    Push(usize, usize),
    LeaderTimesOut(usize),
    TimesOut(usize, usize),
    WatchdogTimesOut(usize),
    BehindTimesOut(usize),
    /// A connection that has been silent for two timeouts is replaced.
    Rebuild(usize, bool),
    /// A late command of a broken connection is executed.
    Limbo(usize),
    ForeignReleases,
    Resume(usize),
    Listens(usize),
    /// The server notices that these connections are gone.
    Notices(usize),
    Fault(Fault),
}

impl Model for World {
    type Run = Run;
    type Step = Step;
    type Witness = Witness;

    fn first(run: &Run) -> Self {
        World::new(run)
    }

    fn steps(&self, run: &Run, steps: &mut Vec<Step>) {
        steps.extend(self.urgent(run));
        if steps.is_empty() || run.asynchronous && self.is_not_flooded() {
            steps.push(Step::Tick);
        }
        for process in self.processes.iter().filter(|it| it.alive) {
            self.choices(run, process, steps);
        }
        steps.extend((0..self.limbo.len()).map(Step::Limbo));
        if self.foreign.is_some() && self.foreign_stands() {
            steps.push(Step::ForeignReleases);
        }
        for process in &self.processes {
            let stale = |it: &&(usize, u32)| {
                it.0 == process.at && (!process.alive || it.1 != process.connection)
            };
            if self.channels.iter().any(|it| stale(&it)) {
                steps.push(Step::Notices(process.at));
            }
        }
        steps.extend(self.faults(run).into_iter().map(Step::Fault));
    }

    fn step(&mut self, run: &Run, step: Step, seen: &mut Seen) -> Outcome {
        let wrong = self.act(run, step, seen);
        self.tidy();
        let wrong = wrong.or(self.wrong.take());
        wrong.or_else(|| self.broken_property(run)).into()
    }

    fn fingerprint(&self) -> u128 {
        self.fingerprint()
    }

    fn describe(&self) -> String {
        self.describe()
    }

    /// Processes, tokens of each, faults; ticks of a lease.
    fn bounds_of(run: &Run) -> String {
        let ticks = run.ttl.as_millis() / run.tick.as_millis();
        let processes = run.processes.len();
        format!("{processes}/{}/{}, ttl {ticks}", run.attempts, run.budget)
    }

    fn rests(&self, run: &Run, n: usize, seen: &mut Seen) -> Result<(), Broken> {
        if n.is_multiple_of(run.drain_every) {
            comes_to_rest(run, self, seen)?;
            let leases = (0..run.processes.len()).map(|at| run.terms(at).lease().get());
            let longest = leases.max().unwrap_or_default();
            let left = |answer| self.left_for_good(longest, answer);
            if let Some(wrong) = EVERY_ANSWER.into_iter().find_map(left) {
                return Err((wrong, Vec::new()));
            }
        }
        Ok(())
    }
}

impl World {
    /// The steps that are taken before time passes, unless they are stalled.
    pub(super) fn urgent(&self, run: &Run) -> Vec<Step> {
        let mut steps = Vec::new();
        for process in self.processes.iter().filter(|it| it.alive) {
            Self::wires_of(process, &mut steps);
            if process.stall != Some(Stall::Process) && !process.is_cut() {
                process.own(run, self.clock.now(), &mut steps);
            }
        }
        steps
    }

    fn wires_of(process: &Process, steps: &mut Vec<Step>) {
        let (at, stall) = (process.at, process.stall);
        let runs = stall != Some(Stall::Process);
        if !process.commands.out.is_empty() && stall != Some(Stall::Requests) {
            steps.push(Step::Execute(at, false));
        }
        if !process.watchdog.out.is_empty() && stall != Some(Stall::Watchdog) {
            steps.push(Step::Execute(at, true));
        }
        if !process.commands.back.is_empty() && runs && stall != Some(Stall::Replies) {
            steps.push(Step::Hear(at, false));
        }
        if process.is_cut() {
            return;
        }
        if !process.watchdog.back.is_empty() && runs && stall != Some(Stall::Watchdog) {
            steps.push(Step::Hear(at, true));
        }
        if runs && stall != Some(Stall::Pushes) {
            steps.extend((0..process.pushes.len()).map(|index| Step::Push(at, index)));
        }
    }

    /// The steps that a process may take at any time.
    fn choices(&self, run: &Run, process: &Process, steps: &mut Vec<Step>) {
        let at = process.at;
        if process.stall.is_some() {
            steps.push(Step::Resume(at));
        }
        if !self.channels.contains(&(at, process.connection)) {
            steps.push(Step::Listens(at));
        }
        if process.stall == Some(Stall::Process) || process.is_cut() {
            return;
        }
        for (who, contender) in process.contenders.iter().enumerate() {
            let cancels = self.cancels > 0;
            match &contender.phase {
                Phase::Idle => steps.push(Step::Enter(at, who)),
                Phase::Queue(_) => {
                    if contender.wants == Wants::For && contender.over.is_none() {
                        steps.push(Step::WaitOver(at, who));
                    }
                    steps.extend(cancels.then_some(Step::Leave(at, who)));
                }
                Phase::Alone => steps.extend(cancels.then_some(Step::Leave(at, who))),
                Phase::Body(body) => {
                    if !body.lost && self.may_end(run, at) {
                        steps.push(Step::BodyEnds(at, who));
                    }
                    let writes = run.downgrades && run.asks(at) == Asks::Write;
                    let holds = !body.lost && self.clock.now() < body.deadline;
                    if writes && holds && !body.reads {
                        steps.push(Step::Downgrade(at, who));
                    }
                    steps.extend(cancels.then_some(Step::GuardDropped(at, who)));
                }
                Phase::Confirming { .. } | Phase::Releasing { .. } => {
                    steps.extend(cancels.then_some(Step::GuardDropped(at, who)));
                }
                Phase::Done => {}
            }
        }
    }

    fn may_end(&self, run: &Run, at: usize) -> bool {
        let last = self.processes.last();
        match run.keeps {
            Keeps::Nobodys => true,
            Keeps::TheFirst => at != 0,
            Keeps::TheOuter => at != 0 || last.is_none_or(|it| !it.alive || it.wants_nothing()),
        }
    }

    /// However slow the connections are, at some time a contender waits for them.
    fn is_not_flooded(&self) -> bool {
        let few = |wire: &Wire| wire.out.len() < 3;
        let mut processes = self.processes.iter();
        processes.all(|it| few(&it.commands) && few(&it.watchdog))
    }

    fn foreign_stands(&self) -> bool {
        let mut server = (*self.server).clone();
        server.read(KEY, self.clock.time()).as_deref() == Some(FOREIGN)
    }

    fn act(&mut self, run: &Run, step: Step, seen: &mut Seen) -> Option<&'static str> {
        match step {
            Step::Tick => self.clock.ticks += 1,
            Step::Execute(at, watchdog) => return self.execute_next(run, at, watchdog, seen),
            Step::Limbo(index) => {
                seen.saw(Witness::LimboExecuted);
                let command = self.limbo.remove(index);
                return self.execute(run, command, seen).1;
            }
            Step::Fault(fault) => return self.strike(run, fault, seen),
            Step::ForeignReleases => {
                self.server().remove(KEY);
                self.foreign = None;
            }
            Step::Rebuild(at, watchdog) => {
                self.process(at).stall = None;
                if watchdog {
                    self.break_watchdog(run, at, true, seen);
                } else {
                    self.break_wire(at, true);
                }
            }
            Step::Resume(at) => self.process(at).stall = None,
            Step::Listens(at) => {
                let channel = (at, self.processes[at].connection);
                self.channels.push(channel);
                self.channels.sort_unstable();
            }
            Step::Notices(at) => {
                let (alive, now) = (self.processes[at].alive, self.processes[at].connection);
                self.channels
                    .retain(|it| it.0 != at || (alive && it.1 == now));
            }
            Step::Leave(at, _) | Step::GuardDropped(at, _) => {
                self.cancels -= 1;
                return self.acts(run, at, step, seen);
            }
            Step::Enter(at, _)
            | Step::Check(at, _)
            | Step::WaitOver(at, _)
            | Step::BodyEnds(at, _)
            | Step::Downgrade(at, _)
            | Step::Extend(at, _)
            | Step::Stopped(at, _)
            | Step::Lead(at)
            | Step::Guard(at)
            | Step::Hear(at, _)
            | Step::Push(at, _)
            | Step::LeaderTimesOut(at)
            | Step::TimesOut(at, _)
            | Step::WatchdogTimesOut(at)
            | Step::BehindTimesOut(at) => return self.acts(run, at, step, seen),
        }
        None
    }

    pub(super) fn execute_next(
        &mut self,
        run: &Run,
        at: usize,
        watchdog: bool,
        seen: &mut Seen,
    ) -> Option<&'static str> {
        let command = self.wire(at, watchdog).out.pop_front()?;
        let (token, sent) = (command.token, command.sent);
        let (answer, wrong) = self.execute(run, command, seen);
        if let Some(answer) = answer {
            self.wire(at, watchdog).back.push_back(super::world::Reply {
                token,
                sent,
                answer,
            });
        }
        wrong
    }

    fn acts(&mut self, run: &Run, at: usize, step: Step, seen: &mut Seen) -> Option<&'static str> {
        self.turn(run, at, seen, |process, turn| process.act(turn, step));
        None
    }
}
