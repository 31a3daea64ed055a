//! The shipped machines, explored: every order of steps and faults of a small fleet, breadth first,
//! so that a counterexample is the shortest there is. `docs/notes/model.md` says what was explored
//! and found.
//!
//! Read `world` (what exists), `process`, `leading`, `past_the_queue`, `hold` and `own` (the
//! driver's part between the machines, restated: who is told what, when), `serve`, `step` and
//! `fault` (what can happen), `host` (what the machine keeps), `properties`, `drain` and
//! `token_rest` (what must hold). `runs` and `variants` are the tests; `local` explores the local
//! queue alone (`local_runs` and `local_rest`: what must hold). The search is that of all models
//! (`rules/tests/explore`). Never in this folder: a second version of a protocol rule; the shipped
//! code decides.

#![allow(
    clippy::needless_pass_by_value,
    clippy::struct_excessive_bools,
    clippy::too_many_lines,
    reason = "a run's switches are independent, its tables are long, and answers are used up by who reads them"
)]

mod downgrade;
mod drain;
mod fault;
mod fingerprint;
mod guarding;
mod hold;
mod host;
mod judge;
mod kind;
mod kind_mutants;
mod kind_runs;
mod kind_variants;
mod large_runs;
mod leading;
mod local;
mod local_rest;
mod local_runs;
mod local_steps;
mod mutants;
mod own;
mod past_the_queue;
mod process;
mod properties;
mod run;
mod runs;
mod seen;
mod serve;
mod simulate;
mod step;
mod token_rest;
mod variants;
mod views;
mod world;
