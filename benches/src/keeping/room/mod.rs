//! Checks that the machine has the memory for this many locks. Otherwise the system would kill a
//! process in the middle of a run.

use std::fs;

use crate::Failure;

/// Bytes that the most demanding keeper and the server together need for a lock, with a margin.
const A_LOCK: u64 = 4 * 1024;

const MEGABYTE: u64 = 1024 * 1024;

/// Succeeds if the system does not report its memory.
pub(super) fn check(locks: usize) -> Result<(), Failure> {
    let told = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    available(&told).map_or(Ok(()), |free| fits(locks, free))
}

/// In bytes.
fn available(meminfo: &str) -> Option<u64> {
    let mut lines = meminfo.lines();
    let line = lines.find_map(|line| line.strip_prefix("MemAvailable:"))?;
    let kilobytes: u64 = line.trim().strip_suffix(" kB")?.parse().ok()?;
    Some(kilobytes * 1024)
}

fn fits(locks: usize, free: u64) -> Result<(), Failure> {
    let needed = u64::try_from(locks)?.saturating_mul(A_LOCK);
    if needed <= free {
        return Ok(());
    }
    let (needed, most) = (needed.div_ceil(MEGABYTE), free / A_LOCK);
    let free = free / MEGABYTE;
    Err(format!(
        "W5: {locks} locks may take {needed} MB of memory, and {free} MB are available: at most --locks {most}"
    )
    .into())
}

#[cfg(test)]
mod tests;
