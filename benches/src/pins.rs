//! Puts the server on one core, and this process with its children on another: no contender gains
//! from more threads, and neither side takes CPU time from the other.

use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

use crate::Failure;

#[cfg(target_os = "linux")]
use rustix::thread::CpuSet;

/// The cores in use. Outside Linux, and on a single core, nothing is pinned.
#[derive(Clone, Copy)]
pub(crate) struct Pins {
    #[cfg(target_os = "linux")]
    server: Option<CpuSet>,
}

#[cfg(target_os = "linux")]
impl Pins {
    /// Has to be called before other threads start, because they inherit the cores.
    pub(crate) fn new(wanted: bool) -> Result<Self, Failure> {
        use rustix::thread::{sched_getaffinity, sched_setaffinity};

        let allowed = sched_getaffinity(None)?;
        let mut cores = (0..CpuSet::MAX_CPU).filter(|core| allowed.is_set(*core));
        let (Some(first), Some(second), true) = (cores.next(), cores.next(), wanted) else {
            return Ok(Self { server: None });
        };
        sched_setaffinity(None, &only(second))?;
        Ok(Self {
            server: Some(only(first)),
        })
    }

    pub(crate) fn server(&self, pid: u32) -> Result<(), Failure> {
        if let Some(core) = &self.server {
            let pid = rustix::process::Pid::from_raw(i32::try_from(pid)?);
            rustix::thread::sched_setaffinity(pid, core)?;
        }
        Ok(())
    }

    /// Whether the processes are pinned.
    pub(crate) fn are_set(&self) -> bool {
        self.server.is_some()
    }
}

#[cfg(target_os = "linux")]
fn only(core: usize) -> CpuSet {
    let mut set = CpuSet::new();
    set.set(core);
    set
}

#[cfg(not(target_os = "linux"))]
#[allow(clippy::unused_self, clippy::unnecessary_wraps, reason = "as on Linux")]
impl Pins {
    pub(crate) fn new(_: bool) -> Result<Self, Failure> {
        Ok(Self {})
    }

    pub(crate) fn server(&self, _: u32) -> Result<(), Failure> {
        Ok(())
    }

    pub(crate) fn are_set(&self) -> bool {
        false
    }
}

/// The CPU time of all threads of this process so far.
pub(crate) fn cpu() -> Duration {
    let used = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(
        used.tv_sec.unsigned_abs(),
        u32::try_from(used.tv_nsec).unwrap_or(0),
    )
}
