//! One run: sellers list and buyers buy as fast as they can, then the audit. The same code for
//! every way.
//!
//! Each participant has its own connection and, in the ways with locks, its own pool, like a
//! separate process: tasks that share a pool hand a lock on among themselves without the server
//! (`docs/inside/protocol.md`), which would make the locks look better here.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use dlock_runtime::Config;
use tokio::task::JoinSet;

use super::audit;
use super::crew::{self, Bag, Shift};
use super::error::MarketError;
use super::goods::{Sale, User};
use super::report::{self, Report, Tally};
use super::stall::{Market, Stall};
use super::ways::Way;

/// How often the progress line is written again.
const TICK: Duration = Duration::from_millis(200);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Size {
    pub(crate) sellers: usize,
    pub(crate) buyers: usize,
}

impl Size {
    pub(crate) const fn new(sellers: usize, buyers: usize) -> Self {
        Self { sellers, buyers }
    }

    pub(crate) fn sellers(self) -> impl Iterator<Item = User> {
        (0..self.sellers).map(User)
    }

    pub(crate) fn buyers(self) -> impl Iterator<Item = User> {
        (self.sellers..self.sellers + self.buyers).map(User)
    }
}

impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.sellers, self.buyers)
    }
}

/// The server of the runs, and how long each lasts.
#[derive(Clone)]
pub(crate) struct Place {
    pub(crate) url: String,
    pub(crate) locks: Config,
    pub(crate) length: Duration,
    /// Set to end a run early; its results still count.
    pub(crate) told: Arc<AtomicBool>,
}

/// Runs one way with these participants, audits the market, and deletes it in any case.
pub(crate) async fn run<W: Way>(place: &Place, size: Size) -> Result<Report, MarketError> {
    let market = Market::new();
    let mut stall = Stall::open(&place.url, &market).await?;
    let ran = trade::<W>(place, size, &mut stall).await;
    // An error of the run comes before one of the clean-up, which may only follow from it.
    let cleared = audit::clear(&mut stall, size).await;
    ran.and_then(|report| cleared.map(|()| report))
}

async fn trade<W: Way>(
    place: &Place,
    size: Size,
    stall: &mut Stall,
) -> Result<Report, MarketError> {
    audit::endow(stall, size).await?;
    let tally = Arc::new(Tally::default());
    let (sellers, buyers) = participants::<W>(place, size, stall.market()).await?;

    report::begin(W::NAME, size, place.length);
    let begun = Instant::now();
    let shift = Shift::new(begun + place.length, &place.told);
    let mut tasks = JoinSet::new();
    for (user, way) in sellers {
        tasks.spawn(crew::sell(way, user, tally.clone(), shift.clone()));
    }
    for (user, way) in buyers {
        tasks.spawn(crew::buy(way, user, tally.clone(), shift.clone()));
    }
    let bags = gather(tasks, &shift, || {
        report::progress(W::NAME, size, begun.elapsed(), place.length, &tally);
    })
    .await?;
    let took = begun.elapsed();

    let sales: Vec<Sale> = bags.iter().flat_map(|bag| bag.sales.clone()).collect();
    let found = audit::audit(stall, size, &sales).await?;
    if !found.is_empty() {
        let way = W::NAME;
        return Err(MarketError::Books { way, size, found });
    }
    let times = bags.into_iter().flat_map(|bag| bag.times).collect();
    let items = stall.market().made();
    Ok(Report::new(W::NAME, size, took, items, &tally, times))
}

type Crew<W> = Vec<(User, W)>;

/// Connects all participants before the first one begins.
async fn participants<W: Way>(
    place: &Place,
    size: Size,
    market: &Market,
) -> Result<(Crew<W>, Crew<W>), MarketError> {
    let open = async |user| {
        let stall = Stall::open(&place.url, market).await?;
        let locks = place.locks.clone().namespace(market.namespace());
        Ok::<_, MarketError>((user, W::open(stall, locks).await?))
    };
    let (mut sellers, mut buyers) = (Vec::new(), Vec::new());
    for user in size.sellers() {
        sellers.push(open(user).await?);
    }
    for user in size.buyers() {
        buyers.push(open(user).await?);
    }
    Ok((sellers, buyers))
}

/// Collects the bags of all participants. The first error ends the run for the others. An error of
/// a lock is reported rather than one of a command, because it says what to do.
async fn gather(
    mut tasks: JoinSet<Result<Bag, MarketError>>,
    shift: &Shift,
    mut tick: impl FnMut(),
) -> Result<Vec<Bag>, MarketError> {
    let (mut bags, mut failure) = (Vec::new(), None);
    let mut ticks = tokio::time::interval(TICK);
    loop {
        let ended = tokio::select! {
            ended = tasks.join_next() => ended,
            _ = ticks.tick() => {
                tick();
                continue;
            }
        };
        match ended.map(|ended| ended.map_err(MarketError::from).and_then(|bag| bag)) {
            None => return failure.map_or(Ok(bags), Err),
            Some(Ok(bag)) => bags.push(bag),
            Some(Err(error)) => {
                shift.fail();
                if failure.is_none() || matches!(error, MarketError::Lock(_)) {
                    failure = Some(error);
                }
            }
        }
    }
}
