//! A pool's connections to PostgreSQL: one for each tokio runtime, made again when it breaks, checked when
//! it is idle, and dropped with its runtime or the pool.
//!
//! `connections` is not heeded: statements of all callers follow each other on one connection.

use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};
use std::time::Duration;

use tokio::runtime::{Handle, Id};
use tokio::task::AbortHandle;
use tokio::time::Instant;

use crate::link::clock::Clock;
use crate::link::command_error::{self, CommandError};
use crate::link::offers::Offers;
use crate::link::postgres::{PostgresLink, PostgresPlan};
use crate::link::{Answer, Backend, Link, Listener, WatchdogKind};
use crate::topology::server::slot::{Slot, Slotted};
use crate::values::config::{PostgresAddress, Settings};
use crate::values::moment::Moment;
use crate::values::process::Home;

#[derive(Debug)]
pub(crate) struct Postgres(Arc<PostgresPool>);

#[derive(Debug)]
struct PostgresPool {
    home: Home,
    plan: Arc<PostgresPlan>,
    /// A handful of entries.
    runtimes: Mutex<Vec<(Id, Arc<OneLink>)>>,
}

/// The connection of one runtime.
#[derive(Debug, Default)]
struct OneLink {
    slot: Arc<Slot<PostgresLink>>,
    /// The task that checks it while it is idle.
    caretaker: OnceLock<AbortHandle>,
}

impl Drop for OneLink {
    fn drop(&mut self) {
        if let Some(caretaker) = self.caretaker.get() {
            caretaker.abort();
        }
        self.slot.abandon();
    }
}

impl Slotted for PostgresLink {
    type Plan = PostgresPlan;

    async fn connect(plan: &PostgresPlan) -> Result<Self, CommandError> {
        plan.connect().await
    }

    fn is_usable(&self) -> bool {
        self.works()
    }

    fn has_answered(&self) -> bool {
        (**self).has_answered()
    }
}

impl Postgres {
    pub(crate) fn new(address: &Arc<PostgresAddress>, settings: &Arc<Settings>) -> Self {
        Self(Arc::new(PostgresPool {
            home: Home::here(),
            plan: Arc::new(PostgresPlan::new(address, settings, Clock::real())),
            runtimes: Mutex::default(),
        }))
    }
}

impl PostgresPool {
    fn all(&self) -> Vec<Arc<OneLink>> {
        let runtimes = self.runtimes.lock().unwrap_or_else(PoisonError::into_inner);
        runtimes.iter().map(|(_, link)| link.clone()).collect()
    }

    fn known(&self, runtime: Id) -> Option<Arc<OneLink>> {
        let runtimes = self.runtimes.lock().unwrap_or_else(PoisonError::into_inner);
        let known = runtimes.iter().find(|(id, _)| *id == runtime);
        known.map(|(_, link)| link.clone())
    }

    /// The place of a runtime's connection, with the task that looks after it.
    fn welcome(self: &Arc<Self>, runtime: &Handle) -> Result<Arc<OneLink>, CommandError> {
        if let Some(known) = self.known(runtime.id()) {
            return Ok(known);
        }
        command_error::runtime_with_timers()?;
        let mut runtimes = self.runtimes.lock().unwrap_or_else(PoisonError::into_inner);
        let known = runtimes.iter().find(|(id, _)| *id == runtime.id());
        let link = known.map_or_else(Arc::<OneLink>::default, |(_, link)| link.clone());
        if known.is_none() {
            runtimes.push((runtime.id(), link.clone()));
        }
        drop(runtimes);
        link.caretaker.get_or_init(|| {
            let departure = LinkDeparture {
                pool: Arc::downgrade(self),
                runtime: runtime.id(),
            };
            // A runtime that is shutting down drops this task at once.
            runtime.spawn(look_after(departure)).abort_handle()
        });
        Ok(link)
    }

    fn forget(&self, runtime: Id) {
        let mut runtimes = self.runtimes.lock().unwrap_or_else(PoisonError::into_inner);
        let at = runtimes.iter().position(|(id, _)| *id == runtime);
        let gone = at.map(|at| runtimes.swap_remove(at));
        drop(runtimes); // before what it had is dropped
        drop(gone);
    }

