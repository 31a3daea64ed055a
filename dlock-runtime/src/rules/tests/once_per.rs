//! A job that runs once per period, explored: the machine as it ships, and every order in which the
//! commands of two processes are executed, answered late or never, while bodies fail, processes crash and
//! time passes. What a process does between its commands is that of `driver/acquire.rs` and
//! `client/tokens`, in few words.

use std::hash::Hash;

use super::explore::{self, Bad, Model, Outcome, Row, catch, hold};
use super::print::Print;
use super::{ms, ttl};
use crate::rules::commands::{
    Acquire, Acquired, Claim, Keep, NotDue, Polled, PushedGrant, RunNote, RunOutcome,
};
use crate::rules::{Publish, Reached, Server};
use crate::values::record::Record;

const KEY: &str = "job";
const SECOND: u64 = 1_000_000;
const LEASE: u64 = 4 * SECOND;
const PERIOD: u64 = 9 * SECOND;
/// Longer than any lease and heartbeat, but not than a queue.
const LONG: u64 = 5 * SECOND;
/// Longer than a queue, too.
const LONGEST: u64 = 8 * SECOND;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Variant {
    AsShipped,
    /// A grant writes the record.
    TheGrantRecords,
    /// A body's `Err` counts as its end.
    AFailureIsRecorded,
    /// A release that finds another holder, or none, writes the record.
    AStaleReleaseRecords,
    /// A poll grants without a look at the record.
    APollDoesNotLook,
    /// The clean-up of a release without an answer says nothing of the run.
    TheCleanUpForgets,
    /// At most once: the run is recorded when its body has begun.
    RecordedBehindItsBegin,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Process {
    Idle,
    /// Its acquire is not executed yet …
    Sent,
    /// … nor will be waited for.
    Abandoned {
        not_after: u64,
    },
    Waits,
    /// Granted, and its body has not begun.
    Granted(RunNote),
    Runs(RunNote),
    /// Its release is not executed, or not answered.
    Ends {
        run: RunNote,
        is_repeated: bool,
    },
    Crashed,
}

/// What has become of a run, as nobody knows who is inside.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Known {
    start: u64,
    epoch: u64,
    begun: bool,
    failed: bool,
    /// By the release that found its lock, or before its body.
    recorded: bool,
}

#[derive(Clone, Debug)]
struct World {
    server: Server,
    time: u64,
    processes: [Process; 2],
    attempts: [u8; 2],
    runs: Vec<Known>,
    crashes: u8,
    lost: u8,
    passes: u8,
    broken: Option<&'static str>,
}

struct Run {
    variant: Variant,
    at_most_once: bool,
}

/// How often each process calls.
const ATTEMPTS: [u8; 2] = [2, 1];

/// How often time passes.
const PASSES: u8 = 2;

#[derive(Clone, Copy, Debug)]
enum Step {
    Begins(usize),
    Executed(usize),
    GivesUp(usize),
    /// The clean-up of what was given up is executed, and answered.
    CleanedUp(usize),
    Polled(usize),
    /// The body begins; before it, the run is recorded, if it may run at most once.
    Body(usize),
    /// It was recorded, and nobody heard of it.
    NoteLost(usize),
    Ends(usize, RunOutcome),
    /// The release is executed; `false`: its answer is lost.
    Released(usize, bool),
    /// It never arrives.
    ReleaseLost(usize),
    Crashes(usize),
    TimePasses,
}

#[derive(Clone, Copy, Debug)]
enum Witness {
    Recorded,
    RecordedByTheCleanUp,
    TakenBack,
    NotDue,
    NotDueByItsPoll,
    RunsAgainAfterACrash,
    RunsInTheNextPeriod,
    RunsInTurn,
    ExecutedLate,
}

impl explore::Witness for Witness {
    fn place(self) -> u8 {
        self as u8
    }
}

type Seen = explore::Seen<Witness>;

