//! One lock at N independent servers, of which a quorum decides: `RedLock`.
//!
//! `member` is one of the servers, and what this pool knows about it. `link` speaks the protocol
//! over a connection to each of them: `election` takes a lock, `renewal` keeps it, `take_back` gives
//! it back, `tallies` looks. `round` waits for the answers of several nodes, `open` remembers where something
//! may be left. `watch` follows which nodes are away or may not vote yet. `client::quorum` counts the
//! votes.
//!
//! Never in this folder: a rule of the protocol, a node that the others wait for when they have
//! decided, the `redis` crate.

mod election;
mod link;
mod member;
mod open;
mod renewal;
mod round;
mod take_back;
mod tallies;
mod watch;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::time::{Instant, timeout_at};

use self::link::QuorumLink;
use self::member::Member;
use self::open::{OpenClaims, SeenEpochs};
use self::round::Round;
use crate::client::quorum::jumps::Jumps;
use crate::client::quorum::nodes::{NodeCount, NodeId};
use crate::link::clock::Clock;
use crate::link::command_error::CommandError;
use crate::link::offers::Offers;
use crate::link::{
    Answer, Backend, BackgroundTask, Link, Listener, Node, NodeBackend, WatchdogKind,
};
use crate::values::error::Reason;
use crate::values::moment::Moment;
use crate::values::node_status::{NodeStanding, NodeStatus};
use crate::values::ttl::Margin;

/// When a quorum is connected, a new pool waits this much longer for the other nodes: they may be
/// configured wrongly, and that should be known at start-up.
const WAIT_FOR_THE_REST: Duration = Duration::from_millis(100);

/// A pool's nodes.
#[derive(Debug)]
pub(crate) struct Quorum(Arc<QuorumShared>);

#[derive(Debug)]
struct QuorumShared {
    nodes: NodeCount,
    members: Vec<Arc<Member>>,
    open: OpenClaims,
    seen: SeenEpochs,
    jumps: Mutex<Jumps>,
    /// A quorum was connected once: a node that turns out to be configured wrongly is away.
    was_connected: AtomicBool,
    /// Each node's standing as it was last logged.
    told: Mutex<Vec<Option<NodeStanding>>>,
    connect_timeout: Duration,
    command_timeout: Duration,
    clock: Clock,
}

/// How long a pool of several nodes waits for them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct QuorumTimes {
    pub(crate) connect_timeout: Duration,
    pub(crate) command_timeout: Duration,
    /// The longest ttl of the whole fleet.
    pub(crate) max_ttl: Duration,
    /// By how much clocks may run at different rates.
    pub(crate) margin: Margin,
}

impl Quorum {
    /// `servers`: each with its name for errors and the log. `None`: their number can't decide.
    pub(crate) fn new(
        servers: Vec<(String, Arc<dyn NodeBackend>)>,
        waits: QuorumTimes,
        clock: Clock,
    ) -> Option<Self> {
        let nodes = NodeCount::new(servers.len())?;
        let QuorumTimes {
            connect_timeout,
            command_timeout,
            max_ttl,
            margin,
        } = waits;
        let member = |(name, backend)| {
            let now = clock.now();
            Arc::new(Member::new(name, backend, (max_ttl, connect_timeout), now))
        };
        let shared = QuorumShared {
            nodes,
            members: servers.into_iter().map(member).collect(),
            open: OpenClaims::new(max_ttl),
            seen: SeenEpochs::default(),
            jumps: Mutex::new(Jumps::new(nodes, max_ttl, margin)),
            was_connected: AtomicBool::new(false),
            told: Mutex::new(vec![None; nodes.number()]),
            connect_timeout,
            command_timeout,
            clock,
        };
        Some(Self(Arc::new(shared)))
    }
}

impl QuorumShared {
    fn members(&self) -> impl Iterator<Item = (NodeId, &Arc<Member>)> {
        self.nodes.ids().zip(&self.members)
    }

    fn member(&self, node: NodeId) -> Option<&Arc<Member>> {
        self.members.get(node.index())
    }

    fn jumps(&self) -> MutexGuard<'_, Jumps> {
        self.jumps.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes what a node's latest answer says about its clock; returns how long the node does not
    /// vote because of it.
    fn hear_clock(&self, node: NodeId, connection: &dyn Node) -> Duration {
        let mut jumps = self.jumps();
        if let Some(answer) = connection.clock_answer() {
            jumps.hear(node, answer);
        }
        jumps.rest(node, self.clock.now())
    }

    /// A node's standing over this connection.
    fn standing(
        &self,
        (node, member): (NodeId, &Member),
        connection: Option<&Arc<dyn Node>>,
        now: Moment,
    ) -> NodeStanding {
        let rest = self.jumps().rest(node, now);
        member.standing(connection, now).or_clock_set(rest)
    }

    /// The link over these connections; `None` if they are too few.
    fn link(
        self: &Arc<Self>,
        connections: Vec<Option<Arc<dyn Node>>>,
    ) -> Result<Option<Arc<dyn Link>>, CommandError> {
        if connections.iter().flatten().count() < self.nodes.quorum() {
            return Ok(None);
        }
        self.check_run_ids(&connections)?;
        Ok(Some(Arc::new(QuorumLink::new(self.clone(), connections))))
    }

