//! Whether the record of a job that runs once per period can have votes, as its lock has: explored with
//! three nodes that look at their records as any server does, and with the election as it ships. `redlock://`
//! refuses `once_per` because of what is found here (docs/inside/design/why-a-record-beside-the-lock).
//!
//! Every order of calls, releases that reach some nodes, nodes that are away and nodes that restart
//! empty, never more than a minority at a time. That locks exclude each other is explored elsewhere
//! (`explore`), so a call asks all nodes in one step here.

use std::hash::Hash;

use crate::client::quorum::election::{Election, ElectionStep};
use crate::client::quorum::nodes::{NodeCount, NodeId, NodeSet};
use crate::rules::ballots::Vote;
use crate::rules::commands::{Acquire, Acquired, Claim, Keep, PushedGrant, RunNote, RunOutcome};
use crate::rules::tests::explore::{self, Bad, Model, Outcome, Row, catch, hold};
use crate::rules::tests::print::Print;
use crate::rules::tests::ttl;
use crate::rules::{Publish, Reached, Server};

const KEY: &str = "job";
const SECOND: u64 = 1_000_000;
/// The longest lease of the fleet, too: a node that restarted votes after it.
const LEASE: u64 = 4 * SECOND;
const PERIOD: u64 = 14 * SECOND;
/// Longer than any lease.
const LONG: u64 = 5 * SECOND;
const NODES: usize = 3;
const PASSES: u8 = 3;

const RAN_AGAIN: &str = "it ran again within the period of a run that was recorded";

struct Run {
    calls: u8,
    /// How often nodes go away.
    aways: u8,
    /// How often nodes restart with nothing.
    restarts: u8,
    /// How many nodes must have recorded a run for it to count.
    counts_at: usize,
}

#[derive(Clone, Debug, Hash)]
struct Node {
    server: Server,
    is_away: bool,
    votes_from: u64,
}

/// A body that succeeded; its release goes to each node by itself.
#[derive(Clone, Debug, Hash)]
struct Ended {
    call: u8,
    epoch: u64,
    /// When each node granted it, by its own clock.
    granted: [Option<u64>; NODES],
    recorded: NodeSet,
    /// Where the release was executed, or is not waited for any more.
    released: NodeSet,
}

#[derive(Clone, Debug)]
struct World {
    nodes: Vec<Node>,
    time: u64,
    calls: u8,
    runs: Vec<Ended>,
    restarts: u8,
    passes: u8,
    aways: u8,
}

#[derive(Clone, Copy, Debug)]
enum Step {
    /// Somebody calls, and its body succeeds if it is granted the lock.
    Call,
    /// The release of the last run is executed by this node.
    Release(NodeId),
    Away(NodeId),
    Back(NodeId),
    RestartsEmpty(NodeId),
    TimePasses,
}

#[derive(Clone, Copy, Debug)]
enum Witness {
    RecordedByAQuorum,
    RecordedByAll,
    NotDue,
    OutvotedByOneRecord,
    RunsAgainInTheNextPeriod,
    RunsAgainAsOnlyOneRecorded,
}

impl explore::Witness for Witness {
    fn place(self) -> u8 {
        self as u8
    }
}

type Seen = explore::Seen<Witness>;

struct Nobody;

impl Publish for Nobody {
    fn publish(&mut self, _: &str, _: &PushedGrant) -> Reached {
        Reached::Nobody
    }
}

fn claim(call: u8) -> Claim {
    let (lease, period) = (LEASE / 1000, PERIOD / 1000);
    Claim {
        key: KEY.into(),
        value: format!("1|x|{call}||{lease}|0|{period}||host|1|f|0").into(),
        queues: false,
        is_once: true,
    }
}

fn count() -> NodeCount {
    NodeCount::new(NODES).expect("three can decide")
}

impl World {
    fn node(&mut self, node: NodeId) -> &mut Node {
        &mut self.nodes[node.index()]
    }

    fn voting(&self) -> NodeSet {
        let votes = |node: &NodeId| {
            let it = &self.nodes[node.index()];
            !it.is_away && it.votes_from <= self.time
        };
        count().ids().filter(votes).collect()
    }

