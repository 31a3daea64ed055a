//! One acquire at all nodes: sends the ballots, reads the votes, and puts an epoch to adoption if
//! the nodes drew different ones. `client::quorum::election` decides.
//!
//! Invariant: where a node may have something of the claim when this ends, `OpenClaims` or the answer
//! says so.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, timeout_at};

use super::QuorumShared;
use super::link::{QuorumLink, VOTES_OF};
use super::member::Member;
use super::round::Round;
use crate::client::quorum::clocks::{highest_believed, pool_time, proposal};
use crate::client::quorum::election::{Election, ElectionStep};
use crate::client::quorum::footprint::{Footprint, ServerProcess};
use crate::client::quorum::nodes::{NodeId, NodeSet};
use crate::link::command_error::CommandError;
use crate::link::{Link, Node};
use crate::rules::ballots::{Ballot, Outvoted, Vote};
use crate::rules::commands::{Acquire, Acquired, Busy, Left, NoQuorum};
use crate::values::entry::{self, Letter};
use crate::values::error::Reason;
use crate::values::moment::Moment;
use crate::values::node_status::NodeStanding;

/// How long the votes are read on after an election was lost, at most.
const READ_ON_AT_MOST: Duration = Duration::from_millis(50);

/// What the nodes said that did not vote for us.
#[derive(Default)]
struct Against {
    /// By who has them: one claim, or all readers, or one owner.
    busy: BTreeMap<String, Holding>,
    last_epoch: u64,
    is_told: bool,
    late: bool,
    /// What stands at the nodes that hold the key as another kind.
    wrong_kinds: Vec<String>,
    failed: Vec<(NodeId, CommandError)>,
}

/// The nodes that somebody else has.
#[derive(Default)]
struct Holding {
    /// The value that the first of them named.
    value: String,
    nodes: usize,
    left: Option<Left>,
    rank: u32,
}

impl QuorumLink {
    pub(super) async fn elect(
        &self,
        command: &Acquire,
        within: Duration,
    ) -> Result<Acquired, CommandError> {
        let clock = self.shared.clock;
        let begun = clock.now();
        let until = Instant::now() + within;
        let asked = self.voting(begun);
        let mut election = Election::new(self.shared.nodes, asked);
        if election.begin() == ElectionStep::Lost {
            return Err(self.too_few_vote(begun));
        }
        let value = &command.claim.value;
        let open = &self.shared.open;
        if asked != self.shared.nodes.all() {
            let footprint = Footprint::of(&election, command.not_after);
            open.put(value, footprint, begun);
        }
        let mut against = Against::default();
        let step = self
            .vote(command, within, begun, &mut election, &mut against)
            .await;
        let step = match step {
            ElectionStep::Adopt { .. } => self.adopt(command, until, &mut election, step).await,
            step => step,
        };
        let footprint = Footprint::of(&election, command.not_after);
        let (nodes, now) = (footprint.nodes(), clock.now());
        let time = pool_time(now);
        match step {
            ElectionStep::Won { epoch } => {
                let granted = self.connected(election.granted());
                let granted = granted.map(|(node, it, _)| (node, ServerProcess::of(it.run_id())));
                open.put(value, footprint.won(epoch, granted), now);
                return Ok(Acquired::Granted { time, epoch });
            }
            _ if nodes.is_empty() => open.forget(value),
            _ if nodes != self.shared.nodes.all() => open.put(value, footprint, now),
            _ => {}
        }
        self.outvoted(command, against, nodes, time)
    }

    /// Sends the ballots, and reads the votes until the election is decided, or has to adopt.
    async fn vote(
        &self,
        command: &Acquire,
        within: Duration,
        begun: Moment,
        election: &mut Election,
        against: &mut Against,
    ) -> ElectionStep {
        let mut round = self.ballots(command, within, begun, election.open());
        let mut patience = None;
        loop {
            let answered = match patience {
                None => Ok(round.next().await),
                Some(until) => timeout_at(until, round.next()).await,
            };
            let step = match answered {
                Err(_) => {
                    patience = None;
                    election.hurry()
                }
                Ok(None) => return ElectionStep::Lost, // unreachable: the last answer decides
                Ok(Some(answered)) => self.count(answered, election, against),
            };
            match step {
                ElectionStep::Wait => {}
                ElectionStep::WaitBriefly => {
                    let pause = self.round_trip();
                    patience.get_or_insert_with(|| Instant::now() + pause);
                }
                decided => {
                    if decided == ElectionStep::Lost {
                        self.read_on(round, election, against).await;
                    }
                    let seen = &self.shared.seen;
                    seen.told(&command.claim.key, against.last_epoch);
                    return decided;
                }
            }
        }
    }

