//! What a server reports about its own work: CPU time, and calls of each command. The rest of the
//! machine's work hardly affects either.

use std::collections::HashMap;
use std::time::Duration;

use crate::Failure;

/// All work since its start.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Reading {
    cpu: Duration,
    calls: HashMap<String, u64>,
}

/// The work between two readings.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Work {
    pub(crate) cpu: Duration,
    calls: HashMap<String, u64>,
}

impl Reading {
    /// Parses `INFO cpu` followed by `INFO commandstats`.
    pub(crate) fn parse(info: &str) -> Result<Self, Failure> {
        let seconds = |name: &str| -> Result<f64, Failure> {
            let line = info.lines().find_map(|line| line.strip_prefix(name));
            let text = line.ok_or_else(|| format!("INFO has no `{name}`"))?;
            Ok(text.trim().parse()?)
        };
        let cpu = seconds("used_cpu_sys:")? + seconds("used_cpu_user:")?;
        let calls = info.lines().filter_map(|line| {
            let (name, rest) = line.strip_prefix("cmdstat_")?.split_once(":calls=")?;
            let count = rest.split(',').next()?.parse().ok()?;
            Some((name.to_owned(), count))
        });
        Ok(Self {
            cpu: Duration::from_secs_f64(cpu),
            calls: calls.collect(),
        })
    }

    pub(crate) fn since(&self, before: &Self) -> Work {
        let calls = self.calls.iter().map(|(name, now)| {
            let then = before.calls.get(name).copied().unwrap_or(0);
            (name.clone(), now.saturating_sub(then))
        });
        Work {
            cpu: self.cpu.saturating_sub(before.cpu),
            calls: calls.collect(),
        }
    }
}

impl Work {
    /// The number of calls of these commands. Calls inside a script count like a client's, so name
    /// only commands that the script does not call.
    pub(crate) fn calls(&self, names: &[&str]) -> u64 {
        names.iter().filter_map(|name| self.calls.get(*name)).sum()
    }

    pub(crate) fn add(&mut self, more: &Self) {
        self.cpu += more.cpu;
        for (name, count) in &more.calls {
            *self.calls.entry(name.clone()).or_default() += count;
        }
    }
}

#[cfg(test)]
mod tests;
