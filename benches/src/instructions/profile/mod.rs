//! Parses callgrind's output, and computes the difference of two such files. It starts no process.
//!
//! The format is on <https://valgrind.org/docs/manual/cl-format.html>. Without name compression, a
//! file is a list of functions (`fn=`), each with the lines of its own cost in a source file
//! (`fl=`, `fi=`, `fe=`) and its calls: `cfn=` the function called, `calls=` how often, and in the
//! next line the cost of the calls with all that they called.

use std::collections::{BTreeMap, HashMap};
use std::hash::Hash;

use super::crates::{Crate, allocates};
use crate::Failure;
use crate::statistics::real;

/// The profile of a whole run of a process.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Profile {
    /// Its own instructions, by function and source file.
    own: HashMap<(String, String), u64>,
    /// By caller and function called.
    calls: HashMap<(String, String), Calls>,
    /// By the function that makes them.
    system_calls: HashMap<String, u64>,
}

#[derive(Debug, Default, Clone, Copy, PartialEq)]
struct Calls {
    count: u64,
    /// Instructions, with all that was called.
    cost: u64,
}

impl Profile {
    pub(super) fn parse(text: &str) -> Result<Self, Failure> {
        let mut profile = Self::default();
        let (mut function, mut file, mut called) = (String::new(), String::new(), String::new());
        let mut calls = None;
        let mut system_calls = None;
        for line in text.lines() {
            match line.split_once('=') {
                Some(("fn", name)) => name.clone_into(&mut function),
                Some(("fl" | "fi" | "fe", name)) => name.clone_into(&mut file),
                Some(("cfn", name)) => name.clone_into(&mut called),
                Some(("calls", rest)) => calls = Some(first(rest)?),
                _ => {}
            }
            if let Some(events) = line.strip_prefix("events: ") {
                system_calls = events.split(' ').position(|event| event == "sysCount");
            }
            if !line.starts_with(|sign: char| sign.is_ascii_digit()) {
                continue;
            }
            // A line's number, then its events: instructions come first, and trailing zeros are
            // left out.
            let mut events = line.split(' ').skip(1);
            let instructions = events.next().map_or(Ok(0), str::parse)?;
            if let Some(count) = calls.take() {
                let pair = (function.clone(), called.clone());
                let sum: &mut Calls = profile.calls.entry(pair).or_default();
                sum.count += count;
                sum.cost += instructions;
            } else {
                let pair = (function.clone(), file.clone());
                *profile.own.entry(pair).or_default() += instructions;
                let at = system_calls.and_then(|at| at.checked_sub(1));
                if let Some(count) = at.and_then(|at| events.nth(at)) {
                    let sum = profile.system_calls.entry(function.clone()).or_default();
                    *sum += count.parse::<u64>()?;
                }
            }
        }
        if profile.own.is_empty() {
            return Err("callgrind has counted nothing".into());
        }
        Ok(profile)
    }

    fn called(&self, is_meant: impl Fn(&str) -> bool) -> f64 {
        let meant = self
            .calls
            .iter()
            .filter(|((_, called), _)| is_meant(called));
        count(meant.map(|(_, calls)| calls.count).sum())
    }
}

fn first(numbers: &str) -> Result<u64, Failure> {
    Ok(numbers.split(' ').next().unwrap_or_default().parse()?)
}

/// The cost of one cycle.
#[derive(Debug)]
pub(super) struct ProfiledCycle {
    pub(super) instructions: f64,
    pub(super) allocations: f64,
    /// Without clock readings, which are no system calls outside valgrind.
    pub(super) system_calls: f64,
    pub(super) clock_readings: f64,
    own: HashMap<(String, String), f64>,
    calls: HashMap<(String, String), [f64; 2]>,
    system_calls_of: HashMap<String, f64>,
}

/// The functions that hand out all memory.
const ALLOCATE: [&str; 5] = [
    "malloc",
    "calloc",
    "realloc",
    "posix_memalign",
    "aligned_alloc",
];

/// libc's function, and rustix's for systems without a vDSO.
fn reads_a_clock(function: &str) -> bool {
    ["clock_gettime@@", "clock_gettime_via_syscall"]
        .iter()
        .any(|clock| function.contains(clock))
}

