//! The figures of a run: counted while it runs, shown in the progress line, and at its end a row of
//! the table.

use std::io::{IsTerminal as _, Write as _};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use super::error::MarketError;
use super::goods::{Buying, Listing};
use super::load::Size;

/// The answers that all participants got.
#[derive(Default)]
pub(crate) struct Tally {
    listed: AtomicU64,
    relisted: AtomicU64,
    bought: AtomicU64,
    price_changed: AtomicU64,
    not_enough_money: AtomicU64,
    already_sold: AtomicU64,
    retries: AtomicU64,
}

impl Tally {
    /// Counts an attempt's answer. `None`: a concurrent move prevented it, or the lock stayed busy
    /// for the whole `wait`; it is repeated.
    pub(crate) fn answer<T>(
        &self,
        attempt: Result<Option<T>, MarketError>,
    ) -> Result<Option<T>, MarketError> {
        let answer = match attempt {
            Err(MarketError::Lock(error)) if error.is_busy() => None,
            other => other?,
        };
        if answer.is_none() {
            add(&self.retries);
        }
        Ok(answer)
    }

    pub(crate) fn listing(&self, listing: Listing) {
        add(match listing {
            Listing::Listed => &self.listed,
            Listing::Repriced | Listing::Gone => &self.relisted,
        });
    }

    pub(crate) fn buying(&self, buying: Buying) {
        add(match buying {
            Buying::Bought => &self.bought,
            Buying::PriceChanged => &self.price_changed,
            Buying::NotEnoughMoney => &self.not_enough_money,
            Buying::AlreadySold => &self.already_sold,
        });
    }
}

fn add(count: &AtomicU64) {
    count.fetch_add(1, Ordering::Relaxed);
}

fn read(count: &AtomicU64) -> u64 {
    count.load(Ordering::Relaxed)
}

/// A run, and its row.
#[derive(Debug, Clone)]
pub(crate) struct Report {
    pub(crate) way: &'static str,
    pub(crate) size: Size,
    pub(crate) listed: u64,
    pub(crate) bought: u64,
    pub(crate) price_changed: u64,
    pub(crate) not_enough_money: u64,
    pub(crate) already_sold: u64,
    pub(crate) retries: u64,
    /// Of completed purchases, each with all its attempts.
    pub(crate) mean: Duration,
    pub(crate) p99: Duration,
    /// Listings and purchases that were answered, with whatever answer.
    pub(crate) per_second: u64,
    /// How many items the audit counted.
    pub(crate) items: u64,
}

impl Report {
    pub(crate) fn new(
        way: &'static str,
        size: Size,
        took: Duration,
        items: u64,
        tally: &Tally,
        mut times: Vec<Duration>,
    ) -> Self {
        times.sort_unstable();
        let all: Duration = times.iter().sum();
        let count = u32::try_from(times.len()).unwrap_or(u32::MAX);
        let p99 = times.get(times.len() * 99 / 100);
        let mut report = Self {
            way,
            size,
            listed: read(&tally.listed),
            bought: read(&tally.bought),
            price_changed: read(&tally.price_changed),
            not_enough_money: read(&tally.not_enough_money),
            already_sold: read(&tally.already_sold),
            retries: read(&tally.retries),
            mean: all.checked_div(count).unwrap_or_default(),
            p99: p99.copied().unwrap_or_default(),
            per_second: 0,
            items,
        };
        let answers = report.listed + read(&tally.relisted) + report.bought + report.refused();
        let millis = u64::try_from(took.as_millis()).unwrap_or(u64::MAX);
        report.per_second = answers * 1000 / millis.max(1);
        report
    }

    /// Purchases that were refused.
    pub(crate) fn refused(&self) -> u64 {
        self.price_changed + self.not_enough_money + self.already_sold
    }

    pub(crate) const HEAD: &'static str = "\
| way | sellers/buyers | listed | bought | retries | mean buy, ms | p99 buy, ms | requests/s | price changed | not enough money | already sold |
| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |";

    pub(crate) fn row(&self) -> String {
        let Self {
            way,
            size,
            listed,
            bought,
            retries,
            per_second,
            price_changed,
            not_enough_money,
            already_sold,
            ..
        } = self;
        let (mean, p99) = match bought {
            0 => ("–".to_owned(), "–".to_owned()),
            _ => (millis(self.mean), millis(self.p99)),
        };
        format!(
            "| {way} | {size} | {listed} | {bought} | {retries} | {mean} | {p99} | {per_second} | {price_changed} | {not_enough_money} | {already_sold} |"
        )
    }
}

/// Explains the columns.
pub(crate) const LEGEND: &str = "  listed         items that came on the market; a new price for one that is there already is not counted here
  bought         purchases that were made
  retries        attempts that met somebody else and were made again: what was watched had changed, or the lock was busy for 5 s
  mean, p99 buy  how long a purchase that was made took, in ms: its wait for the lock and its retries are in it
  requests/s     listings, new prices and purchases that were answered, with a yes or a no, per second; retries and looks at the
                 offers are not counted
  price changed, not enough money, already sold
                 purchases that were answered with a no, and why
";

fn millis(time: Duration) -> String {
    format!("{:.2}", time.as_secs_f64() * 1000.0)
}

/// Writes the progress line on stderr over the last one. If stderr is no terminal, only [`begin`]
/// prints.
pub(crate) fn progress(way: &str, size: Size, passed: Duration, length: Duration, tally: &Tally) {
    let mut stderr = std::io::stderr().lock();
    if stderr.is_terminal() {
        let (passed, length) = (passed.as_secs_f64(), length.as_secs());
        let [listed, bought, retries] = [&tally.listed, &tally.bought, &tally.retries].map(read);
        // A line that can't be written is no reason to stop.
        let _ = write!(
            stderr,
            "{OVER}{way}, {size}: {passed:.1} of {length} s, {listed} listed, {bought} bought, {retries} retries"
        )
        .and_then(|()| stderr.flush());
    }
}

pub(crate) fn begin(way: &str, size: Size, length: Duration) {
    if !std::io::stderr().is_terminal() {
        eprintln!("{way}, {size}: {} s …", length.as_secs());
    }
}

/// Removes the progress line.
pub(crate) fn clear_line() {
    let mut stderr = std::io::stderr().lock();
    if stderr.is_terminal() {
        let _ = write!(stderr, "{OVER}").and_then(|()| stderr.flush());
    }
}

/// Returns to the start of the line, and clears it.
const OVER: &str = "\r\x1b[K";
