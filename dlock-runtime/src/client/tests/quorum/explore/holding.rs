//! What the holder of a lock does: it renews, becomes a reader, hands the lock on, as in
//! `driver/watchdog` and `driver/guard`, over a quorum.

use super::acts::Turn;
use super::client::{Client, Phase, Round, What};
use super::judge;
use super::kinds::Highest;
use super::mutants::Mutant;
use super::run::{TICK, TICK_MICROS};
use super::seen::Witness;
use crate::client::lease::{Due, Lease};
use crate::client::local_queue::{TakenTurn, WaiterId};
use crate::client::quorum::clocks;
use crate::client::quorum::footprint::{Reseed, ServerProcess};
use crate::client::quorum::nodes::NodeId;
use crate::client::quorum::tally::{Tally, Verdict};
use crate::rules::ballots::Vote;
use crate::values::token::Token;

impl Client {
    pub(super) fn renews(&mut self, turn: &Turn<'_>) {
        let Some(hold) = self.hold_mut() else {
            return;
        };
        hold.lease.renewing();
        hold.rounds += 1;
        hold.round = Some(Round {
            sent: turn.world.now(),
            tally: Tally::new(turn.run.nodes()),
            is_doomed: turn.world.is_evicted_everywhere(),
            counted: Vec::new(),
        });
        let round = hold.rounds;
        for node in turn.world.ids() {
            let asked = if turn.run.reseeds {
                turn.world.time(node)
            } else {
                0
            };
            self.send(turn, node, What::Renew { round, asked });
        }
    }

    /// What a node answered to the last round of renewal, whether or not it is decided.
    pub(super) fn counts(
        &mut self,
        turn: &mut Turn<'_>,
        (node, process): (NodeId, ServerProcess),
        asked: u64,
        answer: Option<bool>,
    ) {
        match answer {
            Some(true) => {
                if let Some(hold) = self.hold_mut()
                    && let Some(footprint) = &mut hold.footprint
                {
                    let before = *footprint;
                    footprint.is_at(node, process);
                    turn.is_decided |= hold.round.is_none() && *footprint != before;
                }
            }
            Some(false) if self.reseeds(turn, node, asked) => {
                turn.is_decided = true;
                return;
            }
            Some(false) | None => {}
        }
        self.tallies(turn, node, answer);
    }

    /// Asks a node for its vote that does not have the lock.
    fn reseeds(&mut self, turn: &Turn<'_>, node: NodeId, asked: u64) -> bool {
        let (run, now) = (turn.run, turn.world.now());
        let time = if run.is(Mutant::ReseedsOnOldAnswers) {
            turn.world.time(node)
        } else {
            asked
        };
        let may_vote = turn.world.voting().contains(node);
        let bound = clocks::pool_time(now) + u64::from(run.timeout) * TICK_MICROS;
        let offset = self.offsets[node.index()];
        let Some(hold) = self.hold_mut() else {
            return false;
        };
        let round = hold.rounds;
        let is_over = now >= hold.lease.deadline();
        let Some(footprint) = hold.footprint.as_mut().filter(|_| may_vote && !is_over) else {
            return false;
        };
        let unasked = run.is(Mutant::ReseedsUnanswered);
        let process = if run.is(Mutant::ReseedsWhatWasThere) {
            ServerProcess::of("another")
        } else {
            turn.world.process(node)
        };
        let (until, not_after) = if run.is(Mutant::ReseedsUnstamped) {
            (0, u64::MAX)
        } else {
            (bound, offset.stamp(bound))
        };
        let is_past = |it| unasked || time > offset.stamp(it);
        let Some(Reseed { epoch, reads }) = footprint.reseed((node, process), until, is_past)
        else {
            return false;
        };
        let what = What::Reseed {
            round,
            epoch,
            reads,
            not_after,
        };
        self.send(turn, node, what);
        true
    }

    pub(super) fn reads_reseed(
        &mut self,
        turn: &mut Turn<'_>,
        (node, process): (NodeId, ServerProcess),
        round: u8,
        vote: Option<&Vote>,
    ) {
        let now = turn.world.now();
        if let Some(vote) = vote {
            self.offsets[node.index()].heard(vote.time(), now);
        }
        let granted = vote.map(|it| matches!(it, Vote::Granted { .. }));
        let Some(hold) = self.hold_mut() else {
            return;
        };
        let is_of_round = hold.round.is_some() && hold.rounds == round;
        if let (Some(granted), Some(footprint)) = (granted, &mut hold.footprint) {
            footprint.reseeded(node, process, granted);
            turn.seen.saw(if granted {
                Witness::Reseeded
            } else {
                Witness::ReseedRefused
            });
        }
        if is_of_round {
            self.tallies(turn, node, granted);
            let is_renewed = self.hold().is_some_and(|it| it.round.is_none());
            if is_renewed && granted == Some(true) {
                turn.seen.saw(Witness::RenewedByReseed);
            }
        }
        turn.is_decided = true;
    }