    fn was_heard_lately(&self, link: &PostgresLink, now: Moment) -> bool {
        link.idle(now) < self.plan.settings.health_check_interval * 3
    }

    async fn link(self: &Arc<Self>, within: Duration) -> Result<Arc<PostgresLink>, CommandError> {
        let place = self.welcome(&command_error::current_runtime()?)?;
        let link = place.slot.link(&self.plan, within).await?;
        if self.was_heard_lately(&link, self.plan.clock.now()) {
            return Ok(link);
        }
        // The runtime stood still, and its caretaker with it.
        let _ = link
            .ping(within.min(self.plan.settings.command_timeout))
            .await;
        if link.works() {
            return Ok(link);
        }
        place.slot.link(&self.plan, within).await
    }
}

impl Backend for Postgres {
    fn clock(&self) -> Clock {
        self.0.plan.clock
    }

    fn offers(&self) -> Offers {
        Offers::Postgres
    }

    fn watchdog(&self) -> WatchdogKind {
        WatchdogKind::Thread
    }

    fn listen(&self, listener: Weak<dyn Listener>) {
        self.0.plan.listen(listener);
    }

    fn ready(&self, _: &str, now: Moment) -> Option<Arc<dyn Link>> {
        let here = Handle::try_current().ok()?;
        let link = self.0.known(here.id())?.slot.usable()?;
        self.0
            .was_heard_lately(&link, now)
            .then_some(link as Arc<dyn Link>)
    }

    fn connect<'a>(&'a self, _: &'a str, within: Duration) -> Answer<'a, Arc<dyn Link>> {
        Box::pin(async move { Ok(self.0.link(within).await? as Arc<dyn Link>) })
    }

    fn prepare(&self, runtime: &Handle, _: &str) {
        let _inside = runtime.enter();
        // An error is that of the command that needs the connection.
        if let Ok(place) = self.0.welcome(runtime)
            && !place.slot.works()
        {
            place.slot.begin(&self.0.plan);
        }
    }

    fn any_ready(&self, _: &str) -> Option<Arc<dyn Link>> {
        let now = self.0.plan.clock.now();
        let all = self.0.all();
        let usable = all.iter().filter_map(|it| it.slot.usable());
        let last = usable.min_by_key(|link| link.idle(now))?;
        Some(last)
    }

    fn connections(&self) -> usize {
        let all = self.0.all();
        all.iter().filter(|it| it.slot.live().is_some()).count()
    }
}

/// How often the rows are swept that nobody uses any more.
const SWEEPS: Duration = Duration::from_secs(3600);

/// Asks an idle connection for a sign of life, and sweeps.
async fn look_after(departure: LinkDeparture) {
    let mut next_sweep = Instant::now();
    loop {
        let Some(pool) = departure.pool.upgrade() else {
            return;
        };
        let settings = pool.plan.settings.clone();
        let clock = pool.plan.clock;
        drop(pool);
        tokio::time::sleep(settings.health_check_interval).await;
        let Some(pool) = departure.pool.upgrade() else {
            return;
        };
        let Some(place) = pool.known(departure.runtime) else {
            return;
        };
        drop(pool);
        if let Some(link) = place.slot.live() {
            if Instant::now() >= next_sweep && link.sweep(settings.command_timeout).await.is_ok() {
                next_sweep = Instant::now() + SWEEPS;
            }
            while link.works()
                && link.idle(clock.now()) >= settings.health_check_interval
                && link.ping(settings.command_timeout).await.is_err()
            {}
        }
    }
}

/// Removes a runtime's connection when its caretaker is dropped, at the latest when the runtime is.
struct LinkDeparture {
    pool: Weak<PostgresPool>,
    runtime: Id,
}

impl Drop for LinkDeparture {
    fn drop(&mut self) {
        // A forked child drops the tasks that it inherited, too, but the table is the parent's.
        if let Some(pool) = self.pool.upgrade()
            && !pool.home.is_elsewhere()
        {
            pool.forget(self.runtime);
        }
    }
}
