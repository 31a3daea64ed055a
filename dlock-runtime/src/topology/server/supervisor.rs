//! Keeps the connections of a pool alive: each tokio runtime has its own, rebuilt when they break,
//! checked when they are idle, and closed when the runtime or the pool ends.
//!
//! Runtimes share no connection, because a connection's I/O task stops with its runtime.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};
use std::time::Duration;

use tokio::runtime::{Handle, Id};
use tokio::task::AbortHandle;

use super::slot::Slot;
use crate::link::clock::Clock;
use crate::link::command_error::{self, CommandError};
use crate::link::offers::Offers;
use crate::link::redis::epochs::HighestEpoch;
use crate::link::redis::grant_key::GrantKey;
use crate::link::redis::link::RedisLink;
use crate::link::redis::membership::NodePlan;
use crate::link::redis::names::Names;
use crate::link::redis::outage::Attempts;
use crate::link::redis::pace::ClockPace;
use crate::link::redis::plan::Plan;
use crate::link::redis::redirects::OfCluster;
use crate::link::{BackgroundTask, Link, Listener, Node};
use crate::topology::plain::{Checkouts, PlainLink};
use crate::topology::sentinel;
use crate::topology::witness::{Witness, WitnessedLink};
use crate::values::config::{Endpoint, RedisAddress, Settings};
use crate::values::error::Reason;
use crate::values::moment::Moment;
use crate::values::process::Home;

#[derive(Debug)]
pub(crate) struct Supervisor {
    home: Home,
    plan: Arc<Plan>,
    /// A handful of entries: a linear search is faster than hashing.
    runtimes: Mutex<Vec<(Id, Arc<Links>)>>,
}

/// The connections of one tokio runtime.
#[derive(Debug)]
struct Links {
    slots: Vec<Arc<Slot>>,
    /// For transactions, on a server without scripts.
    checkouts: Option<Arc<Checkouts>>,
    /// Asks for replicas, if the pool does.
    witness: Option<Arc<Witness>>,
    /// The task that checks idle connections; when the runtime ends, it is dropped and removes
    /// these links.
    caretaker: OnceLock<AbortHandle>,
}

impl Links {
    fn all(&self) -> impl Iterator<Item = &Arc<Slot>> {
        let checkouts = self.checkouts.iter().flat_map(|it| it.slots());
        let witness = self.witness.iter().map(|it| it.slot());
        self.slots.iter().chain(checkouts).chain(witness)
    }
}

impl Supervisor {
    pub(crate) fn new(
        address: &Arc<RedisAddress>,
        settings: &Arc<Settings>,
        node: Option<NodePlan>,
        of_cluster: Option<OfCluster>,
        clock: Clock,
    ) -> Arc<Self> {
        let names = match node {
            Some(_) => Names::of_node(&settings.namespace),
            None if of_cluster.is_some() => Names::of_cluster(&settings.namespace),
            None => Names::new(&settings.namespace, settings.counter_per_slot),
        };
        Arc::new(Self {
            home: Home::here(),
            plan: Arc::new(Plan {
                grant_key: GrantKey::new(
                    settings
                        .grant_secret
                        .as_ref()
                        .or(address.login.fixed_password()),
                ),
                pace: Arc::new(ClockPace::new(address.clone(), settings.clock_margin)),
                address: address.clone(),
                target: Arc::default(),
                settings: settings.clone(),
                clock,
                names,
                node,
                of_cluster,
                highest_epoch: HighestEpoch::default(),
                listener: OnceLock::new(),
                warned: AtomicBool::new(false),
                attempts: Attempts::default(),
            }),
            runtimes: Mutex::default(),
        })
    }

    /// Sets the receiver of the pushes of all connections made from now on.
    pub(crate) fn listen(&self, listener: Weak<dyn Listener>) {
        let _ = self.plan.listener.set(listener); // called once, as `Backend::listen` promises
    }

