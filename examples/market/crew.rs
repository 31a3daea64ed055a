//! What sellers and buyers do, the same in every way. A move that a concurrent one prevented is
//! repeated.

use std::ops::RangeInclusive;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use fastrand::Rng;

use super::error::MarketError;
use super::goods::{Buying, Cents, Item, Offer, Sale, User};
use super::report::Tally;
use super::ways::Way;

/// A buyer's initial funds. A seller begins with nothing.
pub(crate) const PURSE: Cents = Cents(1_000_000_000);

/// Most items cost up to a hundred; one in `RARE` costs more than any buyer has.
const PRICES: RangeInclusive<i64> = 100..=10_000;
const BEYOND: Cents = Cents(2 * PURSE.0);
const RARE: u32 = 64;

/// One turn in this many, a seller changes the price of an item of its own, if one is among the
/// cheapest.
const REPRICES: u32 = 8;

/// New items come in batches.
const BATCH: u64 = 100;

/// A buyer's pause if the market is empty.
const EMPTY: Duration = Duration::from_millis(1);

/// When the participants of a run stop.
#[derive(Clone)]
pub(crate) struct Shift {
    end: Instant,
    told: Arc<AtomicBool>,
    failed: Arc<AtomicBool>,
}

impl Shift {
    pub(crate) fn new(end: Instant, told: &Arc<AtomicBool>) -> Self {
        Self {
            end,
            told: told.clone(),
            failed: Arc::default(),
        }
    }

    /// A participant failed, so all stop.
    pub(crate) fn fail(&self) {
        self.failed.store(true, Ordering::Relaxed);
    }

    fn over(&self) -> bool {
        let set = |flag: &AtomicBool| flag.load(Ordering::Relaxed);
        Instant::now() >= self.end || set(&self.told) || set(&self.failed)
    }
}

/// What a participant did; empty for a seller.
#[derive(Default)]
pub(crate) struct Bag {
    pub(crate) sales: Vec<Sale>,
    /// How long each purchase took, with all its attempts.
    pub(crate) times: Vec<Duration>,
}

pub(crate) async fn sell<W: Way>(
    mut way: W,
    seller: User,
    tally: Arc<Tally>,
    shift: Shift,
) -> Result<Bag, MarketError> {
    let mut dice = dice(seller);
    let mut stock = 0..0;
    while !shift.over() {
        let own = if dice.u32(..REPRICES) == 0 {
            let offers = way.stall().look().await?;
            offers.into_iter().find(|offer| offer.seller == seller)
        } else {
            None
        };
        if stock.is_empty() {
            stock = way.stall().stock(seller, BATCH).await?;
        }
        let Some(id) = own.map(|offer| offer.id).or_else(|| stock.next().map(Item)) else {
            continue; // there is stock after all
        };
        let price = match dice.u32(..RARE) {
            0 => BEYOND,
            _ => Cents(dice.i64(PRICES)),
        };
        let offer = Offer { id, seller, price };
        loop {
            if let Some(listing) = tally.answer(way.list(offer).await)? {
                tally.listing(listing);
                break;
            }
            if shift.over() {
                break;
            }
        }
    }
    Ok(Bag::default())
}

pub(crate) async fn buy<W: Way>(
    mut way: W,
    buyer: User,
    tally: Arc<Tally>,
    shift: Shift,
) -> Result<Bag, MarketError> {
    let mut dice = dice(buyer);
    let mut bag = Bag::default();
    while !shift.over() {
        let offers = way.stall().look().await?;
        let Some(offer) = dice.choice(offers) else {
            tokio::time::sleep(EMPTY).await;
            continue;
        };
        let begun = Instant::now();
        loop {
            if let Some(buying) = tally.answer(way.buy(buyer, offer).await)? {
                tally.buying(buying);
                if buying == Buying::Bought {
                    bag.times.push(begun.elapsed());
                    bag.sales.push(Sale { offer, buyer });
                }
                break;
            }
            if shift.over() {
                break;
            }
        }
    }
    Ok(bag)
}

/// A random generator for this user, with the same numbers in each run.
fn dice(user: User) -> Rng {
    Rng::with_seed(u64::try_from(user.0).unwrap_or(0))
}
