//! What can happen in a state.

use super::client::{Client, Phase, Way};
use super::judge;
use super::kinds::Role;
use super::run::{Fault, Proposals, Run, TICK_MICROS};
use super::seen::{Seen, Witness};
use super::world::{World, name};
use crate::client::quorum::nodes::NodeId;
use crate::rules::tests::explore::{Model, Outcome};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    Tick,
    /// A client sends its ballots, with one of the proposals.
    Ask(u8, u8),
    /// A node executes this message of the client.
    Execute(u8, u8),
    /// The client reads the answers to these of its messages (or learns that none will come), and
    /// acts on the last one. Reading that leads to nothing changes nothing else, so it is done when
    /// it leads to something.
    Read(u8, u32),
    /// It waits for no further equal draw.
    Hurry(u8),
    GiveUp(u8),
    /// The body ends: the lock is handed on, or released.
    End(u8),
    /// The waiter that the lock was handed on to begins.
    Next(u8),
    /// The holder sends a round of renewals.
    Renew(u8),
    /// A writer asks to become a reader.
    Downgrade(u8),
    /// A cancel of one of its tokens arrives at a node, and its answer at the client.
    Cancel(u8, u8, NodeId),
    /// The client crashes.
    Die(u8),
    Down(NodeId),
    Up(NodeId, Data),
    Forward(NodeId),
    Back(NodeId),
    /// The node ends a lease a tick early.
    Early(NodeId),
    OtherKey(NodeId),
    /// An administrator begins to take the client's lock away …
    Evict(u8),
    /// … and has done it at this node.
    EvictAt(NodeId),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Data {
    Kept,
    Lost,
}

impl Model for World {
    type Run = Run;
    type Step = Step;
    type Witness = Witness;

    fn first(run: &Run) -> Self {
        World::new(run)
    }

    fn steps(&self, run: &Run, steps: &mut Vec<Step>) {
        for client in &self.clients {
            self.messages(client, steps);
            if client.is_alive {
                self.choices(run, client, steps);
            }
        }
        for node in self.ids() {
            self.happens_at(run, node, steps);
        }
        if self.tick < run.ticks {
            steps.push(Step::Tick);
        }
    }

    fn step(&mut self, run: &Run, step: Step, seen: &mut Seen) -> Outcome {
        let mut wrong = None;
        match step {
            Step::Tick => self.ticks(run, seen),
            Step::Down(node) => self.goes_down(node),
            Step::Up(node, data) => self.comes_up(run, node, data, seen),
            Step::Forward(node) => self.clock_steps(run, node, i64::from(run.jump), seen),
            Step::Back(node) => self.clock_steps(run, node, -i64::from(run.jump), seen),
            Step::Early(node) => self.ends_early(node, seen),
            Step::OtherKey(node) => self.draws_for_another_key(run, node),
            Step::Evict(client) => self.begins_to_evict(client.into()),
            Step::EvictAt(node) => self.evicts_at(run, node, seen),
            Step::Execute(client, message) => {
                let message = usize::from(message);
                wrong = self.executes(run, client.into(), message, seen);
            }
            Step::Ask(client, _)
            | Step::Read(client, _)
            | Step::Hurry(client)
            | Step::GiveUp(client)
            | Step::End(client)
            | Step::Next(client)
            | Step::Renew(client)
            | Step::Downgrade(client)
            | Step::Cancel(client, ..)
            | Step::Die(client) => match self.acts(run, client.into(), step, seen) {
                Outcome::Wrong(property) => wrong = Some(property),
                Outcome::Pointless => return Outcome::Pointless,
                Outcome::Right => {}
            },
        }
        let wrong = wrong.or_else(|| judge::judge(run, self, seen));
        wrong.into()
    }

    fn name_of(&self, step: Step) -> String {
        match step {
            Step::Execute(client, message) => {
                format!(
                    "executes {}",
                    self.name_of_message(client.into(), message.into())
                )
            }
            Step::Read(client, some) => {
                let read = (0..32).filter(|index| some & 1 << index != 0);
                let read = read.map(|index| self.name_of_message(client.into(), index));
                format!("reads {}", read.collect::<Vec<_>>().join(", "))
            }
            Step::Cancel(client, _, node) => format!("cancel of {client} at {}", name(node)),
            _ => format!("{step:?}"),
        }
    }

