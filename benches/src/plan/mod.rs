//! Reads the command line.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::Failure;

/// Printed after the message about a mistake, and by [`help`].
const USAGE: &str = "arguments: [--quick] [--only w1,w2] [--locks N] [--ttl SECONDS] [--window SECONDS] [--each-way MILLISECONDS] [--out PATH] [--unpinned]";

/// The programs, by their names on the command line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Program {
    W1,
    W2,
    W3,
    W4,
    W5,
    W6,
    W7,
    Growth,
    Hostile,
    Bounds,
    Network,
    Tls,
    Slots,
    Cluster,
    Quorum,
    Postgres,
    Instructions,
}

impl Program {
    const ALL: [(&'static str, Self); 17] = [
        ("w1", Self::W1),
        ("w2", Self::W2),
        ("w3", Self::W3),
        ("w4", Self::W4),
        ("w5", Self::W5),
        ("w6", Self::W6),
        ("w7", Self::W7),
        ("growth", Self::Growth),
        ("hostile", Self::Hostile),
        ("bounds", Self::Bounds),
        ("network", Self::Network),
        ("tls", Self::Tls),
        ("slots", Self::Slots),
        ("cluster", Self::Cluster),
        ("quorum", Self::Quorum),
        ("postgres", Self::Postgres),
        ("instructions", Self::Instructions),
    ];

    /// Whether it can be measured behind a wire.
    pub(crate) fn has_a_wire(self) -> bool {
        matches!(self, Self::W1 | Self::W2 | Self::W3 | Self::W4 | Self::W5)
    }

    fn parse(word: &str) -> Result<Self, Failure> {
        let found = Self::ALL.iter().find(|(name, _)| *name == word);
        found.map(|(_, program)| *program).ok_or_else(|| {
            mistake(&format!(
                "`{word}` is no program; there are {}",
                Self::names()
            ))
        })
    }

    fn names() -> String {
        Self::ALL.map(|(name, _)| name).join(", ")
    }
}

/// How much is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Scale {
    Full,
    /// All programs in less than two minutes: fewer rounds, so wider quartiles.
    Quick,
}

impl Scale {
    pub(crate) fn pick<T>(self, full: T, quick: T) -> T {
        match self {
            Self::Full => full,
            Self::Quick => quick,
        }
    }
}

/// The parameters of W5.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Keep {
    pub(crate) locks: usize,
    pub(crate) ttl: Duration,
    /// How long all locks are held once they are taken.
    pub(crate) window: Duration,
}

impl Keep {
    /// By default, the ttl is 6 s for each begun hundred thousand locks, so that at most 50,000
    /// renewals are due a second, and the window is one ttl, so that each lock is renewed at least
    /// once.
    fn new(locks: usize, ttl: Option<usize>, window: Option<usize>) -> Self {
        let ttl = ttl.unwrap_or(6 * locks.div_ceil(100_000));
        let seconds =
            |number: usize| Duration::from_secs(u64::try_from(number).unwrap_or(u64::MAX));
        Self {
            locks,
            ttl: seconds(ttl),
            window: seconds(window.unwrap_or(ttl)),
        }
    }
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Plan {
    pub(crate) scale: Scale,
    /// In their own order, not as they were asked for.
    pub(crate) programs: Vec<Program>,
    /// Whether they were asked for by name.
    pub(crate) chosen: bool,
    pub(crate) keep: Keep,
    /// The delay each way of a wire for W1 to W5 and `network`.
    pub(crate) each_way: Option<Duration>,
    /// The path of the page and the picture, without extension.
    pub(crate) out: PathBuf,
    /// The server is on one core, and everything else on another.
    pub(crate) pinned: bool,
}

impl Plan {
    pub(crate) fn parse(words: impl IntoIterator<Item = String>) -> Result<Self, Failure> {
        let mut plan = Self {
            scale: Scale::Full,
            programs: Program::ALL.map(|(_, program)| program).to_vec(),
            chosen: false,
            keep: Keep::new(1, None, None),
            each_way: None,
            out: "target/benches".into(),
            pinned: true,
        };
        let (mut locks, mut ttl, mut window) = (None, None, None);
        let mut words = words.into_iter();
        while let Some(flag) = words.next() {
            let mut value = || {
                let word = words.next().filter(|word| !word.is_empty());
                word.ok_or_else(|| mistake(&format!("{flag} needs a value")))
            };
            match flag.as_str() {
                "--quick" => plan.scale = Scale::Quick,
                "--unpinned" => plan.pinned = false,
                "--only" => plan.only(&value()?)?,
                "--locks" => locks = Some(number(&flag, &value()?, 10_000_000)?),
                "--ttl" => ttl = Some(number(&flag, &value()?, 3_600)?),
                "--window" => window = Some(number(&flag, &value()?, 86_400)?),
                "--each-way" => plan.each_way = Some(millis(&flag, &value()?)?),
                "--out" => plan.out = value()?.into(),
                _ => return Err(mistake(&format!("`{flag}` is no argument"))),
            }
        }
        let locks = locks.unwrap_or(plan.scale.pick(100_000, 10_000));
        plan.keep = Keep::new(locks, ttl, window);
        Ok(plan)
    }

    fn only(&mut self, list: &str) -> Result<(), Failure> {
        let asked = list.split(',').map(Program::parse);
        let asked = asked.collect::<Result<Vec<_>, _>>()?;
        self.programs.retain(|program| asked.contains(program));
        self.chosen = true;
        Ok(())
    }

    /// The paths of the page and the picture.
    pub(crate) fn files(&self) -> [PathBuf; 2] {
        ["md", "svg"].map(|ending| {
            let mut name = self.out.clone().into_os_string();
            name.push(format!(".{ending}"));
            name.into()
        })
    }
}

fn number(flag: &str, word: &str, most: usize) -> Result<usize, Failure> {
    let number = word.parse().ok();
    let number = number.filter(|number| (1..=most).contains(number));
    number.ok_or_else(|| mistake(&format!("{flag} {word}: not a whole number, 1 to {most}")))
}

fn millis(flag: &str, word: &str) -> Result<Duration, Failure> {
    let millis = word.parse().ok().filter(|it| (0.0..=1_000.0).contains(it));
    let seconds = millis.map(|millis: f64| Duration::from_secs_f64(millis / 1e3));
    seconds.ok_or_else(|| mistake(&format!("{flag} {word}: not a number, 0 to 1000")))
}

/// The answer to `--help`.
pub(crate) fn help() -> String {
    format!("{USAGE}; programs: {}", Program::names())
}

fn mistake(what: &str) -> Failure {
    format!("{what}; {USAGE}").into()
}

pub(crate) fn write(path: &Path, text: &str) -> Result<(), Failure> {
    let folder = path.parent().map_or(Ok(()), fs::create_dir_all);
    let written = folder.and_then(|()| fs::write(path, text));
    written.map_err(|why| format!("{} can't be written: {why}", path.display()).into())
}

#[cfg(test)]
mod tests;