    /// Counts one answer.
    fn count(
        &self,
        (node, answer): (NodeId, Result<Vote, CommandError>),
        election: &mut Election,
        against: &mut Against,
    ) -> ElectionStep {
        match answer {
            Ok(vote) => {
                let step = election.voted(node, &vote);
                against.voted(vote, self.hint_to(node).is_some());
                step
            }
            Err(error) => {
                let is_open = error.leaves_open();
                against.failed.push((node, error));
                election.failed(node, is_open)
            }
        }
    }

    /// Reads what else comes within a round trip after an election was lost: it says who holds the
    /// lock, and where nothing has to be cancelled.
    async fn read_on(
        &self,
        mut round: Round<'static, Vote>,
        election: &mut Election,
        against: &mut Against,
    ) {
        let until = Instant::now() + self.round_trip().min(READ_ON_AT_MOST);
        while let Ok(Some(answered)) = timeout_at(until, round.next()).await {
            self.count(answered, election, against);
        }
    }

    fn ballots(
        &self,
        command: &Acquire,
        within: Duration,
        now: Moment,
        asked: NodeSet,
    ) -> Round<'static, Vote> {
        let (proposal, believed) = self.epochs(&command.claim.key, now);
        let mut round = Round::default();
        for (node, connection, member) in self.connected(asked) {
            let not_after = member.stamp(&**connection, command.not_after, now);
            let ballot = Ballot {
                claim: command.claim.clone(),
                lease: command.lease,
                not_after,
                proposal,
                hint_to: if command.claim.queues {
                    self.hint_to(node).cloned().unwrap_or_default()
                } else {
                    "".into()
                },
            };
            let (connection, member) = (connection.clone(), member.clone());
            let shared = self.shared.clone();
            round.push(
                node,
                Box::pin(async move {
                    let vote = shared.vote_of((node, &member, &*connection), &ballot, within, now);
                    let vote = vote.await?;
                    vote.believed_up_to(believed).ok_or_else(counter_is_broken)
                }),
            );
        }
        round
    }

    /// What to propose, and the highest epoch that is believed.
    fn epochs(&self, key: &str, now: Moment) -> (u64, u64) {
        let connections = self.connections.iter().flatten();
        let mut estimates: Vec<u64> = connections.map(|it| it.server_time_at(now)).collect();
        let (nodes, seen) = (self.shared.nodes, self.shared.seen.highest(key));
        let proposal = proposal(nodes, &mut estimates, seen);
        (proposal, highest_believed(nodes, &mut estimates))
    }

    /// Puts epochs to adoption until a quorum holds one, or that can't be.
    async fn adopt(
        &self,
        command: &Acquire,
        until: Instant,
        election: &mut Election,
        mut step: ElectionStep,
    ) -> ElectionStep {
        while let ElectionStep::Adopt { epoch, at } = step {
            let within = until.saturating_duration_since(Instant::now());
            let mut round = Round::default();
            for (node, connection, _) in self.connected(at) {
                let connection = connection.clone() as Arc<dyn Link>;
                let claim = command.claim.clone();
                let adopt = async move { connection.adopt(&claim, epoch, within).await };
                round.push(node, Box::pin(adopt));
            }
            loop {
                step = match round.next().await {
                    // The votes that are still out are not waited for.
                    None => return ElectionStep::Lost,
                    Some((node, Ok(answer))) => election.adopted(node, epoch, answer),
                    Some((node, Err(_))) => election.failed(node, true),
                };
                match step {
                    ElectionStep::Wait | ElectionStep::WaitBriefly => {}
                    ElectionStep::Adopt { .. } => break,
                    decided => return decided,
                }
            }
        }
        step
    }

    /// The answer of an election that was lost.
    fn outvoted(
        &self,
        command: &Acquire,
        against: Against,
        open: NodeSet,
        time: u64,
    ) -> Result<Acquired, CommandError> {
        let is_open = !open.is_empty();
        let (nodes, now) = (self.shared.nodes, self.shared.clock.now());
        let asked = self.voting(now).len();
        let most_that_lose = nodes.number() - nodes.quorum();
        let of_wrong_kind = against.wrong_kinds.len();
        let there = against.wrong_kinds.into_iter().next();
        let wrong_kind = there.map(|there| Acquired::WrongKind {
            time,
            there,
            is_open,
        });
        if of_wrong_kind > most_that_lose
            && let Some(answer) = wrong_kind
        {
            return Ok(answer); // whatever the other nodes said
        }
        let gave_no_vote = nodes.number() - asked.min(nodes.number()) + against.failed.len();
        if gave_no_vote > most_that_lose {
            // Whoever has the other nodes' votes is not the reason.
            return Err(self.all_failed(&against.failed, is_open));
        }
        let most = against.busy.into_iter().max_by_key(|(_, it)| it.nodes);
        if let Some((_, holding)) = most {
            let left = holding.left.unwrap_or(Left::For(Duration::ZERO));
            return Ok(Acquired::NoQuorum(Box::new(NoQuorum {
                busy: Busy {
                    time,
                    left,
                    value: holding.value,
                },
                is_held: holding.nodes >= nodes.quorum().min(asked),
                is_open,
                rank: holding.rank,
                is_told: against.is_told && command.claim.queues,
                round_trip: self.round_trip(),
            })));
        }
        let unclear = |why: &str| Err(CommandError::Unclear(Reason::new(why)));
        let failed = against.failed;
        match (wrong_kind, against.late) {
            (Some(answer), _) if !is_open => Ok(answer),
            (Some(_), _) => unclear("some nodes hold the key as another kind of lock"),
            (None, true) if !is_open => Ok(Acquired::Late { time }),
            (None, true) => unclear("some nodes executed it too late"),
            (None, false) if failed.is_empty() => {
                unclear("the nodes drew different epochs, and no quorum adopted one")
            }
            (None, false) => Err(self.all_failed(&failed, is_open)),
        }
    }
}

