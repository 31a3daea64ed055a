//! Keeps the connections of a pool alive: each tokio runtime has its own, rebuilt when they break,
//! checked when they are idle, and closed when the runtime or the pool ends (`runtimes`).

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;

use tokio::runtime::Handle;

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
use crate::topology::runtimes::{Departure, RuntimeShare, Runtimes};
use crate::topology::sentinel;
use crate::topology::witness::{Witness, WitnessedLink};
use crate::values::config::{Endpoint, RedisAddress, Settings};
use crate::values::error::Reason;
use crate::values::moment::Moment;

#[derive(Debug)]
pub(crate) struct Supervisor {
    plan: Arc<Plan>,
    runtimes: Arc<Runtimes<Links>>,
}

/// The connections of one tokio runtime.
#[derive(Debug)]
struct Links {
    slots: Vec<Arc<Slot>>,
    /// For transactions, on a server without scripts.
    checkouts: Option<Arc<Checkouts>>,
    /// Asks for replicas, if the pool does.
    witness: Option<Arc<Witness>>,
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
            runtimes: Runtimes::new(),
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
        let links = self.runtimes.all();
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

    fn ready_link<T>(
        &self,
        key: &str,
        now: Moment,
        speaking: impl FnOnce(&Links, Arc<RedisLink>) -> T,
    ) -> Option<T> {
        let here = Handle::try_current().ok()?;
        self.runtimes.look(here.id(), |links| {
            // A broken link stays where it is: its drop may take a while.
            let link = links.slot(key)?.usable()?;
            self.was_heard_lately(&link, now)
                .then(|| speaking(links, link))
        })
    }

    /// Begins to connect in another runtime, unless the connection for this key works there.
    pub(crate) fn prepare(&self, runtime: &Handle, key: &str) {
        let works = |links: &Arc<RuntimeShare<Links>>| Some(links.slot(key)?.works());
        if self.runtimes.look(runtime.id(), works) == Some(true) {
            return; // mostly, so nothing is cloned before
        }
        let _inside = runtime.enter();
        let links = self.welcome(runtime);
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

    fn heard_last(&self) -> Option<(Arc<RuntimeShare<Links>>, Arc<RedisLink>)> {
        let now = self.plan.clock.now();
        let all = self.runtimes.all();
        let usable = all.iter().flat_map(|links| {
            let usable = links.slots.iter().filter_map(|slot| slot.usable());
            usable.map(|link| (links.clone(), link))
        });
        usable.min_by_key(|(_, link)| link.connection.idle(now))
    }

    /// The current runtime's connection for this key; connects if necessary.
    pub(crate) async fn link(
        &self,
        key: &str,
        within: Duration,
    ) -> Result<Arc<dyn Link>, CommandError> {
        let (links, link) = self.made_link(key, within).await?;
        Ok(self.speaking(&links, link))
    }

    /// The same, as a node of a quorum.
    pub(super) async fn node(
        &self,
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
        &self,
        key: &str,
        within: Duration,
    ) -> Result<Arc<RedisLink>, CommandError> {
        Ok(self.made_link(key, within).await?.1)
    }

    async fn made_link(
        &self,
        key: &str,
        within: Duration,
    ) -> Result<(Arc<RuntimeShare<Links>>, Arc<RedisLink>), CommandError> {
        let here = command_error::current_runtime()?;
        let links = self.welcome(&here)?;
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

    /// The connections of a runtime, and the caretaker task that checks them.
    fn welcome(&self, here: &Handle) -> Result<Arc<RuntimeShare<Links>>, CommandError> {
        if let Some(known) = self.runtimes.known(here.id()) {
            return Ok(known);
        }
        let plan = self.plan.clone();
        let links = self.runtimes.welcome(
            here,
            || Links {
                slots: (0..plan.settings.connections)
                    .map(|_| Arc::default())
                    .collect(),
                checkouts: plan.settings.without_scripts.then(Arc::default),
                witness: Witness::of(&plan),
            },
            |departure| look_after(departure, plan.clone()),
        )?;
        links.witness.iter().for_each(|witness| {
            here.spawn(witness.clone().connect());
        });
        Ok(links)
    }
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
        // Whoever waits for one of these has these links.
        self.slots.iter().for_each(|slot| slot.abandon());
    }
}

/// How often a runtime looks whether it is connected to a node of a quorum.
const LOOKS_FOR_A_NODE: Duration = Duration::from_secs(1);

/// Checks idle connections; an idle connection that stays silent twice in a row is given up. A node
/// of a quorum is connected to again: a lock that is held may need its answer, and no command about
/// it waits for a connection.
async fn look_after(departure: Departure<Links>, plan: Arc<Plan>) {
    let settings = plan.settings.clone();
    let (pause, within) = (settings.health_check_interval, settings.command_timeout);
    let plan = plan.node.is_some().then_some(plan);
    loop {
        let sleep = plan.as_ref().map_or(pause, |_| pause.min(LOOKS_FOR_A_NODE));
        tokio::time::sleep(sleep).await;
        let Some(links) = departure.kept() else {
            return;
        };
        if let Some(plan) = &plan {
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