impl ProfiledCycle {
    /// The cost of one of the additional cycles of the longer run.
    pub(super) fn of(short: &Profile, long: &Profile, cycles: usize) -> Self {
        let each = |short: f64, long: f64| (long - short) / real(cycles);
        let called =
            |is_meant: fn(&str) -> bool| each(short.called(is_meant), long.called(is_meant));
        let clock_readings = called(reads_a_clock);
        let allocations = called(|name| ALLOCATE.contains(&name));
        let own = difference(&short.own, &long.own, |short, long| {
            each(count(short), count(long))
        });
        let calls = difference(&short.calls, &long.calls, |short: Calls, long: Calls| {
            [
                each(count(short.count), count(long.count)),
                each(count(short.cost), count(long.cost)),
            ]
        });
        let mut system_calls =
            difference(&short.system_calls, &long.system_calls, |short, long| {
                each(count(short), count(long))
            });
        system_calls.retain(|name, _| !reads_a_clock(name));
        Self {
            instructions: own.values().sum(),
            allocations,
            system_calls: system_calls.values().sum(),
            clock_readings,
            own,
            calls,
            system_calls_of: system_calls,
        }
    }

    /// Instructions of this crate.
    pub(super) fn of_crate(&self, meant: Crate) -> f64 {
        let own = self.own.iter();
        let own = own.filter(|((function, file), _)| Crate::of(file, function) == meant);
        own.map(|(_, cost)| cost).sum()
    }

    /// Instructions by source file, most first; by crate if the program has no line tables.
    pub(super) fn files(&self) -> Vec<(&str, f64)> {
        let files = self.own.iter().map(|((function, file), cost)| {
            let name = match file.as_str() {
                "???" => Crate::of(file, function).without_lines(),
                file => short(file),
            };
            (name, *cost)
        });
        descending(files)
    }

    /// dlock's functions with their own instructions, and with those of all that they call; most of
    /// the latter first.
    pub(super) fn functions(&self) -> Vec<(&str, f64, f64)> {
        let mut all: BTreeMap<&str, (f64, f64)> = BTreeMap::new();
        for ((function, _), cost) in &self.own {
            all.entry(function).or_default().0 += cost;
        }
        for ((caller, called), [_, cost]) in &self.calls {
            if caller != called {
                all.entry(caller).or_default().1 += cost;
            }
        }
        let own = all.into_iter().filter(|(name, _)| name.contains("dlock"));
        let mut own: Vec<_> = own
            .map(|(name, (own, called))| (name, own, own + called))
            .collect();
        own.sort_by(|one, other| other.2.total_cmp(&one.2));
        own
    }

    /// System calls by the function that makes them, most first.
    pub(super) fn system_calls_of(&self) -> Vec<(&str, f64)> {
        let all = self.system_calls_of.iter();
        descending(all.map(|(name, times)| (name.as_str(), *times)))
    }

    /// Allocations by the function outside the allocator that makes them.
    pub(super) fn allocators(&self) -> Vec<(&str, f64)> {
        let asks = self
            .calls
            .iter()
            .filter(|((caller, called), _)| allocates(called) && !allocates(caller));
        descending(asks.map(|((caller, _), [times, _])| (caller.as_str(), *times)))
    }
}

fn difference<K: Clone + Eq + Hash, T: Copy + Default, D>(
    short: &HashMap<K, T>,
    long: &HashMap<K, T>,
    each: impl Fn(T, T) -> D,
) -> HashMap<K, D> {
    // Functions that only the short run called are no part of a cycle, and cost little.
    let pairs = long.iter().map(|(name, &long)| {
        let short = short.get(name).copied().unwrap_or_default();
        (name.clone(), each(short, long))
    });
    pairs.collect()
}

/// The sum for each name, largest first.
fn descending<'a>(figures: impl Iterator<Item = (&'a str, f64)>) -> Vec<(&'a str, f64)> {
    let mut sums: BTreeMap<&str, f64> = BTreeMap::new();
    for (name, figure) in figures {
        *sums.entry(name).or_default() += figure;
    }
    let mut sums: Vec<_> = sums.into_iter().collect();
    sums.sort_by(|one, other| other.1.total_cmp(&one.1));
    sums
}

/// The path from the crate's folder on.
fn short(file: &str) -> &str {
    if let Some((_, inside)) = file.split_once("/registry/src/") {
        return inside.split_once('/').map_or(inside, |(_, inside)| inside);
    }
    if let Some((_, inside)) = file.split_once("/library/") {
        return inside;
    }
    let own = ["dlock-runtime/", "benches/"]
        .iter()
        .find_map(|folder| file.find(folder));
    own.and_then(|at| file.get(at..)).unwrap_or(file)
}

#[allow(clippy::cast_precision_loss, reason = "told with five digits")]
fn count(number: u64) -> f64 {
    number as f64
}

#[cfg(test)]
mod tests;
