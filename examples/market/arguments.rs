//! The command line, read once.

use std::path::PathBuf;
use std::time::Duration;

use crate::error::MarketError;

/// Which way, by its word on the command line.
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
