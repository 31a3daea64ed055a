//! W3 and W4: one key that everybody wants. How often it changes hands, how fairly, and how long it lies between two of them.
//!
//! `rivals` are those that are measured (`growth` has some of them too); `player` is one process of tasks that take turns, `fleet` several of them and what they did;
//! `turns` looks at that: was it a lock, who had how much; `hop` is the floor, one message from one process to another.
//!
//! Whether it was a lock is not sampled: every turn of every task, from after its acquire until before its release, is compared with its
//! neighbours after the run, on the clock that all processes share. So nothing but two looks at that clock is added to what is measured.
//! In W3 a turn is no more than these two looks, so a lock that were none would show in W4, and in `tests/exclusion`.

mod fleet;
mod handoff;
mod hop;
mod player;
mod rivals;
mod throughput;
mod turns;

pub(crate) use fleet::{Fleet, Run};
pub(crate) use handoff::chapter as handoff;
pub(crate) use hop::listen;
pub(crate) use player::play;
pub(crate) use rivals::{Rival, of_growth};
pub(crate) use throughput::chapter as throughput;