    fn fingerprint(&self) -> u128 {
        self.fingerprint()
    }

    fn describe(&self) -> String {
        self.describe()
    }
}

impl World {
    fn messages(&self, client: &Client, steps: &mut Vec<Step>) {
        for (index, message) in client.messages.iter().enumerate() {
            match message.phase {
                Way::Out if self.node(message.node).is_up => {
                    steps.push(Step::Execute(small(client.at), small(index)));
                }
                Way::Out | Way::Back(_) | Way::Cut => {}
            }
        }
        let answered = client.messages.iter().map(|it| it.phase != Way::Out);
        let all = answered
            .rev()
            .fold(0_u32, |all, it| all << 1 | u32::from(it));
        let mut some = all;
        while some != 0 {
            steps.push(Step::Read(small(client.at), some));
            some = (some - 1) & all; // the next smaller subset
        }
    }

    fn choices(&self, run: &Run, client: &Client, steps: &mut Vec<Step>) {
        let (at, now) = (small(client.at), self.now());
        match &client.current {
            None if client.drawn < run.attempts && self.voting().len() >= run.nodes().quorum() => {
                let proposals = match run.proposals {
                    Proposals::Any(numbers) => numbers.len(),
                    Proposals::Time(_) => 1,
                };
                steps.extend((0..proposals).map(|proposal| Step::Ask(at, small(proposal))));
            }
            None => {}
            Some(current) => match &current.phase {
                Phase::Voting { waits_briefly } => {
                    if *waits_briefly {
                        steps.push(Step::Hurry(at));
                    }
                    let is_too_late = now >= current.sent.plus(run.terms().validity());
                    if self.give_ups > 0 || is_too_late {
                        steps.push(Step::GiveUp(at));
                    }
                }
                Phase::Holding(hold) if hold.has_body => {
                    steps.push(Step::End(at));
                    if hold.rounds < run.renewals && now < hold.lease.deadline() {
                        steps.push(Step::Renew(at));
                    }
                    let is_writer = run.role(client.at) == Role::Writes && !hold.reads;
                    if run.downgrades && is_writer && now < hold.lease.deadline() {
                        steps.push(Step::Downgrade(at));
                    }
                }
                Phase::Holding(_) => steps.push(Step::Next(at)),
            },
        }
        for (index, it) in client.cancelled.iter().enumerate() {
            for node in it.open.iter().filter(|node| self.node(*node).is_up) {
                steps.push(Step::Cancel(at, small(index), node));
            }
        }
        if self.budget > 0 && run.has(Fault::Client) {
            steps.push(Step::Die(at));
        }
        let is_first = self.evicted.is_none() && client.hold().is_some();
        if self.budget > 0 && run.has(Fault::Evict) && is_first {
            steps.push(Step::Evict(at));
        }
    }

    fn happens_at(&self, run: &Run, node: NodeId, steps: &mut Vec<Step>) {
        let it = self.node(node);
        let may = |fault| self.budget > 0 && run.has(fault);
        if !it.is_up {
            if run.has(Fault::Crash) {
                steps.push(Step::Up(node, Data::Kept));
            }
            if run.has(Fault::Empty) {
                steps.push(Step::Up(node, Data::Lost));
            }
            return;
        }
        if may(Fault::Crash) || may(Fault::Empty) {
            steps.push(Step::Down(node));
        }
        if may(Fault::Forward) {
            steps.push(Step::Forward(node));
        }
        if may(Fault::Back) {
            steps.push(Step::Back(node));
        }
        if may(Fault::OtherKey) {
            steps.push(Step::OtherKey(node));
        }
        if self.evicted.is_some_and(|(_, done)| !done.contains(node)) {
            steps.push(Step::EvictAt(node));
        }
        let soon = self.time(node) + TICK_MICROS;
        if run.drifts && self.ends_by(node, soon) {
            steps.push(Step::Early(node));
        }
    }
}

pub(super) fn small(number: usize) -> u8 {
    u8::try_from(number).expect("a small world")
}
