//! W3 and W4: many tasks want one key. How often and how fairly it changes hands, and how much time
//! passes between two holders.
//!
//! `rivals` are the contenders (`growth` has some of them, too). `player` is one process, whose
//! tasks take turns; `fleet` runs several players; `turns` checks and evaluates the turns that they
//! report. `hop` is the lower bound, one message from one process to another.
//!
//! Exclusion is checked, not sampled: after the run, every turn, from after its acquire until
//! before its release, is compared with the next one on the clock that all processes share. This
//! adds two clock readings to each turn. In W3 a turn has nothing but these two, so it would hardly
//! show a lock that does not exclude; W4 and `tests/exclusion` do.

mod fleet;
mod handoff;
mod hop;
mod player;
mod rivals;
mod throughput;
mod turns;

pub(crate) use fleet::{Fleet, FleetRun};
pub(crate) use handoff::chapter as handoff;
pub(crate) use hop::listen;
pub(crate) use player::play;
pub(crate) use rivals::{OURS, Rival, of_growth};
pub(crate) use throughput::chapter as throughput;
