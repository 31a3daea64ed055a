//! The quorum's machines as they ship, explored: every order of steps and faults of a few clients and
//! nodes, breadth first, so that a counterexample is the shortest there is. `docs/notes/model.md`
//! says what was explored and found.
//!
//! Time is asynchronous: a command is executed, and an answer read, at any later time, out of order
//! or never. Read `run` (the bounds), `world`, `client` (the state), `step` (what can happen), `nodes`,
//! `acts` and `holding` (how), `kinds` (who excludes whom), `judge` (what must hold).
//! `runs`, `kind_runs`, `large_runs`, `variants` and `kind_variants` are the tests, `mutants` the
//! known-bad variants, and `simulate` walks at random where no search reaches.
//! The search itself is that of all models (`rules/tests/explore`).
//! Never in this folder: a second version of a protocol rule; the shipped code decides.

#![allow(
    clippy::large_enum_variant,
    clippy::needless_pass_by_value,
    reason = "most clients hold or wait most of the time; runs are built from runs"
)]

mod acts;
mod client;
mod holding;
mod judge;
mod kind_runs;
mod kind_variants;
mod kinds;
mod large_runs;
mod mutants;
mod nodes;
mod reseed_runs;
mod run;
mod runs;
mod seen;
mod simulate;
mod step;
mod variants;
mod world;
