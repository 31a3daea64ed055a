//! A writer that goes on as a reader, as in `engine/guard/downgrade.rs`, over a quorum.

use super::acts::Turn;
use super::client::{Client, Round, What};
use super::mutants::Mutant;
use super::run::TICK;
use super::seen::Witness;
use crate::policy::quorum::nodes::NodeId;
use crate::policy::quorum::tally::{Tally, Verdict};

impl Client {
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
        hold.downgrade = Some(Round {
            sent: now,
            tally: Tally::new(turn.run.nodes()),
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