struct ByPolls;

impl Publish for ByPolls {
    fn publish(&mut self, _: &str, _: &PushedGrant) -> Reached {
        Reached::Unknown
    }
}

fn claim(name: impl std::fmt::Display) -> Claim {
    let period = PERIOD / 1000;
    Claim {
        key: KEY.into(),
        value: format!("1|x|{name}||{}|0|{period}||host|1|f|0", LEASE / 1000).into(),
        queues: true,
        is_once: true,
    }
}

fn ended(run: RunNote, outcome: RunOutcome) -> RunNote {
    RunNote { outcome, ..run }
}

impl World {
    fn claim(&self, at: usize) -> Claim {
        claim(format_args!("{at}-{}", self.attempts[at]))
    }

    fn acquire(&mut self, claim: Claim) -> Acquired {
        let command = Acquire {
            claim,
            lease: ttl(LEASE / 1000),
            not_after: self.time + SECOND,
            repair_missing_ttl: None,
        };
        self.server.acquire(&command, self.time, &mut ByPolls)
    }

    fn poll(&mut self, variant: Variant, at: usize) -> Polled {
        let (claim, before) = (self.claim(at), self.server.stored_record(KEY, self.time));
        if variant == Variant::APollDoesNotLook {
            self.server.clear_record(KEY, self.time);
        }
        let polled = self.server.poll(&claim, self.time, &mut ByPolls);
        if let (Variant::APollDoesNotLook, Some(it)) = (variant, before) {
            self.server.put_record(KEY, &it.text, it.expires);
        }
        polled
    }

    /// The process has the lock by this answer, or not.
    fn answered(&mut self, run: &Run, at: usize, grant: Option<(u64, u64)>) {
        let Some((start, epoch)) = grant else {
            self.processes[at] = Process::Idle;
            return;
        };
        let outcome = RunOutcome::Unknown;
        let note = RunNote {
            start,
            epoch,
            outcome,
        };
        self.processes[at] = Process::Granted(note);
        self.runs.push(Known {
            start,
            epoch,
            begun: false,
            failed: false,
            recorded: false,
        });
        if run.variant == Variant::TheGrantRecords {
            self.write(note);
        }
    }

    /// Past the machine.
    fn write(&mut self, run: RunNote) {
        let text = Record {
            start: run.start,
            end: self.time,
            period: ms(PERIOD / 1000),
            epoch: run.epoch,
            about: "host|1|f",
        };
        let expires = Some(run.start + PERIOD);
        self.server.put_record(KEY, &text.text(), expires);
    }

    fn known(&mut self, run: RunNote) -> &mut Known {
        let known = self.runs.iter_mut().find(|it| it.epoch == run.epoch);
        known.expect("it was granted")
    }

    fn body(&mut self, run: &Run, note: RunNote, seen: &mut Seen) {
        let counts = |it: &&Known| {
            if run.at_most_once {
                it.begun && !it.failed
            } else {
                it.recorded
            }
        };
        let before: Vec<Known> = self
            .runs
            .iter()
            .filter(|it| it.epoch != note.epoch)
            .copied()
            .collect();
        if before
            .iter()
            .filter(counts)
            .any(|it| note.start < it.start + PERIOD)
        {
            self.broken = Some("two runs within a period");
        }
        if before.iter().any(|it| it.begun && !it.recorded) {
            seen.saw(Witness::RunsAgainAfterACrash);
        }
        if before.iter().any(|it| it.recorded) {
            seen.saw(Witness::RunsInTheNextPeriod);
        }
        self.known(note).begun = true;
    }

