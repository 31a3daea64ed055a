//! What a client does: the shell around the shipped machines. It carries their questions to the
//! nodes and the answers back; which answers count, and for what, they decide.

use std::rc::Rc;

use super::client::{Answer, Cancelling, Client, Current, Hold, Message, Phase, Way, What};
use super::judge;
use super::kinds::Highest;
use super::mutants::Mutant;
use super::nodes::Nobody;
use super::run::{Fault, Proposals, Run, TICK_MICROS};
use super::seen::{Seen, Witness};
use super::step::Step;
use super::world::{KEY, World};
use crate::client::lease::{Due, Lease};
use crate::client::local_queue::{Grant, LocalQueue, TakenTurn};
use crate::client::quorum::clocks;
use crate::client::quorum::election::{self, Election};
use crate::client::quorum::footprint::Footprint;
use crate::client::quorum::nodes::NodeId;
use crate::rules::ballots::{Adopted, Vote};
use crate::rules::commands::Keep;
use crate::rules::tests::explore::Outcome;
use crate::values::token::Token;

/// One step of one client.
pub(super) struct Turn<'a> {
    pub(super) run: &'a Run,
    pub(super) world: &'a mut World,
    pub(super) seen: &'a mut Seen,
    pub(super) wrong: Option<&'static str>,
    /// What was read led to something.
    pub(super) is_decided: bool,
}

impl World {
    pub(super) fn acts(&mut self, run: &Run, at: usize, step: Step, seen: &mut Seen) -> Outcome {
        let mut client = self.clients[at].clone();
        let it = Rc::make_mut(&mut client);
        let mut turn = Turn {
            run,
            world: self,
            seen,
            wrong: None,
            is_decided: false,
        };
        match step {
            Step::Ask(_, proposal) => it.asks(&mut turn, proposal.into()),
            Step::Read(_, some) => {
                if !it.reads_to_the_point(&mut turn, some) {
                    return Outcome::Pointless;
                }
            }
            Step::Hurry(_) => it.hurries(&mut turn),
            Step::GiveUp(_) => it.gives_up_waiting(&mut turn),
            Step::End(_) => it.body_ends(&mut turn),
            Step::Next(_) => it.next_begins(&mut turn),
            Step::Renew(_) => it.renews(&turn),
            Step::Downgrade(_) => it.downgrades(&turn),
            Step::Cancel(_, index, node) => it.cancels(&mut turn, index.into(), node),
            Step::Die(_) => it.dies(&mut turn),
            _ => unreachable!("not a step of a client"),
        }
        it.forget_answers();
        let wrong = turn.wrong;
        self.clients[at] = client;
        self.forget_what_can_do_nothing(run);
        wrong.map_or(Outcome::Right, Outcome::Wrong)
    }
}

/// The acquire.
impl Client {
    fn asks(&mut self, turn: &mut Turn<'_>, proposal: usize) {
        let (run, now) = (turn.run, turn.world.now());
        let asked = turn.world.voting();
        if turn
            .world
            .ids()
            .any(|it| turn.world.node(it).votes_from > turn.world.tick)
        {
            turn.seen.saw(Witness::QuarantinedOut);
        }
        let proposal = self.proposal(turn, proposal);
        let timeout = u64::from(run.timeout) * TICK_MICROS;
        let bound = clocks::pool_time(now) + timeout;
        let token = self.drawn;
        self.drawn += 1;
        let mut election = Election::new(run.nodes(), asked);
        let step = election.begin();
        self.current = Some(Current {
            token,
            sent: now,
            bound,
            above: turn.world.highest,
            election,
            processes: turn.world.ids().map(|it| turn.world.process(it)).collect(),
            phase: Phase::Voting {
                waits_briefly: false,
            },
        });
        for node in asked.iter() {
            let not_after = self.offsets[node.index()].stamp(bound);
            let what = What::Ballot {
                proposal,
                not_after,
            };
            self.send(turn, node, what);
        }
        self.follows(turn, step);
    }

    fn proposal(&self, turn: &Turn<'_>, index: usize) -> u64 {
        match turn.run.proposals {
            Proposals::Any(numbers) => numbers[index],
            Proposals::Time(errors) => {
                let error = errors.get(self.at).copied().unwrap_or(0) * TICK_MICROS.cast_signed();
                let estimate = |it: NodeId| turn.world.time(it).saturating_add_signed(error);
                let mut estimates: Vec<u64> = turn.world.voting().iter().map(estimate).collect();
                clocks::proposal(turn.run.nodes(), &mut estimates, self.seen_epoch)
            }
        }
    }

    pub(super) fn send(&mut self, turn: &Turn<'_>, node: NodeId, what: What) {
        let Some(current) = &self.current else {
            return;
        };
        let is_up = turn.world.node(node).is_up;
        self.messages.push(Message {
            token: current.token,
            node,
            process: turn.world.process(node),
            what,
            phase: if is_up { Way::Out } else { Way::Cut },
        });
    }

