//! Several independent servers, of which a quorum decides: what a lock survives, and what it says.
//!
//! `nodes` starts the servers, `grants` is about taking and giving back, `losses` about nodes that
//! are killed, stopped, slow or empty, `waiting` about who comes next, `seen` about what is told.
//! `fleet` is several processes that count under a lock: in a `storm` of faults, and while `clocks`
//! step. `cancelled` drops acquires, `late` delays votes, `unavailable` takes the quorum away,
//! `load` is about many locks, `stuck` about blocked threads, `kinds` about readers, writers and owners,
//! `hostile` about strange data, `refusals` about nodes that answer with errors, and `mistakes`
//! about wrong configurations. What a user must be allowed is in `wire::rights`.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "test code, also where clippy does not see it"
)]

mod cancelled;
#[cfg(target_os = "linux")]
mod clocks;
mod fleet;
mod grants;
mod hostile;
mod kinds;
mod late;
mod load;
mod losses;
mod mistakes;
mod nodes;
mod refusals;
mod seen;
mod storm;
mod stuck;
mod unavailable;
mod waiting;

use std::time::Duration;

/// A cap for anything that has to happen at all, on a busy machine.
const CAP: Duration = Duration::from_secs(60);

/// The longest lease in these tests: a node votes so long after its start, and one second later.
const MAX_TTL: Duration = Duration::from_secs(2);
