//! The command line, read once.

use std::fs;
use std::path::{Path, PathBuf};

use crate::Failure;

/// What a mistake is answered with, after what it was.
const USAGE: &str = "arguments: [--quick] [--only w1,w2] [--locks N] [--out PATH] [--unpinned]";

/// One of the programs, by its word on the command line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Program {
    W1,
    W2,
    W3,
    W4,
    W5,
    W6,
    Growth,
}

impl Program {
    const ALL: [(&'static str, Self); 7] = [
        ("w1", Self::W1),
        ("w2", Self::W2),
        ("w3", Self::W3),
        ("w4", Self::W4),
        ("w5", Self::W5),
        ("w6", Self::W6),
        ("growth", Self::Growth),
    ];

    fn parse(word: &str) -> Result<Self, Failure> {
        let found = Self::ALL.iter().find(|(name, _)| *name == word);
        found.map(|(_, program)| *program).ok_or_else(|| {
            let names = Self::ALL.map(|(name, _)| name).join(", ");
            mistake(&format!("`{word}` is no program; there are {names}"))
        })
    }
}

/// How much of everything.
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

#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Plan {
    pub(crate) scale: Scale,
    /// In their own order, whatever order they were asked for in.
    pub(crate) programs: Vec<Program>,
    /// That W5 holds.
    pub(crate) locks: usize,
    /// Where the page and the picture go, without what their names end with.
    pub(crate) out: PathBuf,
    /// The server on one core and everything else on another.
    pub(crate) pinned: bool,
}

impl Plan {
    pub(crate) fn parse(words: impl IntoIterator<Item = String>) -> Result<Self, Failure> {
        let mut plan = Self {
            scale: Scale::Full,
            programs: Program::ALL.map(|(_, program)| program).to_vec(),
            locks: 0,
            out: "target/benches".into(),
            pinned: true,
        };
        let mut locks = None;
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
                "--locks" => locks = Some(number(&value()?)?),
                "--out" => plan.out = value()?.into(),
                _ => return Err(mistake(&format!("`{flag}` is no argument"))),
            }
        }
        plan.locks = locks.unwrap_or(plan.scale.pick(100_000, 10_000));
        Ok(plan)
    }

    fn only(&mut self, list: &str) -> Result<(), Failure> {
        let asked = list.split(',').map(Program::parse);
        let asked = asked.collect::<Result<Vec<_>, _>>()?;
        self.programs.retain(|program| asked.contains(program));
        Ok(())
    }

    /// The page's and the picture's.
    pub(crate) fn files(&self) -> [PathBuf; 2] {
        ["md", "svg"].map(|ending| {
            let mut name = self.out.clone().into_os_string();
            name.push(format!(".{ending}"));
            name.into()
        })
    }
}

fn number(word: &str) -> Result<usize, Failure> {
    let number = word
        .parse()
        .ok()
        .filter(|number| (1..=10_000_000).contains(number));
    number.ok_or_else(|| {
        mistake(&format!(
            "--locks {word}: not a whole number, 1 to 10000000"
        ))
    })
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