impl QuorumShared {
    /// Asks a node for its vote. It does not count if it shows that the node's clock was set.
    pub(super) async fn vote_of(
        &self,
        (node, member, connection): (NodeId, &Member, &dyn Node),
        ballot: &Ballot,
        within: Duration,
        now: Moment,
    ) -> Result<Vote, CommandError> {
        let link: &dyn Link = connection;
        let answer = link.vote(ballot, within).await;
        member.took(now.until(self.clock.now()));
        let vote = answer?;
        if !self.hear_clock(node, connection).is_zero() {
            return Err(clock_was_set());
        }
        Ok(vote)
    }
}

impl QuorumLink {
    /// The error of an election in which too few nodes answered.
    fn all_failed(&self, failed: &[(NodeId, CommandError)], is_open: bool) -> CommandError {
        let counts = |error: &CommandError| !is_open || error.leaves_open();
        if let Some(refused) = self.refusal(failed, counts) {
            return refused;
        }
        let now = self.shared.clock.now();
        let standing = |node: NodeId, member: &Member| {
            let failed = failed.iter().find(|(it, _)| *it == node);
            failed.map_or_else(
                || self.standing(node, member, now),
                |(_, error)| NodeStanding::Away {
                    why: error.to_string(),
                },
            )
        };
        self.shared.too_few(standing, VOTES_OF, is_open)
    }

    /// The first refusal that counts among these, with the name of its node.
    pub(super) fn refusal(
        &self,
        failed: &[(NodeId, CommandError)],
        counts: impl Fn(&CommandError) -> bool,
    ) -> Option<CommandError> {
        let mut failed = failed.iter().filter(|(_, error)| counts(error));
        failed.find_map(|(node, error)| {
            let CommandError::Refused(refusal, why) = error else {
                return None;
            };
            let name = self.shared.member(*node).map_or("?", |it| it.name());
            let why = Reason::new(format_args!("{name}: {why}"));
            Some(CommandError::Refused(*refusal, why))
        })
    }
}

impl Against {
    fn voted(&mut self, vote: Vote, is_told: bool) {
        match vote {
            Vote::Granted { .. } => {}
            Vote::Busy(Outvoted {
                busy: Busy { left, value, .. },
                last_epoch,
                rank,
            }) => {
                self.last_epoch = self.last_epoch.max(last_epoch);
                self.is_told |= is_told;
                let holding = self.busy.entry(who(&value)).or_insert_with(|| Holding {
                    value,
                    rank,
                    ..Holding::default()
                });
                holding.nodes += 1;
                holding.rank = holding.rank.min(rank);
                holding.left = Some(longer(holding.left, left));
            }
            Vote::Late { .. } => self.late = true,
            Vote::WrongKind { there, .. } => self.wrong_kinds.push(there),
        }
    }
}

/// The vote itself tells that others' keys may have ended early there; it does not count.
fn clock_was_set() -> CommandError {
    CommandError::Unclear(Reason::new("its clock was set a moment ago"))
}

/// Something is there, and it does not count.
fn counter_is_broken() -> CommandError {
    CommandError::Unclear(Reason::new(
        "the epoch counter there is decades ahead of the nodes' clocks: delete it",
    ))
}

/// Who holds a lock with this value: several may, and each node names one of them.
fn who(value: &str) -> String {
    match entry::read(value) {
        Some(entry) if entry.letter == Letter::Reader => "readers".to_owned(),
        Some(entry) if entry.letter == Letter::Owner => entry.owner.to_owned(),
        _ => value.to_owned(),
    }
}

fn longer(one: Option<Left>, other: Left) -> Left {
    match (one, other) {
        (None, other) => other,
        (Some(Left::For(one)), Left::For(other)) => Left::For(one.max(other)),
        (Some(_), _) => Left::Endless,
    }
}
