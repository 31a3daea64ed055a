//! The Markdown page: where it was measured, then a chapter for each program.

use std::fmt::Write as _;
use std::fs;
use std::process::Command;
use std::thread;

use crate::Failure;
use crate::chapter::Chapter;
use crate::pins::Pins;
use crate::plan::{Plan, Scale};

/// The conditions of the measurement.
pub(crate) struct Setting {
    pub(crate) scale: Scale,
    pub(crate) cores: usize,
    pub(crate) pins: Pins,
    pub(crate) load: String,
    pub(crate) server: String,
}

impl Setting {
    /// Reads the conditions, then sets the pins.
    pub(crate) fn ask(plan: &Plan) -> Result<Self, Failure> {
        let version = Command::new("redis-server").arg("--version").output();
        let said = version.map_err(|why| {
            format!("no redis-server on PATH ({why}): apt-get install redis-server")
        })?;
        let said = String::from_utf8_lossy(&said.stdout);
        let version = said.split(' ').find_map(|word| word.strip_prefix("v="));
        Ok(Self {
            scale: plan.scale,
            // Before the pins: afterwards only one core is available.
            cores: thread::available_parallelism().map_or(1, usize::from),
            load: load(),
            server: version.unwrap_or("?").to_owned(),
            pins: Pins::new(plan.pinned)?,
        })
    }
}

/// The system's load, if it reports one.
fn load() -> String {
    let load = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    load.split(' ')
        .next()
        .filter(|load| !load.is_empty())
        .unwrap_or("?")
        .to_owned()
}

pub(crate) fn write(setting: &Setting, chapters: &[Chapter]) -> String {
    let Setting {
        scale,
        cores,
        pins,
        load,
        server,
    } = setting;
    let version = env!("CARGO_PKG_VERSION");
    let rounds = scale.pick("full", "quick: few rounds, wide quartiles");
    let placed = if pins.are_set() {
        "the server on one of them, all clients on another"
    } else {
        "nobody pinned"
    };
    let debug = if cfg!(debug_assertions) {
        " **A debug build: the figures say nothing.**"
    } else {
        ""
    };
    let mut page = format!(
        "# dlock {version}, measured\n\n\
         redis-server {server}, {cores} cores ({placed}), load {load} at the start; {rounds}.{debug} Ratios are within one round, as \
         median [quartiles]; absolute figures hold for this machine and hour. What each figure means: docs/notes/benchmarks.md.\n"
    );
    for chapter in chapters {
        // Writing to a String can't fail.
        let table = table(&chapter.head, &chapter.rows);
        let _ = write!(page, "\n## {}\n\n{table}", chapter.title);
        for note in &chapter.notes {
            let _ = write!(page, "\n{note}\n");
        }
    }
    page
}

/// A Markdown table, with a line break at the end.
pub(crate) fn table(head: &[&str], rows: &[Vec<String>]) -> String {
    let line = |cells: &[String]| format!("| {} |\n", cells.join(" | "));
    let rule = vec!["---".to_owned(); head.len()];
    let head: Vec<String> = head.iter().map(|&cell| cell.to_owned()).collect();
    let rows: String = rows.iter().map(|row| line(row)).collect();
    line(&head) + &line(&rule) + &rows
}

#[cfg(test)]
mod tests;
