//! Takes a claim's votes back, for a release and for a cancel.
//!
//! It does not try again: the watchdog does, while something is open. Invariant: a node stays open
//! until it says that nothing of the claim is left there.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, timeout_at};

use super::link::QuorumLink;
use super::member::Member;
use super::round::{Round, WaitsFor};
use crate::client::quorum::clocks::pool_time;
use crate::client::quorum::footprint::Footprint;
use crate::client::quorum::nodes::{NodeCount, NodeId, NodeSet};
use crate::client::quorum::tally::{Tally, Verdict};
use crate::link::command_error::CommandError;
use crate::link::{Link, Node};
use crate::rules::commands::{Cancelled, Claim, Keep};

/// When a quorum has answered a release, the others are waited for as long as a few round trips
/// take, so that nothing has to be cleaned up behind it.
const PATIENCE: u32 = 4;
const PATIENCE_AT_LEAST: Duration = Duration::from_millis(2);

/// What became of a claim at the nodes.
pub(super) struct TakenBack {
    /// Some node had something of it.
    pub(super) found: bool,
    /// Whether a quorum had it.
    pub(super) verdict: Verdict,
    /// Something may be left somewhere.
    pub(super) is_open: bool,
    /// How many entries of the same owner a quorum of nodes still has.
    pub(super) rest: u32,
    /// Why nodes gave no answer that counts.
    pub(super) failed: Vec<(NodeId, CommandError)>,
}

impl QuorumLink {
    /// Takes a claim's votes back wherever something of it may be left. `not_after`: the end of the
    /// ballot's time; 0: it was answered by a quorum, and other nodes may still execute it.
    pub(super) async fn take_back(
        &self,
        claim: &Claim,
        (keep, not_after): (Keep, u64),
        within: Duration,
        waits: WaitsFor,
    ) -> TakenBack {
        let shared = &self.shared;
        let now = shared.clock.now();
        let known = shared.open.end(&claim.value);
        let mut open = known.map_or_else(|| shared.nodes.all(), |it| it.nodes());
        let votes_until = match (known, not_after) {
            (Some(it), _) => it.votes_until().max(not_after),
            // A quorum has answered; its votes were asked for before now, the others as well.
            (None, 0) => pool_time(now.plus(shared.command_timeout)),
            (None, not_after) => not_after,
        };
        let mut round = self.ask_back(claim, (keep, votes_until), within, open);
        let (mut tally, mut found, mut verdict, mut until) =
            (Tally::new(shared.nodes), false, None, None);
        let (mut rests, mut failed) = (Vec::new(), Vec::new());
        for node in self.silent(&round) {
            // Without an answer, unless nothing of it was ever there.
            let absent = (!open.contains(node)).then_some(false);
            verdict = tally.count(node, absent).or(verdict);
        }
        loop {
            let answered = match until {
                None => Ok(round.next().await),
                Some(until) => timeout_at(until, round.next()).await,
            };
            let Ok(Some((node, answer))) = answered else {
                break;
            };
            if let Ok(answer) = &answer {
                found |= answer.found;
                rests.push(answer.rest);
                if answer.conclusive {
                    open.remove(node);
                }
            }
            let answer = answer.map(|it| it.found);
            let answer = answer.map_err(|error| failed.push((node, error)));
            verdict = tally.count(node, answer.ok()).or(verdict);
            if verdict.is_some() && waits == WaitsFor::Quorum && until.is_none() {
                until = Some(Instant::now() + self.patience(round.pending()));
            }
        }
        if open.is_empty() {
            shared.open.forget(&claim.value);
        } else if known.is_none_or(|it| it.nodes() != open) {
            let left = Footprint::at(open, votes_until);
            shared.open.put(&claim.value, left, now);
        }
        TakenBack {
            found,
            verdict: verdict.unwrap_or(Verdict::Unknown),
            is_open: !open.is_empty(),
            rest: of_a_quorum(rests, shared.nodes),
            failed,
        }
    }

    /// Sends the command to these nodes.
    fn ask_back<'a>(
        &self,
        claim: &'a Claim,
        (keep, not_after): (Keep, u64),
        within: Duration,
        among: NodeSet,
    ) -> Round<'a, Cancelled> {
        let clock = self.shared.clock;
        let now = clock.now();
        let mut round = Round::default();
        for (node, connection, member) in self.connected(among) {
            let keep = keep.by_another(pool_time(now), connection.server_time_at(now));
            let not_after = member.stamp(&**connection, not_after, now);
            let (connection, member) = (connection.clone() as Arc<dyn Link>, member.clone());
            let answer = async move {
                let answer = connection.cancel(claim, keep, not_after, within).await;
                member.took(now.until(clock.now()));
                answer
            };
            round.push(node, Box::pin(answer));
        }
        round
    }

    /// How long to wait for the last nodes: not at all for those that are known to be slow.
    fn patience(&self, pending: NodeSet) -> Duration {
        let usual = self.round_trip() * PATIENCE + PATIENCE_AT_LEAST;
        let is_slow = |it: (NodeId, &Arc<dyn Node>, &Arc<Member>)| it.2.round_trip() > usual;
        if self.connected(pending).any(is_slow) {
            Duration::ZERO
        } else {
            usual
        }
    }
}

/// The highest number that a quorum of nodes reaches.
fn of_a_quorum(mut numbers: Vec<u32>, nodes: NodeCount) -> u32 {
    numbers.sort_unstable_by(|one, other| other.cmp(one));
    numbers.get(nodes.quorum() - 1).copied().unwrap_or(0)
}
