//! The shipped machines, explored: every order of steps and faults of a small fleet, breadth first, so
//! that a counterexample is the shortest there is. `docs/MODEL.md` says what was explored and found.
//!
//! Read `world` (what there is), `process` and its parts (the engine's glue, restated: who is told what,
//! when), `step` and `fault` (what can happen), `properties` and `drain` (what must hold), `search`.
//! `runs` and `mutants` are the tests; `local` explores the gate alone. No rule of the protocol is
//! written down again here: whatever decides is the code that ships.

mod ask;
mod drain;
mod fault;
mod fingerprint;
mod hold;
mod local;
mod mutants;
mod own;
mod process;
mod properties;
mod run;
mod runs;
mod search;
mod seen;
mod serve;
mod step;
mod world;