    /// One server under two names would have two votes.
    fn check_run_ids(&self, connections: &[Option<Arc<dyn Node>>]) -> Result<(), CommandError> {
        let known = |(at, node): (usize, &Option<Arc<dyn Node>>)| {
            let node = node.clone()?;
            (!node.run_id().is_empty()).then_some((at, node))
        };
        let known: Vec<_> = connections.iter().enumerate().filter_map(known).collect();
        for (index, (at, node)) in known.iter().enumerate() {
            let twin = known.iter().skip(index + 1);
            if let Some((other, _)) = twin.into_iter().find(|it| it.1.run_id() == node.run_id()) {
                let name = |at: &usize| self.members.get(*at).map_or("?", |it| it.name());
                return Err(CommandError::Setup(Reason::new(format_args!(
                    "{} and {} are the same server, which would have two votes: name each node once",
                    name(at),
                    name(other)
                ))));
            }
        }
        Ok(())
    }

    /// Why no quorum can be asked.
    fn too_few(
        &self,
        standing: impl Fn(NodeId, &Member) -> NodeStanding,
        what: &str,
        is_open: bool,
    ) -> CommandError {
        let each = self.members().map(|(node, member)| {
            let standing = standing(node, member);
            format!("{} {standing}", member.name())
        });
        let each: Vec<_> = each.collect();
        let why = Reason::new(format_args!(
            "{what} {} of {} nodes: {}",
            self.nodes.quorum(),
            self.nodes.number(),
            each.join(", ")
        ));
        CommandError::TooFewNodes { why, is_open }
    }

    /// Connects to all nodes at once, and waits for a quorum of them, and a little for the others.
    async fn connect(
        self: Arc<Self>,
        key: &str,
        within: Duration,
    ) -> Result<Arc<dyn Link>, CommandError> {
        let mut round = Round::default();
        for (node, member) in self.members() {
            let (member, key) = (member.clone(), key.to_owned());
            round.push(
                node,
                Box::pin(async move { member.connect(&key, within).await }),
            );
        }
        let mut connections: Vec<Option<Arc<dyn Node>>> = vec![None; self.nodes.number()];
        let mut until = Instant::now() + within;
        let mut wrong = None;
        while let Ok(Some((node, connected))) = timeout_at(until, round.next()).await {
            match connected {
                Ok(connection) => {
                    if let Some(at) = connections.get_mut(node.index()) {
                        *at = Some(connection);
                    }
                }
                Err(CommandError::Setup(why)) => {
                    let name = self.member(node).map_or("?", |it| it.name());
                    let why = Reason::new(format_args!("{name}: {why}"));
                    let error = CommandError::Setup(why);
                    if !self.was_connected.load(Ordering::Relaxed) {
                        return Err(error);
                    }
                    wrong = Some(error);
                }
                Err(_) => {} // the member knows why
            }
            if connections.iter().flatten().count() >= self.nodes.quorum() {
                until = until.min(Instant::now() + WAIT_FOR_THE_REST);
            }
        }
        let now = self.clock.now();
        let standing = |node: NodeId, member: &Member| {
            let connected = connections.get(node.index()).and_then(Option::as_ref);
            self.standing((node, member), connected, now)
        };
        match self.link(connections.clone())? {
            Some(link) => {
                self.was_connected.store(true, Ordering::Relaxed);
                // So that `init` has named each of them when it returns.
                for (node, member) in self.members() {
                    let standing = standing(node, member);
                    if matches!(standing, NodeStanding::Quarantined { .. }) {
                        self.tell(node, member.name(), standing);
                    }
                }
                Ok(link)
            }
            None => Err(wrong.unwrap_or_else(|| self.too_few(standing, "no connection to", false))),
        }
    }
}

impl Backend for Quorum {
    fn clock(&self) -> Clock {
        self.0.clock
    }

    fn offers(&self) -> Offers {
        Offers::Quorum
    }

    fn watchdog(&self) -> WatchdogKind {
        let first = self.0.members.first();
        first.map_or(WatchdogKind::Thread, |it| it.backend().watchdog())
    }

    fn listen(&self, listener: Weak<dyn Listener>) {
        for member in &self.0.members {
            member.backend().listen(listener.clone());
        }
    }

    fn ready(&self, key: &str, now: Moment) -> Option<Arc<dyn Link>> {
        let members = self.0.members.iter();
        let connections = members.map(|member| member.ready(key, now)).collect();
        self.0.link(connections).ok().flatten()
    }

    fn connect<'a>(&'a self, key: &'a str, within: Duration) -> Answer<'a, Arc<dyn Link>> {
        Box::pin(self.0.clone().connect(key, within))
    }

    fn prepare(&self, runtime: &Handle, key: &str) {
        let nodes = self.0.members.iter();
        nodes.for_each(|member| member.backend().prepare(runtime, key));
    }

    fn any_ready(&self, key: &str) -> Option<Arc<dyn Link>> {
        let nodes = self.0.members.iter().map(|member| member.backend());
        let connections = nodes.map(|node| node.any_ready_node(key)).collect();
        self.0.link(connections).ok().flatten()
    }

    /// A vote is about one lock.
    fn in_one_step(&self, keys: &mut dyn Iterator<Item = &str>) -> bool {
        keys.nth(1).is_none()
    }

    fn background_task(&self) -> Option<BackgroundTask> {
        Some(Box::pin(watch::watch(Arc::downgrade(&self.0))))
    }

    fn nodes(&self) -> Vec<NodeStatus> {
        let now = self.0.clock.now();
        let jumps = self.0.jumps();
        let status = |(node, member): (NodeId, &Arc<Member>)| {
            let NodeStatus {
                node: name,
                standing,
            } = member.status(now);
            NodeStatus::new(&name, standing.or_clock_set(jumps.rest(node, now)))
        };
        self.0.members().map(status).collect()
    }

    fn connections(&self) -> usize {
        let members = self.0.members.iter();
        members.map(|it| it.backend().connections()).sum()
    }
}