    /// Follows the master that the sentinels name, if they do.
    pub(super) fn follow_the_master(&self) -> Option<BackgroundTask> {
        let Endpoint::Sentinels(sentinels) = &self.plan.address.endpoint else {
            return None;
        };
        Some(Box::pin(sentinel::follow(
            self.plan.clone(),
            sentinels.clone(),
        )))
    }

    /// How many connections work, of all runtimes.
    pub(crate) fn working(&self) -> usize {
        let runtimes = self.runtimes.lock().unwrap_or_else(PoisonError::into_inner);
        let links: Vec<_> = runtimes.iter().map(|(_, links)| links.clone()).collect();
        drop(runtimes);
        let working = links.iter().flat_map(|links| links.all());
        working.filter(|slot| slot.live().is_some()).count()
    }

    /// The current runtime's connection for this key, if it works and the server has answered on it
    /// recently.
    pub(crate) fn ready(&self, key: &str, now: Moment) -> Option<Arc<dyn Link>> {
        self.ready_link(key, now, |links, link| self.speaking(links, link))
    }

    /// The same, as a node of a quorum.
    pub(super) fn ready_node(&self, key: &str, now: Moment) -> Option<Arc<dyn Node>> {
        self.plan.node?;
        self.ready_link(key, now, |_, link| link as Arc<dyn Node>)
    }

    /// `speaking` runs under the lock, so that no look-up counts an owner of the links.
    fn ready_link<T>(
        &self,
        key: &str,
        now: Moment,
        speaking: impl FnOnce(&Links, Arc<RedisLink>) -> T,
    ) -> Option<T> {
        let here = Handle::try_current().ok()?;
        let runtimes = self.runtimes.lock().unwrap_or_else(PoisonError::into_inner);
        let (_, links) = find(&runtimes, here.id())?;
        // A broken link stays where it is: its drop may take a while.
        let link = links.slot(key)?.usable()?;
        self.was_heard_lately(&link, now)
            .then(|| speaking(links, link))
    }

    /// Begins to connect in another runtime, unless the connection for this key works there.
    pub(crate) fn prepare(self: &Arc<Self>, runtime: &Handle, key: &str) {
        let runtimes = self.runtimes.lock().unwrap_or_else(PoisonError::into_inner);
        let known = find(&runtimes, runtime.id()).map(|(_, links)| links);
        let slot = known.and_then(|links| links.slot(key));
        if slot.is_some_and(|slot| slot.works()) {
            return; // mostly, so nothing is cloned before
        }
        let known = known.cloned();
        drop(runtimes);
        let _inside = runtime.enter();
        let links = known.map_or_else(|| self.welcome(runtime), Ok);
        // An error is that of the command that needs the connection.
        if let Some(slot) = links.ok().as_ref().and_then(|links| links.slot(key)) {
            slot.begin(&self.plan);
        }
    }

    /// The connection of any runtime on which the server answered last.
    pub(crate) fn any_ready(&self) -> Option<Arc<dyn Link>> {
        let (links, link) = self.heard_last()?;
        Some(self.speaking(&links, link))
    }

    /// The same, as a node of a quorum.
    pub(super) fn any_ready_node(&self) -> Option<Arc<dyn Node>> {
        self.plan.node?;
        Some(self.heard_last()?.1)
    }

    fn heard_last(&self) -> Option<(Arc<Links>, Arc<RedisLink>)> {
        let now = self.plan.clock.now();
        let runtimes = self.runtimes.lock().unwrap_or_else(PoisonError::into_inner);
        let all: Vec<_> = runtimes.iter().map(|(_, links)| links.clone()).collect();
        drop(runtimes); // a link that is dropped may take a while
        let usable = all.iter().flat_map(|links| {
            let usable = links.slots.iter().filter_map(|slot| slot.usable());
            usable.map(|link| (links.clone(), link))
        });
        usable.min_by_key(|(_, link)| link.connection.idle(now))
    }

    /// The current runtime's connection for this key; connects if necessary.
    pub(crate) async fn link(
        self: &Arc<Self>,
        key: &str,
        within: Duration,
    ) -> Result<Arc<dyn Link>, CommandError> {
        let (links, link) = self.made_link(key, within).await?;
        Ok(self.speaking(&links, link))
    }

