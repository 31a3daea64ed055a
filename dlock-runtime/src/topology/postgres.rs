//! A pool's connections to PostgreSQL: one for each tokio runtime, made again when it breaks, checked when
//! it is idle, and dropped with its runtime or the pool.
//!
//! `connections` is not heeded: statements of all callers follow each other on one connection.

use std::sync::{Arc, Weak};
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::time::Instant;

use crate::link::clock::Clock;
use crate::link::command_error::{self, CommandError};
use crate::link::offers::Offers;
use crate::link::postgres::{PostgresLink, PostgresPlan};
use crate::link::{Answer, Backend, Link, Listener, WatchdogKind};
use crate::topology::runtimes::{Departure, RuntimeShare, Runtimes};
use crate::topology::server::slot::{Slot, Slotted};
use crate::values::config::{PostgresAddress, Settings};
use crate::values::moment::Moment;

#[derive(Debug)]
pub(crate) struct Postgres {
    plan: Arc<PostgresPlan>,
    runtimes: Arc<Runtimes<OneLink>>,
}

/// The connection of one runtime.
#[derive(Debug, Default)]
struct OneLink(Arc<Slot<PostgresLink>>);

impl Drop for OneLink {
    fn drop(&mut self) {
        self.0.abandon();
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
        Self {
            plan: Arc::new(PostgresPlan::new(address, settings, Clock::real())),
            runtimes: Runtimes::new(),
        }
    }

    /// The place of a runtime's connection, with the task that looks after it.
    fn welcome(&self, runtime: &Handle) -> Result<Arc<RuntimeShare<OneLink>>, CommandError> {
        if let Some(known) = self.runtimes.known(runtime.id()) {
            return Ok(known);
        }
        let plan = self.plan.clone();
        self.runtimes
            .welcome(runtime, OneLink::default, |it| look_after(it, plan))
    }

    fn was_heard_lately(&self, link: &PostgresLink, now: Moment) -> bool {
        link.idle(now) < self.plan.settings.health_check_interval * 3
    }

    async fn link(&self, within: Duration) -> Result<Arc<PostgresLink>, CommandError> {
        let place = self.welcome(&command_error::current_runtime()?)?;
        let link = place.0.link(&self.plan, within).await?;
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
        place.0.link(&self.plan, within).await
    }
}

impl Backend for Postgres {
    fn clock(&self) -> Clock {
        self.plan.clock
    }

    fn offers(&self) -> Offers {
        Offers::Postgres
    }

    fn watchdog(&self) -> WatchdogKind {
        WatchdogKind::Thread
    }

    fn listen(&self, listener: Weak<dyn Listener>) {
        self.plan.listen(listener);
    }

    fn ready(&self, _: &str, now: Moment) -> Option<Arc<dyn Link>> {
        let here = Handle::try_current().ok()?;
        let link = self.runtimes.look(here.id(), |it| it.0.usable())?;
        self.was_heard_lately(&link, now)
            .then_some(link as Arc<dyn Link>)
    }

    fn connect<'a>(&'a self, _: &'a str, within: Duration) -> Answer<'a, Arc<dyn Link>> {
        Box::pin(async move { Ok(self.link(within).await? as Arc<dyn Link>) })
    }

    fn prepare(&self, runtime: &Handle, _: &str) {
        let _inside = runtime.enter();
        // An error is that of the command that needs the connection.
        if let Ok(place) = self.welcome(runtime)
            && !place.0.works()
        {
            place.0.begin(&self.plan);
        }
    }

    fn any_ready(&self, _: &str) -> Option<Arc<dyn Link>> {
        let now = self.plan.clock.now();
        let all = self.runtimes.all();
        let usable = all.iter().filter_map(|it| it.0.usable());
        let last = usable.min_by_key(|link| link.idle(now))?;
        Some(last)
    }

    fn connections(&self) -> usize {
        let all = self.runtimes.all();
        all.iter().filter(|it| it.0.live().is_some()).count()
    }
}

/// How often the rows are swept that nobody uses any more.
const SWEEPS: Duration = Duration::from_secs(3600);

/// Asks an idle connection for a sign of life, and sweeps.
async fn look_after(departure: Departure<OneLink>, plan: Arc<PostgresPlan>) {
    let (pause, within) = (
        plan.settings.health_check_interval,
        plan.settings.command_timeout,
    );
    let mut next_sweep = Instant::now();
    loop {
        tokio::time::sleep(pause).await;
        let Some(place) = departure.kept() else {
            return;
        };
        let Some(link) = place.0.live() else {
            continue;
        };
        if Instant::now() >= next_sweep {
            let _ = link.sweep(within).await; // the next one does the rest
            next_sweep = Instant::now() + SWEEPS;
        }
        while link.works()
            && link.idle(plan.clock.now()) >= pause
            && link.ping(within).await.is_err()
        {}
    }
}