    fn tallies(&mut self, turn: &mut Turn<'_>, node: NodeId, answer: Option<bool>) {
        let now = turn.world.now();
        let Some(hold) = self.hold_mut() else {
            return;
        };
        let Some(round) = &mut hold.round else {
            return;
        };
        round.counted.push((node, answer));
        let mut verdict = round.tally.count(node, answer);
        if turn.run.is(Mutant::RenewalAtOneNode) && answer == Some(true) {
            verdict = Some(Verdict::Yes);
        }
        let sent = round.sent;
        if verdict == Some(Verdict::Yes) && round.is_doomed && turn.run.judges("S10") {
            turn.wrong = Some("S10");
        }
        turn.is_decided = verdict.is_some();
        match verdict {
            None => return,
            Some(Verdict::Yes) if matches!(hold.lease.due(now), Due::End(_)) => {}
            Some(Verdict::Yes) if turn.run.is(Mutant::RenewalFromReply) => hold.lease.renewed(now),
            Some(Verdict::Yes) => {
                turn.seen.saw(Witness::Renewed);
                hold.lease.renewed(sent);
            }
            Some(Verdict::No) => {
                turn.seen.saw(Witness::RenewalLost);
                return self.stops(turn);
            }
            Some(Verdict::Unknown) => {
                turn.seen.saw(Witness::RenewalUnknown);
                hold.lease.renewal_failed(now);
            }
        }
        hold.round = None;
    }

    pub(super) fn body_ends(&mut self, turn: &mut Turn<'_>) {
        turn.seen.saw(Witness::Ended);
        let now = turn.world.now();
        let Some(current) = &mut self.current else {
            return;
        };
        let token = Token::of_test(current.token.into());
        let Phase::Holding(hold) = &mut current.phase else {
            return;
        };
        if let Some(queue) = &mut hold.queue
            && queue.can_hand_on(token, now, |_, _| true)
        {
            // As `Tokens::hand_on` says.
            let may_be = hold.lease.is_as_granted(now) || turn.run.is(Mutant::HandsOnRenewed);
            if may_be && queue.hand_on(token, now, |_, _| true) {
                turn.seen.saw(Witness::HandedOn);
                hold.has_body = false;
                hold.round = None;
                return;
            }
            turn.seen.saw(Witness::HandOnRefused);
        }
        self.stops(turn);
    }

    pub(super) fn next_begins(&mut self, turn: &mut Turn<'_>) {
        let now = turn.world.now();
        let Some(hold) = self.hold_mut() else {
            return;
        };
        let waiter = WaiterId::from(hold.fence.1) + 2;
        let Some(TakenTurn::Yours(_, grant)) =
            hold.queue.as_mut().map(|it| it.take_turn(waiter, now))
        else {
            turn.seen.saw(Witness::HandedOnStale);
            return self.stops(turn);
        };
        let since = if turn.run.is(Mutant::HandedOnAfresh) {
            now
        } else {
            grant.since
        };
        let terms = turn.run.terms();
        hold.lease = Lease::handed_on(since, grant.lease, now, &terms);
        let before = hold.fence;
        hold.fence = (grant.epoch, grant.chain.index);
        if turn.run.is(Mutant::FenceOfTheGrant) {
            hold.fence = before;
        }
        hold.has_body = true;
        let role = turn.run.role(self.at);
        self.begins(turn, &Highest::of(role, before));
    }

    /// A body begins: its fence is judged.
    pub(super) fn begins(&self, turn: &mut Turn<'_>, above: &Highest) {
        let Some(fence) = self.hold().map(|it| it.fence) else {
            return;
        };
        let (run, highest) = (turn.run, &turn.world.highest);
        turn.wrong = judge::judge_fence(run, self.at, fence, (above, highest));
        let has_one = judge::has_one_fence(run, turn.world, self, turn.seen);
        if turn.wrong.is_none() && !has_one && run.judges("S8one") {
            turn.wrong = Some("S8one");
        }
        turn.world.highest.began(run.role(self.at), fence);
    }

    /// Asks all nodes; the holder counts as a reader from now on, whatever they answer.
    pub(super) fn downgrades(&mut self, turn: &Turn<'_>) {
        let now = turn.world.now();
        let Some(hold) = self.hold_mut() else {
            return;
        };
        let left = now.until(hold.lease.deadline());
        let ticks = left.as_nanos().div_ceil(TICK.as_nanos());
        let ticks = u32::try_from(ticks).expect("a short run");
        hold.reads = true;
        if let Some(footprint) = &mut hold.footprint {
            footprint.reads();
        }
        hold.downgrade = Some(Round {
            sent: now,
            tally: Tally::new(turn.run.nodes()),
            is_doomed: false,
            counted: Vec::new(),
        });
        for node in turn.world.ids() {
            self.send(turn, node, What::Downgrade { ticks });
        }
    }

    /// A confirmed downgrade asked for no more than the rest of the lease, so it moves no deadline.
    pub(super) fn counts_downgrade(
        &mut self,
        turn: &mut Turn<'_>,
        node: NodeId,
        answer: Option<bool>,
    ) {
        let Some(hold) = self.hold_mut() else {
            return;
        };
        let Some(round) = &mut hold.downgrade else {
            return;
        };
        round.counted.push((node, answer));
        let mut verdict = round.tally.count(node, answer);
        if turn.run.is(Mutant::DowngradeAtOneNode) && answer == Some(true) {
            verdict = Some(Verdict::Yes);
        }
        turn.is_decided = verdict.is_some();
        match verdict {
            None => return,
            Some(Verdict::Yes) => {
                turn.seen.saw(Witness::Downgraded);
                hold.is_downgraded = true;
            }
            Some(Verdict::No) => return self.stops(turn),
            Some(Verdict::Unknown) => turn.seen.saw(Witness::DowngradeUnclear),
        }
        hold.downgrade = None;
    }
}