    /// The same, as a node of a quorum.
    pub(super) async fn node(
        self: &Arc<Self>,
        key: &str,
        within: Duration,
    ) -> Result<Arc<dyn Node>, CommandError> {
        if self.plan.node.is_none() {
            let why = "this pool's server is not a node of a quorum";
            return Err(CommandError::Setup(Reason::new(why)));
        }
        let (_, link) = self.made_link(key, within).await?;
        Ok(link)
    }

    /// The same, without what stands in front of it.
    pub(crate) async fn redis_link(
        self: &Arc<Self>,
        key: &str,
        within: Duration,
    ) -> Result<Arc<RedisLink>, CommandError> {
        Ok(self.made_link(key, within).await?.1)
    }

    async fn made_link(
        self: &Arc<Self>,
        key: &str,
        within: Duration,
    ) -> Result<(Arc<Links>, Arc<RedisLink>), CommandError> {
        let here = command_error::current_runtime()?;
        let links = match self.known(here.id()) {
            Some(links) => links,
            None => self.welcome(&here)?,
        };
        let Some(slot) = links.slot(key) else {
            return Err(CommandError::Unsent(Reason::new(
                "this pool has no connections",
            ))); // `connections` is at least 1
        };
        let link = slot.link(&self.plan, within).await?;
        if self.was_heard_lately(&link, link.connection.clock.now()) {
            return Ok((links, link));
        }
        // The runtime has not run for a while, so its caretaker has not either: check the
        // connection before using it.
        let _ = link
            .connection
            .refresh(within.min(self.plan.settings.command_timeout))
            .await;
        let link = if link.connection.is_usable() {
            link
        } else {
            slot.link(&self.plan, within).await?
        };
        Ok((links, link))
    }

    pub(super) fn epoch_given(&self, epoch: u64) {
        self.plan.highest_epoch.given(epoch);
    }

    pub(super) fn offers(&self) -> Offers {
        if self.plan.settings.without_scripts {
            Offers::WithoutScripts
        } else {
            Offers::Everything
        }
    }

    /// Whether one script may take all of these locks.
    pub(super) fn in_one_step(&self, keys: &mut dyn Iterator<Item = &str>) -> bool {
        let names = &self.plan.names;
        let mut groups = keys.map(|key| names.script_group(key));
        let first = groups.next();
        groups.all(|group| Some(group) == first)
    }

    /// The link that speaks the protocol over this connection, with or without scripts.
    fn speaking(&self, links: &Links, link: Arc<RedisLink>) -> Arc<dyn Link> {
        let witness = links.witness.as_ref();
        let witness = witness.map(|it| (it.clone(), link.connection.clone()));
        let link: Arc<dyn Link> = match &links.checkouts {
            None => link,
            Some(checkouts) => Arc::new(PlainLink::new(link, checkouts.clone(), self.plan.clone())),
        };
        match witness {
            None => link,
            Some((witness, connection)) => Arc::new(WitnessedLink::new(link, connection, witness)),
        }
    }

    fn was_heard_lately(&self, link: &RedisLink, now: Moment) -> bool {
        link.connection.idle(now) < self.plan.settings.health_check_interval * 3
    }

    /// Creates a runtime's connections and the caretaker task that checks them.
    fn welcome(self: &Arc<Self>, here: &Handle) -> Result<Arc<Links>, CommandError> {
        command_error::runtime_with_timers()?;
        let links = self.insert(here.id());
        links.caretaker.get_or_init(|| {
            let departure = Departure {
                supervisor: Arc::downgrade(self),
                runtime: here.id(),
            };
            // A runtime that is shutting down drops this task at once, which removes the entry
            // again.
            here.spawn(look_after(departure)).abort_handle()
        });
        links.witness.iter().for_each(|witness| {
            here.spawn(witness.clone().connect());
        });
        Ok(links)
    }

