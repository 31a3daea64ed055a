//! Who serves which slot of a cluster, and the connections to each node.
//!
//! Locks no lock: `ClusterLink` does, over these connections. Invariants: a round of questions is a
//! task of its own, so that no caller's can stop it; connections are closed outside the mutex.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::time::Duration;

use redis::{Cmd, Value};
use tokio::sync::Notify;
use tokio::time::{Instant, timeout_at};

use super::questions::{self, NodesSaid};
use super::rounds::{QuestionRounds, RoundNext};
use crate::link::clock::Clock;
use crate::link::command_error::{self, CommandError};
use crate::link::redis::redirects::{OfCluster, Redirects};
use crate::link::{Answer, Link, Listener};
use crate::observe;
use crate::strangers::beside_others;
use crate::topology::cluster::slot_map::{AskedAt, SlotMap};
use crate::topology::server::supervisor::Supervisor;
use crate::values::config::{ClusterAddress, Endpoint, Host, RedisAddress, Settings};
use crate::values::error::{Reason, Refusal};
use crate::values::slot::slot;

/// How often the nodes are asked although nothing has happened.
const AT_LEAST_EVERY: Duration = Duration::from_secs(15);

/// Many may say at the same moment that something has changed.
const BETWEEN_NEWS: Duration = Duration::from_millis(100);

/// So many rounds in a row may say something older than what is known, or be another cluster's; then
/// it counts: a cluster may have been made anew.
const OLDER_ROUNDS: u32 = 3;

/// How often the log is told at most that there are other masters.
const TOLD_AT_MOST_EVERY: Duration = Duration::from_secs(10);

/// So many nodes that serve nothing are kept beside the others. A slot moves to one of them; a node
/// that lies can name any number, also while nobody says who serves what.
const MOST_UNUSED: usize = 16;

/// The nodes of a cluster, and who serves which slot.
#[derive(Debug)]
pub(super) struct ClusterNodes {
    /// Itself, for the connections that tell it of redirects.
    this: Weak<ClusterNodes>,
    /// The nodes that the configuration names.
    seeds: Vec<Host>,
    /// Any node's address, but for its endpoint: all have the same login.
    any: RedisAddress,
    settings: Arc<Settings>,
    pub(super) clock: Clock,
    pub(super) listener: OnceLock<Weak<dyn Listener>>,
    state: Mutex<ClusterState>,
    rounds: Mutex<QuestionRounds>,
    /// Notified when a round has ended.
    round_ended: Notify,
    /// Notified when the map may be out of date.
    may_have_changed: Notify,
}

#[derive(Debug, Default)]
pub(super) struct ClusterState {
    pub(super) map: SlotMap,
    pub(super) nodes: BTreeMap<Host, Arc<Supervisor>>,
    /// Nodes that served nothing in the last round.
    unused: BTreeSet<Host>,
    /// The ids of the cluster's nodes.
    ids: BTreeSet<String>,
    /// The epoch of the map, and how many rounds in a row have been doubtful.
    epoch: u64,
    older: u32,
    told: KnownMasters,
    /// How often the nodes have been asked, so that not the same ones are each time.
    asked: usize,
}

/// The masters that the log knows of, and since when.
#[derive(Debug, Default)]
struct KnownMasters {
    masters: BTreeSet<Host>,
    at: Option<Instant>,
}

impl KnownMasters {
    /// Those that came and went since, if the log has to be told: not the first, and not many times a
    /// minute, whatever a node says.
    fn news(&mut self, serving: &BTreeSet<Host>) -> Option<[String; 2]> {
        let is_soon = self.at.is_some_and(|at| at.elapsed() < TOLD_AT_MOST_EVERY);
        if is_soon || self.masters == *serving {
            return None;
        }
        let before = std::mem::replace(&mut self.masters, serving.clone());
        let is_first = before.is_empty();
        self.at = (!is_first).then(Instant::now);
        let hosts = |all: Vec<&Host>| all.into_iter().map(Host::to_string).collect::<Vec<_>>();
        let [came, went] = [
            hosts(serving.difference(&before).collect()),
            hosts(before.difference(serving).collect()),
        ]
        .map(|hosts| hosts.join(", "));
        (!is_first).then_some([came, went])
    }
}

impl ClusterState {
    /// The nodes that serve nothing, if they are too many.
    fn take_too_many(&mut self) -> BTreeMap<Host, Arc<Supervisor>> {
        if self.nodes.len() <= MOST_UNUSED {
            return BTreeMap::new(); // usual
        }
        let serving: BTreeSet<Host> = self.map.nodes().into_iter().cloned().collect();
        if self.nodes.len() <= serving.len() + MOST_UNUSED {
            return BTreeMap::new();
        }
        let nodes = std::mem::take(&mut self.nodes).into_iter();
        let (used, unused) = nodes.partition(|(host, _)| serving.contains(host));
        self.nodes = used;
        unused
    }
}