    /// Reads these answers; `false` unless exactly the last one leads to something.
    fn reads_to_the_point(&mut self, turn: &mut Turn<'_>, mut some: u32) -> bool {
        let mut gone = 0;
        while some != 0 {
            if turn.is_decided {
                return false;
            }
            let index = some.trailing_zeros() as usize;
            some &= some - 1;
            let message = self.messages.remove(index - gone);
            gone += 1;
            self.reads(turn, message);
        }
        turn.is_decided
    }

    fn reads(&mut self, turn: &mut Turn<'_>, message: Message) {
        let whom = (message.node, message.process);
        match (message.what, message.phase) {
            (What::Ballot { .. }, Way::Back(Answer::Vote(vote))) => {
                self.reads_vote(turn, message.node, &vote);
            }
            (What::Adopt { epoch, counts_for }, Way::Back(Answer::Adopted(answer))) => {
                let node = counts_for.unwrap_or(message.node);
                if counts_for.is_none() || answer == Adopted::Yes {
                    self.elects(turn, |it| it.adopted(node, epoch, answer));
                }
            }
            (What::Renew { asked, .. }, Way::Back(Answer::Ours(yes))) => {
                self.counts(turn, whom, asked, Some(yes));
            }
            (What::Renew { asked, .. }, Way::Cut) => self.counts(turn, whom, asked, None),
            (What::Reseed { round, .. }, Way::Back(Answer::Vote(vote))) => {
                self.reads_reseed(turn, whom, round, Some(&vote));
            }
            (What::Reseed { round, .. }, Way::Cut) => {
                self.reads_reseed(turn, whom, round, None);
            }
            (What::Downgrade { .. }, Way::Back(Answer::Ours(yes))) => {
                self.counts_downgrade(turn, message.node, Some(yes));
            }
            (What::Downgrade { .. }, Way::Cut) => self.counts_downgrade(turn, message.node, None),
            (What::Adopt { counts_for, .. }, Way::Cut) if counts_for.is_some() => {}
            (What::Ballot { .. } | What::Adopt { .. }, Way::Cut) => {
                self.elects(turn, |it| it.failed(message.node, true));
            }
            (what, way) => unreachable!("{what:?} was answered {way:?}"),
        }
    }

    fn reads_vote(&mut self, turn: &mut Turn<'_>, node: NodeId, vote: &Vote) {
        self.offsets[node.index()].heard(vote.time(), turn.world.now());
        if let (Vote::Busy(busy), Proposals::Time(_)) = (vote, turn.run.proposals) {
            self.seen_epoch = self.seen_epoch.max(busy.last_epoch);
        }
        let Some(current) = &mut self.current else {
            return;
        };
        let mut step = current.election.voted(node, vote);
        if let (Vote::Granted { epoch, .. }, true) =
            (vote, turn.run.is(Mutant::QuorumOfTheAnswered))
        {
            let token = current.token;
            let unanswered = self.messages.iter().filter(|it| it.token == token).count();
            let answered = turn.run.nodes - unanswered;
            if current.election.granted().len() * 2 > answered {
                step = election::ElectionStep::Won { epoch: *epoch };
            }
        }
        self.follows(turn, step);
    }

    fn hurries(&mut self, turn: &mut Turn<'_>) {
        turn.seen.saw(Witness::AdoptNeeded);
        self.elects(turn, Election::hurry);
    }

    /// Tells the election something, and does what it says.
    fn elects(
        &mut self,
        turn: &mut Turn<'_>,
        tell: impl FnOnce(&mut Election) -> election::ElectionStep,
    ) {
        if let Some(current) = &mut self.current {
            let step = tell(&mut current.election);
            self.follows(turn, step);
        }
    }

    fn follows(&mut self, turn: &mut Turn<'_>, step: election::ElectionStep) {
        let Some(current) = &mut self.current else {
            return;
        };
        let takes_the_highest = turn.run.mutant.is_some_and(Mutant::takes_the_highest);
        turn.is_decided |= match (step, &current.phase) {
            (election::ElectionStep::Wait, _) => false,
            (election::ElectionStep::WaitBriefly, Phase::Voting { waits_briefly }) => {
                !waits_briefly
            }
            _ => true,
        };
        current.phase = Phase::Voting {
            waits_briefly: step == election::ElectionStep::WaitBriefly,
        };
        match step {
            election::ElectionStep::WaitBriefly if takes_the_highest => {
                self.elects(turn, Election::hurry);
            }
            election::ElectionStep::Wait | election::ElectionStep::WaitBriefly => {}
            election::ElectionStep::Adopt { epoch, at } if takes_the_highest => {
                for node in at.iter() {
                    self.elects(turn, |it| it.adopted(node, epoch, Adopted::Yes));
                }
            }
            election::ElectionStep::Adopt { epoch, at } => {
                turn.seen.saw(Witness::AdoptNeeded);
                let granted = current.election.granted();
                for node in at.iter() {
                    let what = What::Adopt {
                        epoch,
                        counts_for: None,
                    };
                    self.send(turn, node, what);
                }
                let counts_for = at.iter().next();
                if turn.run.is(Mutant::WriteBackAnywhere) {
                    for node in turn.world.ids().filter(|it| !granted.contains(*it)) {
                        self.send(turn, node, What::Adopt { epoch, counts_for });
                    }
                }
            }
            election::ElectionStep::Won { epoch } => self.wins(turn, epoch),
            election::ElectionStep::Lost => self.stops(turn),
        }
    }

