//! What servers report about their own work: CPU time, calls of each command, and reads from
//! sockets. The rest of the machine's work hardly affects the first two.

use std::collections::HashMap;
use std::time::Duration;

use crate::Failure;

/// All work since its start.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Reading {
    cpu: Duration,
    calls: HashMap<String, u64>,
    reads: u64,
}

/// The work between two readings.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Work {
    pub(crate) cpu: Duration,
    calls: HashMap<String, u64>,
    /// How often a server read from a socket: once for each of its wake-ups, if it has one busy
    /// client. 0 if the servers do not count it.
    pub(crate) reads: u64,
}

impl Reading {
    /// Parses `INFO` with the sections cpu, commandstats and stats, of one server or of several, one
    /// behind the other, whose work is added up.
    pub(crate) fn parse(info: &str) -> Result<Self, Failure> {
        let of = |name: &'static str| info.lines().filter_map(move |it| it.strip_prefix(name));
        let seconds = |name: &'static str| -> Result<f64, Failure> {
            let each = of(name).map(|text| text.trim().parse::<f64>());
            let each = each.collect::<Result<Vec<_>, _>>()?;
            if each.is_empty() {
                return Err(format!("INFO has no `{name}`").into());
            }
            Ok(each.iter().sum())
        };
        let cpu = seconds("used_cpu_sys:")? + seconds("used_cpu_user:")?;
        let mut calls = HashMap::new();
        for line in of("cmdstat_") {
            let counted = line.split_once(":calls=").and_then(|(name, rest)| {
                let count: u64 = rest.split(',').next()?.parse().ok()?;
                Some((name.to_owned(), count))
            });
            if let Some((name, count)) = counted {
                *calls.entry(name).or_default() += count;
            }
        }
        let reads = of("total_reads_processed:").filter_map(|text| text.trim().parse::<u64>().ok());
        Ok(Self {
            cpu: Duration::from_secs_f64(cpu),
            calls,
            reads: reads.sum(),
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
            reads: self.reads.saturating_sub(before.reads),
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
        self.reads += more.reads;
        for (name, count) in &more.calls {
            *self.calls.entry(name.clone()).or_default() += count;
        }
    }
}

#[cfg(test)]
mod tests;