impl ClusterNodes {
    pub(super) fn new(address: &ClusterAddress, settings: &Arc<Settings>) -> Arc<Self> {
        Arc::new_cyclic(|this| ClusterNodes {
            this: this.clone(),
            seeds: address.seeds.clone(),
            any: address.any.clone(),
            settings: settings.clone(),
            clock: Clock::real(),
            listener: OnceLock::new(),
            state: Mutex::default(),
            rounds: Mutex::new(QuestionRounds::new()),
            round_ended: Notify::new(),
            may_have_changed: Notify::new(),
        })
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, ClusterState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The node that serves the slot, as far as it is known.
    pub(super) fn owner(&self, slot: u16) -> Option<(Host, Arc<Supervisor>)> {
        let mut state = self.lock();
        let host = state.map.node(slot)?.clone();
        let node = self.connections_to(&mut state, &host);
        Some((host, node))
    }

    pub(super) fn connections_to(&self, state: &mut ClusterState, host: &Host) -> Arc<Supervisor> {
        let node = state.nodes.entry(host.clone());
        node.or_insert_with(|| self.supervisor(host)).clone()
    }

    fn supervisor(&self, host: &Host) -> Arc<Supervisor> {
        let of_cluster = OfCluster {
            redirects: self.this.clone(),
            host: host.clone(),
        };
        let address = self.address(host);
        let node = Supervisor::new(&address, &self.settings, None, Some(of_cluster), self.clock);
        if let Some(listener) = self.listener.get() {
            node.listen(listener.clone());
        }
        node
    }

    /// The address of a node, with the login of all.
    fn address(&self, host: &Host) -> Arc<RedisAddress> {
        Arc::new(RedisAddress {
            endpoint: Endpoint::Tcp(host.clone()),
            ..self.any.clone()
        })
    }

    /// Connects to the node that serves this key's slot. If it can't be reached, another may serve
    /// the slot by now.
    pub(super) async fn connect_to_owner(
        &self,
        key: &str,
        within: Duration,
    ) -> Result<Arc<dyn Link>, CommandError> {
        command_error::runtime_with_timers()?;
        let (slot, until) = (slot(key), Instant::now() + within);
        let mut failed: Option<(Host, CommandError)> = None;
        let mut was_asked = false;
        loop {
            let owner = self.owner(slot);
            match (owner, failed.take()) {
                (Some((host, _)), Some((before, error))) if host == before => return Err(error),
                (Some((host, node)), _) => {
                    let left = until.saturating_duration_since(Instant::now());
                    let linked = node.link(key, left).await;
                    match linked.map_err(|error| self.of_node(&host, error)) {
                        Ok(link) => return Ok(link),
                        Err(error) if was_asked => return Err(error),
                        Err(error) => failed = Some((host, error)),
                    }
                }
                (None, _) if was_asked => return Err(unserved(slot)),
                (None, failure) => failed = failure,
            }
            was_asked = true;
            if let Err(error) = self.ask(until).await {
                return Err(failed.map_or(error, |(_, error)| error));
            }
        }
    }

    /// Asks the nodes who serves what. Many callers ask once, in a task of its own: a caller may be
    /// dropped, or not be polled for long.
    pub(super) async fn ask(&self, until: Instant) -> Result<(), CommandError> {
        let (here, called) = (command_error::runtime_with_timers()?, Instant::now());
        loop {
            let ended = self.round_ended.notified();
            let next = self.rounds().next(called, self.settings.connect_timeout);
            match next {
                RoundNext::Known(known) => return known,
                RoundNext::Ask => {
                    if let Some(this) = self.this.upgrade() {
                        here.spawn(this.round());
                    }
                }
                RoundNext::Wait => {}
            }
            if timeout_at(until, beside_others(ended)).await.is_err() {
                let why = "no node of the cluster said in time who serves what";
                return Err(CommandError::Unsent(Reason::new(why)));
            }
        }
    }

    /// Says at which node something is wrong and, unless the configuration names that node, by what
    /// it was reached: often that is the mistake.
    pub(super) fn of_node(&self, host: &Host, error: CommandError) -> CommandError {
        if self.seeds.contains(host) {
            return error.at(host);
        }
        let announced = "as the cluster announces it";
        match error {
            CommandError::Refused(refusal @ Refusal::Tls, _) if self.any.tls.is_some() => {
                let why = Reason::new(format_args!(
                    "{host}, {announced}, speaks no TLS: set `tls-cluster yes` at all nodes, so that they announce their ports for TLS"
                ));
                CommandError::Refused(refusal, why)
            }
            error => error.at(format_args!(
                "{host}, {announced} (`cluster-announce-ip`, `cluster-announce-hostname`)"
            )),
        }
    }

    /// The nodes that the configuration names, as text.
    fn seeds(&self) -> String {
        let seeds: Vec<String> = self.seeds.iter().map(Host::to_string).collect();
        seeds.join(",")
    }

    fn rounds(&self) -> MutexGuard<'_, QuestionRounds> {
        self.rounds.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn round(self: Arc<Self>) {
        let (asked, known, ids) = {
            let mut state = self.lock();
            state.asked += 1;
            let known = state.map.nodes().into_iter().cloned();
            let mut known: Vec<Host> = known.collect();
            let by = state.asked % known.len().max(1);
            known.rotate_left(by);
            (state.map.asking(), known, state.ids.clone())
        };
        let is_new = known.is_empty();
        let others = self.seeds.iter().filter(|it| !known.contains(it));
        let hosts = in_turn(known.iter(), others);
        let addresses: Vec<_> = hosts.map(|host| self.address(host)).collect();
        // Less than who asks may wait, so that they hear what each node said, and not just that one
        // of them said nothing.
        let until = Instant::now() + self.settings.connect_timeout * 7 / 8;
        let said = questions::who_serves_what(&addresses, (&ids, is_new), until).await;
        let said = said.map(|said| self.learn(said, asked));
        let failed = said.as_ref().err().cloned();
        let is_first = self.rounds().ended(said);
        match failed.filter(|_| is_first) {
            Some(error) => observe::cluster_is_silent(&self.seeds(), &error),
            None if is_first => observe::cluster_answers(&self.seeds()),
            None => {}
        }
        self.round_ended.notify_waiters();
    }

    /// Returns whether that is something new.
    fn learn(&self, said: NodesSaid, asked: AskedAt) -> bool {
        let mut state = self.lock();
        let is_doubtful =
            said.epoch < state.epoch || questions::are_two_clusters(&said.ids, &state.ids);
        if is_doubtful && state.older < OLDER_ROUNDS {
            state.older += 1;
            return false;
        }
        (state.epoch, state.older) = (said.epoch, 0);
        if !said.ids.is_empty() {
            state.ids = said.ids;
        }
        let is_new = state.map.learn(said.lists, asked);
        let serving: BTreeSet<Host> = state.map.nodes().into_iter().cloned().collect();
        let nodes = std::mem::take(&mut state.nodes);
        let unused = std::mem::take(&mut state.unused);
        let is_used = |(host, _): &(Host, _)| serving.contains(host) || !unused.contains(host);
        let (used, gone): (BTreeMap<_, _>, BTreeMap<_, _>) = nodes.into_iter().partition(is_used);
        let idle = used.keys().filter(|host| !serving.contains(host));
        state.unused = idle.cloned().collect();
        state.nodes = used;
        let news = state.told.news(&serving);
        drop(state);
        if let Some([came, went]) = news {
            observe::masters_changed(&came, &went);
        }
        drop(gone); // not under the lock: it closes connections
        is_new
    }

    /// Keeps the map current for as long as the pool lives.
    pub(super) async fn follow(this: Weak<Self>) {
        while let Some(nodes) = this.upgrade() {
            let changed = nodes.may_have_changed.notified();
            let _ = tokio::time::timeout(AT_LEAST_EVERY, changed).await;
            let is_used = !nodes.lock().map.nodes().is_empty();
            if is_used {
                let until = Instant::now() + nodes.settings.connect_timeout;
                let _ = nodes.ask(until).await; // a caller who needs it learns why not
            }
            drop(nodes);
            tokio::time::sleep(BETWEEN_NEWS).await;
        }
    }
}

/// One of each in turn: however many nodes a node has named, those of the configuration are asked
/// soon.
fn in_turn<'a>(
    mut known: impl Iterator<Item = &'a Host>,
    mut seeds: impl Iterator<Item = &'a Host>,
) -> impl Iterator<Item = &'a Host> {
    let both = move || match (known.next(), seeds.next()) {
        (None, None) => None,
        (one, other) => Some([one, other]),
    };
    std::iter::from_fn(both).flatten().flatten()
}