    fn wins(&mut self, turn: &mut Turn<'_>, epoch: u64) {
        let now = turn.world.now();
        let Some(current) = &mut self.current else {
            return;
        };
        turn.seen.saw(match current.election.progress() {
            (0, _) => Witness::EqualDraws,
            _ => Witness::WonAfterAdopt,
        });
        let since = if turn.run.is(Mutant::DeadlineFromReply) {
            now
        } else {
            current.sent
        };
        let terms = turn.run.terms();
        let lease = Lease::granted(since, terms.ttl.get(), &terms);
        let is_over = matches!(lease.due(now), Due::End(_));
        if is_over && !turn.run.is(Mutant::BeginsLate) {
            turn.seen.saw(Witness::TooLateToBegin);
            return self.stops(turn);
        }
        let mut queue = None;
        if turn.run.handoffs > 0 {
            let waiters = queue.insert(LocalQueue::default());
            (0..=turn.run.handoffs).for_each(|it| {
                waiters.enter(it);
            });
            let token = Token::of_test(current.token.into());
            waiters.acquiring(token);
            let grant = Grant::at_once(since, terms.ttl.get(), epoch, 0);
            let grant = grant.with_handoff_limit(&turn.run.handoff(), terms.margin, now);
            waiters.granted(token, grant);
            if !matches!(waiters.take_turn(1, now), TakenTurn::Yours(..)) {
                return self.stops(turn);
            }
        }
        let above = current.above;
        current.above = Highest::default();
        let fence = (epoch, 0);
        let processes = current.election.granted();
        let processes = processes
            .iter()
            .map(|it| (it, current.processes[it.index()]));
        let footprint = Footprint::of(&current.election, current.bound).won(epoch, processes);
        current.phase = Phase::Holding(Hold {
            lease,
            fence,
            has_body: true,
            rounds: 0,
            round: None,
            footprint: turn.run.reseeds.then_some(footprint),
            reads: false,
            is_downgraded: false,
            downgrade: None,
            queue,
        });
        self.seen_epoch = 0;
        self.begins(turn, &above);
    }

    fn gives_up_waiting(&mut self, turn: &mut Turn<'_>) {
        let over = |it: &Current| it.sent.plus(turn.run.terms().validity());
        let over = self.current.as_ref().map(over);
        if over.is_some_and(|at| turn.world.now() < at) {
            turn.world.give_ups -= 1;
        }
        self.stops(turn);
    }

    /// Whatever may be left of the token is cancelled.
    pub(super) fn stops(&mut self, turn: &mut Turn<'_>) {
        let Some(current) = self.current.take() else {
            return;
        };
        let open = if turn.run.is(Mutant::ReleaseWhereGranted) {
            current.election.granted()
        } else {
            current.open()
        };
        let footprint = match &current.phase {
            Phase::Holding(hold) => hold.footprint,
            Phase::Voting { .. } => None,
        };
        if !open.is_empty() {
            self.cancelled.push(Cancelling {
                token: current.token,
                bound: footprint.map_or(current.bound, |it| it.votes_until()),
                open,
            });
        }
    }

    fn cancels(&mut self, turn: &mut Turn<'_>, index: usize, node: NodeId) {
        let it = &mut self.cancelled[index];
        let (token, time) = (it.token, turn.world.time(node));
        let claim = turn.world.claim((self.at, token)).clone();
        let stamp = self.offsets[node.index()].stamp(it.bound);
        let whose = (self.at, token);
        let others = judge::others(turn.world, node, whose);
        let server = &mut turn.world.node_mut(node).server;
        let answer = server.cancel(&claim, Keep::NOT, stamp, time, &mut Nobody);
        if answer.found && turn.run.is(Mutant::ReleasesTheSet) {
            server.remove(KEY);
        }
        turn.wrong = judge::judge_command(turn.run, turn.world, node, (whose, &others));
        self.offsets[node.index()].heard(answer.time, turn.world.now());
        if !answer.conclusive && !turn.run.is(Mutant::CancelOnce) {
            return;
        }
        turn.seen.saw(if answer.found {
            Witness::CancelFound
        } else {
            Witness::CancelByStamp
        });
        it.open.remove(node);
        if it.open.is_empty() {
            self.cancelled.remove(index);
        }
        // A re-seed is a second vote to execute: what is conclusive is judged, not believed.
        if answer.conclusive && !turn.run.has(Fault::Back) && !turn.run.reseeds {
            self.messages
                .retain(|it| (it.token, it.node) != (token, node));
        }
    }

    fn dies(&mut self, turn: &mut Turn<'_>) {
        turn.world.budget -= 1;
        turn.seen.saw(Witness::ClientCrashed);
        self.is_alive = false;
        self.current = None;
        self.cancelled.clear();
        self.seen_epoch = 0;
    }
}