    /// The release, or what repeats it, is executed.
    fn released(
        &mut self,
        run: &Run,
        at: usize,
        (note, is_repeated): (RunNote, bool),
        seen: &mut Seen,
    ) {
        let claim = self.claim(at);
        let held = self.server.holds(&claim, self.time);
        let forgets = is_repeated && run.variant == Variant::TheCleanUpForgets;
        let keep = if forgets {
            Keep::NOT
        } else {
            Keep::NOT.with(note)
        };
        let is_recorded = if is_repeated {
            self.server
                .cancel(&claim, keep, 0, self.time, &mut ByPolls)
                .is_recorded
        } else {
            self.server
                .release(&claim, keep, self.time, &mut ByPolls)
                .is_recorded
        };
        if note.outcome == RunOutcome::Succeeded {
            if held {
                let known = self.known(note);
                if !known.failed {
                    known.recorded = true;
                }
                if !is_recorded {
                    self.broken = Some("a run that succeeded is not recorded");
                }
                seen.saw(if is_repeated {
                    Witness::RecordedByTheCleanUp
                } else {
                    Witness::Recorded
                });
            } else if run.variant == Variant::AStaleReleaseRecords {
                self.write(note);
            }
        } else if note.outcome == RunOutcome::Failed && held {
            self.known(note).recorded = false;
            seen.saw(Witness::TakenBack);
        }
    }

    /// What the record says of a run.
    fn check_record(&mut self) {
        let stored = self.server.stored_record(KEY, self.time);
        let record = stored.and_then(|it| Record::read(&it.text).map(|it| it.epoch));
        let Some(epoch) = record else { return };
        let is_right = self.runs.iter().any(|it| it.epoch == epoch && it.recorded);
        if !is_right {
            self.broken
                .get_or_insert("the record tells of a run that is none");
        }
    }
}

impl Model for World {
    type Run = Run;
    type Step = Step;
    type Witness = Witness;

    fn first(_: &Run) -> Self {
        Self {
            server: Server::default(),
            time: 1_000_000 * SECOND,
            processes: [Process::Idle, Process::Idle],
            attempts: [0; 2],
            runs: Vec::new(),
            crashes: 0,
            lost: 0,
            passes: 0,
            broken: None,
        }
    }

    fn steps(&self, run: &Run, steps: &mut Vec<Step>) {
        for at in [0, 1] {
            match &self.processes[at] {
                Process::Idle if self.attempts[at] < ATTEMPTS[at] => steps.push(Step::Begins(at)),
                Process::Idle | Process::Crashed => {}
                Process::Sent => steps.extend([Step::Executed(at), Step::GivesUp(at)]),
                Process::Abandoned { not_after } => {
                    if self.time <= *not_after {
                        steps.push(Step::Executed(at));
                    }
                    steps.push(Step::CleanedUp(at));
                }
                Process::Waits => steps.push(Step::Polled(at)),
                Process::Granted(_) => {
                    steps.push(Step::Body(at));
                    if run.at_most_once && self.lost < 1 {
                        steps.push(Step::NoteLost(at));
                    }
                }
                Process::Runs(note) => {
                    if self.time < note.start + LEASE {
                        steps.push(Step::Ends(at, RunOutcome::Succeeded));
                        steps.push(Step::Ends(at, RunOutcome::Failed));
                    }
                    steps.push(Step::Ends(at, RunOutcome::Unknown));
                }
                Process::Ends { .. } => {
                    steps.push(Step::Released(at, true));
                    if self.lost < 1 {
                        steps.extend([Step::Released(at, false), Step::ReleaseLost(at)]);
                    }
                }
            }
            let may_crash = matches!(
                self.processes[at],
                Process::Waits | Process::Granted(_) | Process::Runs(_) | Process::Ends { .. }
            );
            if may_crash && self.crashes < 1 {
                steps.push(Step::Crashes(at));
            }
        }
        if self.passes < PASSES {
            steps.push(Step::TimePasses);
        }
    }