pub(super) fn unserved(slot: u16) -> CommandError {
    CommandError::Unserved(Reason::new(format_args!(
        "no node of the cluster serves the key's slot, {slot}: `CLUSTER SLOTS` lists who serves what"
    )))
}

pub(super) fn unserved_slots(count: usize, first: u16) -> CommandError {
    CommandError::Unserved(Reason::new(format_args!(
        "no node of the cluster serves {count} of its slots, the first of them {first}: `CLUSTER SLOTS` lists who serves what"
    )))
}

impl Redirects for ClusterNodes {
    fn moved(&self, slot: u16, node: Host) {
        let mut state = self.lock();
        state.map.moved(slot, node);
        let too_many = state.take_too_many();
        drop(state);
        drop(too_many); // not under the lock: it closes connections
        self.may_have_changed.notify_one();
    }

    fn ask(
        &self,
        host: Host,
        commands: Vec<Cmd>,
        within: Duration,
    ) -> Answer<'_, Vec<Result<Value, CommandError>>> {
        let mut state = self.lock();
        let too_many = state.take_too_many();
        let node = self.connections_to(&mut state, &host);
        drop(state);
        drop(too_many); // as above
        Box::pin(async move {
            let until = Instant::now() + within;
            let link = node.redis_link("", within).await;
            let link = link.map_err(|error| self.of_node(&host, error))?;
            let left = until.saturating_duration_since(Instant::now());
            link.asking(&commands, left).await
        })
    }

    fn may_have_changed(&self) {
        self.may_have_changed.notify_one();
    }

    fn slot_of(&self, node: &Host) -> Option<u16> {
        self.lock().map.slot_of(node)
    }
}