    fn known(&self, runtime: Id) -> Option<Arc<Links>> {
        let runtimes = self.runtimes.lock().unwrap_or_else(PoisonError::into_inner);
        find(&runtimes, runtime).map(|(_, links)| links.clone())
    }

    fn insert(&self, runtime: Id) -> Arc<Links> {
        let mut runtimes = self.runtimes.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, links)) = find(&runtimes, runtime) {
            return links.clone();
        }
        let links = Arc::new(Links {
            slots: (0..self.plan.settings.connections)
                .map(|_| Arc::default())
                .collect(),
            checkouts: self.plan.settings.without_scripts.then(Arc::default),
            witness: Witness::of(&self.plan),
            caretaker: OnceLock::new(),
        });
        runtimes.push((runtime, links.clone()));
        links
    }

    fn forget(&self, runtime: Id) {
        let mut runtimes = self.runtimes.lock().unwrap_or_else(PoisonError::into_inner);
        let at = runtimes.iter().position(|(id, _)| *id == runtime);
        let gone = at.map(|at| runtimes.swap_remove(at));
        drop(runtimes); // dropping the links may take a while, so not under the lock
        drop(gone);
    }
}

fn find(runtimes: &[(Id, Arc<Links>)], runtime: Id) -> Option<&(Id, Arc<Links>)> {
    runtimes.iter().find(|(id, _)| *id == runtime)
}

impl Links {
    /// The slot that carries commands about this key.
    fn slot(&self, key: &str) -> Option<&Arc<Slot>> {
        if let [only] = &*self.slots {
            return Some(only);
        }
        let mut hasher = DefaultHasher::new();
        key.hash(&mut hasher);
        let slots = u64::try_from(self.slots.len()).unwrap_or(1);
        let index = usize::try_from(hasher.finish() % slots.max(1)).unwrap_or(0);
        self.slots.get(index)
    }
}

impl Drop for Links {
    fn drop(&mut self) {
        if let Some(caretaker) = self.caretaker.get() {
            caretaker.abort();
        }
        // Whoever waits for one of these has these links.
        self.slots.iter().for_each(|slot| slot.abandon());
    }
}

/// How often a runtime looks whether it is connected to a node of a quorum.
const LOOKS_FOR_A_NODE: Duration = Duration::from_secs(1);

/// Checks idle connections; an idle connection that stays silent twice in a row is given up. A node
/// of a quorum is connected to again: a lock that is held may need its answer, and no command about
/// it waits for a connection.
async fn look_after(departure: Departure) {
    loop {
        let Some(supervisor) = departure.supervisor.upgrade() else {
            return;
        };
        let settings = &supervisor.plan.settings;
        let (pause, within) = (settings.health_check_interval, settings.command_timeout);
        let node = supervisor
            .plan
            .node
            .is_some()
            .then(|| supervisor.plan.clone());
        drop(supervisor);
        let sleep = node.as_ref().map_or(pause, |_| pause.min(LOOKS_FOR_A_NODE));
        tokio::time::sleep(sleep).await;
        let Some(links) = departure.links() else {
            return;
        };
        if let Some(plan) = &node {
            links.slots.iter().for_each(|slot| slot.begin(plan));
        }
        for link in links.all().filter_map(|slot| slot.live()) {
            while link.connection.is_usable()
                && link.connection.idle(link.connection.clock.now()) >= pause
                && link.connection.refresh(within).await.is_err()
            {}
        }
    }
}

/// Removes a runtime's connections when its caretaker task is dropped, at the latest when the
/// runtime is.
struct Departure {
    supervisor: Weak<Supervisor>,
    runtime: Id,
}

impl Departure {
    fn links(&self) -> Option<Arc<Links>> {
        self.supervisor.upgrade()?.known(self.runtime)
    }
}

impl Drop for Departure {
    fn drop(&mut self) {
        // A forked child drops the tasks of the runtime that it inherited, too, but the table
        // belongs to the parent.
        if let Some(supervisor) = self.supervisor.upgrade()
            && !supervisor.home.is_elsewhere()
        {
            supervisor.forget(self.runtime);
        }
    }
}