    #[expect(clippy::too_many_lines, reason = "an arm for each step")]
    fn step(&mut self, run: &Run, step: Step, seen: &mut Seen) -> Outcome {
        match step {
            Step::Begins(at) => {
                self.attempts[at] += 1;
                self.processes[at] = Process::Sent;
            }
            Step::Executed(at) => {
                let is_late = matches!(self.processes[at], Process::Abandoned { .. });
                let answer = self.acquire(self.claim(at));
                if is_late {
                    seen.saw(Witness::ExecutedLate);
                    self.processes[at] = Process::Abandoned { not_after: 0 };
                } else {
                    match answer {
                        Acquired::Granted { time, epoch } => {
                            self.answered(run, at, Some((time, epoch)));
                        }
                        Acquired::Queued(_) => self.processes[at] = Process::Waits,
                        Acquired::NotDue(NotDue { .. }) => {
                            seen.saw(Witness::NotDue);
                            self.answered(run, at, None);
                        }
                        other => panic!("{other:?}"),
                    }
                }
            }
            Step::GivesUp(at) => {
                let not_after = self.time + SECOND;
                self.processes[at] = Process::Abandoned { not_after };
            }
            Step::CleanedUp(at) => {
                let Process::Abandoned { not_after } = self.processes[at] else {
                    unreachable!("it was given up");
                };
                let (claim, time) = (self.claim(at), self.time);
                let answer = self
                    .server
                    .cancel(&claim, Keep::NOT, not_after, time, &mut ByPolls);
                if answer.conclusive {
                    self.processes[at] = Process::Idle;
                }
            }
            Step::Polled(at) => match self.poll(run.variant, at) {
                Polled::Yours { time, epoch, .. } => {
                    seen.saw(Witness::RunsInTurn);
                    self.answered(run, at, Some((time, epoch)));
                }
                Polled::Queued(_) => {}
                Polled::Gone { .. } => self.answered(run, at, None),
                Polled::NotDue(_) => {
                    seen.saw(Witness::NotDueByItsPoll);
                    self.answered(run, at, None);
                }
            },
            Step::Body(at) | Step::NoteLost(at) => {
                let Process::Granted(note) = self.processes[at].clone() else {
                    unreachable!("it has the lock");
                };
                let is_noted = !run.at_most_once || {
                    let (claim, time) = (self.claim(at), self.time);
                    let noted = self.server.note_run(&claim, note, time);
                    self.known(note).recorded |= noted;
                    noted
                };
                let is_held = self.time < note.start + LEASE;
                let note_behind = run.variant == Variant::RecordedBehindItsBegin;
                if let Step::NoteLost(_) = step {
                    self.lost += 1;
                    let run = ended(note, RunOutcome::Failed);
                    self.processes[at] = Process::Ends {
                        run,
                        is_repeated: false,
                    };
                } else if is_held && (is_noted || note_behind) {
                    if note_behind {
                        self.server.clear_record(KEY, self.time);
                        self.known(note).recorded = false;
                    }
                    self.body(run, note, seen);
                    self.processes[at] = Process::Runs(note);
                } else {
                    let run = ended(note, RunOutcome::Failed);
                    self.processes[at] = Process::Ends {
                        run,
                        is_repeated: false,
                    };
                }
            }
            Step::Ends(at, outcome) => {
                let Process::Runs(note) = self.processes[at].clone() else {
                    unreachable!("it runs");
                };
                self.known(note).failed |= outcome == RunOutcome::Failed;
                let said = match (run.variant, outcome) {
                    (Variant::AFailureIsRecorded, RunOutcome::Failed) => RunOutcome::Succeeded,
                    (_, outcome) => outcome,
                };
                let run = ended(note, said);
                self.processes[at] = Process::Ends {
                    run,
                    is_repeated: false,
                };
            }
            Step::Released(at, is_answered) => {
                let Process::Ends {
                    run: note,
                    is_repeated,
                } = self.processes[at].clone()
                else {
                    unreachable!("it has ended");
                };
                self.released(run, at, (note, is_repeated), seen);
                if is_answered {
                    self.processes[at] = Process::Idle;
                } else {
                    self.lost += 1;
                    self.processes[at] = Process::Ends {
                        run: note,
                        is_repeated: true,
                    };
                }
            }
            Step::ReleaseLost(at) => {
                if let Process::Ends { is_repeated, .. } = &mut self.processes[at] {
                    *is_repeated = true;
                }
                self.lost += 1;
            }
            Step::Crashes(at) => {
                self.crashes += 1;
                self.processes[at] = Process::Crashed;
            }
            Step::TimePasses => {
                self.passes += 1;
                self.time += LONG;
            }
        }
        self.check_record();
        self.broken.into()
    }

