//! Reads the command line.

use std::path::PathBuf;
use std::time::Duration;

use crate::error::MarketError;

/// The text of `--help`, above [`LEGEND`](crate::report::LEGEND).
pub(crate) const HELP: &str = "\
A marketplace: sellers list items, buyers buy them, and after each run the books are audited. In up to three ways, each with
1/1, 5/1 and 5/5 sellers/buyers, all as fast as they can:

    cargo run --release -p dlock-examples --example market [-- OPTIONS]

  --way watch    by WATCH/MULTI/EXEC, without a lock: look, then let Redis refuse the write if any offer came or went meanwhile
  --way market   under one lock, `market`, for every listing and every purchase
  --way item     under a lock for each item: #[distributed_lock(key = \"item:<offer.id>\", …)]
                 Default: all three, one after the other.
  --seconds N    how long each run lasts, in whole seconds, 1 to 60. Default: 3, so 27 s for all nine runs.
  --svg FILE     writes the figures into FILE as a chart too, for any browser; a file that is there is replaced.
  -h, --help     this text

It starts a redis-server of its own. DLOCK_URL=redis://host:6379 names another; what a run wrote there is deleted after it.
Ctrl-C ends the run in hand, and what was run is told.

The table:
";

/// The ways, by their names on the command line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Watch,
    Market,
    Item,
}

impl Kind {
    pub(crate) const ALL: [Self; 3] = [Self::Watch, Self::Market, Self::Item];
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Plan {
    pub(crate) length: Duration,
    pub(crate) ways: Vec<Kind>,
    pub(crate) svg: Option<PathBuf>,
}

impl Plan {
    pub(crate) fn parse(words: impl IntoIterator<Item = String>) -> Result<Self, MarketError> {
        let mut plan = Self {
            length: Duration::from_secs(3),
            ways: Kind::ALL.to_vec(),
            svg: None,
        };
        let mut words = words.into_iter();
        while let Some(flag) = words.next() {
            if !["--seconds", "--way", "--svg"].contains(&flag.as_str()) {
                return Err(MarketError::Arguments(format!("`{flag}` is no argument")));
            }
            let Some(word) = words.next() else {
                return Err(MarketError::Arguments(format!("{flag} needs a value")));
            };
            let refused = |why: &str| MarketError::Arguments(format!("{flag} {word}: {why}"));
            match (flag.as_str(), word.as_str()) {
                ("--seconds", _) => {
                    let seconds = word.parse().ok().filter(|it| (1..=60).contains(it));
                    let seconds = seconds.ok_or_else(|| refused("not a whole number, 1 to 60"))?;
                    plan.length = Duration::from_secs(seconds);
                }
                ("--svg", _) => plan.svg = Some(word.into()),
                (_, "watch") => plan.ways = vec![Kind::Watch],
                (_, "market") => plan.ways = vec![Kind::Market],
                (_, "item") => plan.ways = vec![Kind::Item],
                _ => return Err(refused("not one of the ways")),
            }
        }
        Ok(plan)
    }
}