    fn is_faulty(&self, node: NodeId) -> bool {
        !self.voting().contains(node)
    }

    /// One more node may fail, as of any lock of these nodes.
    fn may_fail(&self, node: NodeId) -> bool {
        let faulty = count().ids().filter(|it| self.is_faulty(*it)).count();
        self.is_faulty(node) || faulty < count().minority()
    }

    fn call(&mut self, run: &Run, seen: &mut Seen) -> Outcome {
        let (claim, time, asked) = (claim(self.calls), self.time, self.voting());
        self.calls += 1;
        let mut election = Election::new(count(), asked);
        let mut step = election.begin();
        let (mut granted, mut not_due) = ([None; NODES], 0);
        let command = Acquire {
            claim: claim.clone(),
            lease: ttl(LEASE / 1000),
            not_after: time,
            repair_missing_ttl: None,
        };
        for node in asked.iter() {
            let server = &mut self.node(node).server;
            let vote = match server.acquire(&command, time, &mut Nobody) {
                Acquired::Granted { time, epoch } => {
                    granted[node.index()] = Some(time);
                    Vote::Granted { time, epoch }
                }
                Acquired::NotDue(_) => {
                    not_due += 1;
                    Vote::Late { time } // no vote, and nothing is left
                }
                _ => Vote::Late { time },
            };
            step = election.voted(node, &vote);
        }
        if matches!(step, ElectionStep::WaitBriefly) {
            step = election.hurry();
        }
        while let ElectionStep::Adopt { epoch, at } = step {
            for node in at.iter() {
                let adopted = self.node(node).server.adopt(&claim, epoch, time);
                step = election.adopted(node, epoch, adopted);
            }
        }
        let ElectionStep::Won { epoch } = step else {
            for node in asked.iter() {
                let server = &mut self.node(node).server;
                server.cancel(&claim, Keep::NOT, 0, time, &mut Nobody);
            }
            if not_due > count().minority() {
                seen.saw(Witness::NotDue);
            } else if not_due > 0 {
                seen.saw(Witness::OutvotedByOneRecord);
            }
            return Outcome::Right;
        };
        let wrong = self.judge(run, seen);
        self.runs.push(Ended {
            call: self.calls - 1,
            epoch,
            granted,
            recorded: NodeSet::NONE,
            released: NodeSet::NONE,
        });
        wrong.into()
    }

    /// Of a run that begins now.
    fn judge(&self, run: &Run, seen: &mut Seen) -> Option<&'static str> {
        let mut wrong = None;
        for before in &self.runs {
            let is_over = |start: &u64| start + PERIOD <= self.time;
            let over = before.granted.iter().flatten().any(is_over);
            if over {
                seen.saw(Witness::RunsAgainInTheNextPeriod);
            } else if before.recorded.len() >= run.counts_at {
                wrong = Some(RAN_AGAIN);
            } else if before.recorded.len() == 1 {
                seen.saw(Witness::RunsAgainAsOnlyOneRecorded);
            }
        }
        wrong
    }

    fn release(&mut self, node: NodeId, seen: &mut Seen) {
        let (time, last) = (self.time, self.runs.len() - 1);
        let run = self.runs[last].clone();
        let start = run.granted[node.index()].unwrap_or(time);
        let succeeded = RunNote {
            start,
            epoch: run.epoch,
            outcome: RunOutcome::Succeeded,
        };
        let (claim, keep) = (claim(run.call), Keep::NOT.with(succeeded));
        let server = &mut self.node(node).server;
        let ended = server.cancel(&claim, keep, 0, time, &mut Nobody);
        let run = &mut self.runs[last];
        run.released.insert(node);
        if ended.is_recorded {
            run.recorded.insert(node);
        }
        if run.recorded.len() == NODES {
            seen.saw(Witness::RecordedByAll);
        } else if run.recorded.len() >= count().quorum() {
            seen.saw(Witness::RecordedByAQuorum);
        }
    }
}

impl Model for World {
    type Run = Run;
    type Step = Step;
    type Witness = Witness;

    fn first(_: &Run) -> Self {
        let node = Node {
            server: Server::default(),
            is_away: false,
            votes_from: 0,
        };
        Self {
            nodes: vec![node; NODES],
            time: 1_000_000 * SECOND,
            calls: 0,
            runs: Vec::new(),
            restarts: 0,
            passes: 0,
            aways: 0,
        }
    }