    fn fingerprint(&self) -> u128 {
        let mut print = Print::default();
        (&self.server, self.time, &self.processes, self.attempts).hash(&mut print);
        (&self.runs, self.crashes, self.lost, self.passes).hash(&mut print);
        print.value()
    }

    fn describe(&self) -> String {
        format!("{:?} {:?}", self.processes, self.runs)
    }

    /// When everybody is gone, the job runs again, unless its last run is recorded.
    fn rests(&self, _: &Run, _: usize, _: &mut Seen) -> Result<(), (&'static str, Vec<Step>)> {
        let mut world = self.clone();
        world.time += LONGEST;
        let counts = |it: &Known| it.recorded && world.time < it.start + PERIOD;
        let is_recorded = world.runs.iter().any(counts);
        match world.acquire(claim("next")) {
            Acquired::Granted { .. } if !is_recorded => Ok(()),
            Acquired::NotDue(_) if is_recorded => Ok(()),
            Acquired::Granted { .. } => Err(("a run that is recorded is forgotten", Vec::new())),
            _ => Err(("the job is stuck", Vec::new())),
        }
    }
}

fn run(variant: Variant, at_most_once: bool) -> Run {
    Run {
        variant,
        at_most_once,
    }
}

#[test]
fn a_job_runs_once_per_period() {
    use Witness::{
        ExecutedLate, NotDue, NotDueByItsPoll, Recorded, RecordedByTheCleanUp,
        RunsAgainAfterACrash, RunsInTheNextPeriod, RunsInTurn, TakenBack,
    };
    let again = &[
        Recorded,
        RecordedByTheCleanUp,
        NotDue,
        NotDueByItsPoll,
        RunsAgainAfterACrash,
        RunsInTheNextPeriod,
        RunsInTurn,
        ExecutedLate,
    ];
    let skip = &[
        Recorded,
        TakenBack,
        NotDue,
        NotDueByItsPoll,
        RunsInTheNextPeriod,
    ];
    let states = hold(vec![
        Row::<World>::new("at least once", again, run(Variant::AsShipped, false)),
        Row::<World>::new("at most once", skip, run(Variant::AsShipped, true)),
    ]);
    assert!(states.iter().all(|it| *it > 10_000), "{states:?}");
}

#[test]
fn each_known_bad_variant_of_a_job_is_found() {
    let bad = |variant: Variant, at_most_once, caught_by, steps| Bad::<World> {
        name: format!("{variant:?}"),
        run: run(variant, at_most_once),
        most_states: usize::MAX,
        caught_by,
        steps,
    };
    let no_run = "the record tells of a run that is none";
    catch(vec![
        bad(Variant::TheGrantRecords, false, no_run, 2),
        bad(Variant::AFailureIsRecorded, false, no_run, 5),
        bad(Variant::AStaleReleaseRecords, false, no_run, 6),
        bad(
            Variant::APollDoesNotLook,
            true,
            "two runs within a period",
            8,
        ),
        bad(
            Variant::TheCleanUpForgets,
            false,
            "a run that succeeded is not recorded",
            6,
        ),
        bad(
            Variant::RecordedBehindItsBegin,
            true,
            "two runs within a period",
            7,
        ),
    ]);
}