    fn steps(&self, run: &Run, steps: &mut Vec<Step>) {
        if self.calls < run.calls {
            steps.push(Step::Call);
        }
        for node in count().ids() {
            let at = &self.nodes[node.index()];
            let released = self.runs.last().map(|it| it.released.contains(node));
            if released == Some(false) && !at.is_away {
                steps.push(Step::Release(node));
            }
            if at.is_away {
                steps.push(Step::Back(node));
            } else if self.may_fail(node) && self.aways < run.aways {
                steps.push(Step::Away(node));
            }
            if self.restarts < run.restarts && self.may_fail(node) {
                steps.push(Step::RestartsEmpty(node));
            }
        }
        if self.passes < PASSES {
            steps.push(Step::TimePasses);
        }
    }

    fn step(&mut self, run: &Run, step: Step, seen: &mut Seen) -> Outcome {
        match step {
            Step::Call => return self.call(run, seen),
            Step::Release(node) => self.release(node, seen),
            Step::Away(node) => {
                self.aways += 1;
                self.node(node).is_away = true;
            }
            Step::Back(node) => self.node(node).is_away = false,
            Step::RestartsEmpty(node) => {
                self.restarts += 1;
                let votes_from = self.time + LEASE;
                *self.node(node) = Node {
                    server: Server::default(),
                    is_away: false,
                    votes_from,
                };
            }
            Step::TimePasses => {
                self.passes += 1;
                self.time += LONG;
            }
        }
        Outcome::Right
    }

    fn fingerprint(&self) -> u128 {
        let mut print = Print::default();
        (
            self.time,
            self.calls,
            self.restarts,
            self.passes,
            self.aways,
        )
            .hash(&mut print);
        for (at, node) in count().ids().zip(&self.nodes) {
            let mut each = Print::default(); // the order of the nodes does not count
            node.hash(&mut each);
            for run in &self.runs {
                (run.call, run.epoch, run.granted[at.index()]).hash(&mut each);
                (run.recorded.contains(at), run.released.contains(at)).hash(&mut each);
            }
            print.add(&each);
        }
        print.value()
    }

    fn describe(&self) -> String {
        let away = count().ids().filter(|it| self.is_faulty(*it));
        format!("without {:?}: {:?}", away.collect::<NodeSet>(), self.runs)
    }
}

#[test]
fn records_have_votes_while_no_node_forgets() {
    use Witness::{
        NotDue, OutvotedByOneRecord, RecordedByAQuorum, RecordedByAll, RunsAgainAsOnlyOneRecorded,
        RunsAgainInTheNextPeriod,
    };
    let sees = &[
        RecordedByAQuorum,
        RecordedByAll,
        NotDue,
        OutvotedByOneRecord,
        RunsAgainInTheNextPeriod,
        RunsAgainAsOnlyOneRecorded,
    ];
    let run = |calls, aways, restarts, counts_at| Run {
        calls,
        aways,
        restarts,
        counts_at,
    };
    let states = hold(vec![
        Row::<World>::new("nodes are away", sees, run(3, 1, 0, 2)),
        Row::<World>::new(
            "one restarts empty, all have recorded",
            sees,
            run(2, 1, 1, 3),
        ),
    ]);
    assert!(states.iter().all(|it| *it > 1_000), "{states:?}");
}

/// A lock survives any number of such restarts, one after the other: a node that restarted does not vote
/// for as long as a lease may last. No node can abstain for a period.
#[test]
fn a_minority_at_a_time_that_restarts_empty_makes_it_run_again() {
    let bad = |name: &str, restarts, counts_at, steps| Bad::<World> {
        name: name.to_owned(),
        run: Run {
            calls: 2,
            aways: 0,
            restarts,
            counts_at,
        },
        most_states: usize::MAX,
        caught_by: RAN_AGAIN,
        steps,
    };
    catch(vec![
        bad("a quorum has recorded, one restarts", 1, 2, 6),
        bad("all have recorded, two restart in turn", 2, 3, 9),
    ]);
}
