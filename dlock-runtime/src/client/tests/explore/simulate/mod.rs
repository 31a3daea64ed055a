//! The simulator: the machines as they ship, in fleets of processes over a virtual network with
//! virtual clocks, under a seed. The explorer sees every order of few steps; the simulator sees
//! some orders of many.
//!
//! Read `plan` (what a seed decides), `fleet` (the events), `process` (the boundary of one process:
//! events in, commands out), `network`, `connections`, `clocks` and `server` (the virtual world), `workload` and
//! `weather` (what users do, and what goes wrong), `check` (what must hold). `runs` and `variants`
//! are the tests. Never in this folder: reading a clock, the order of a hash map (a seed repeats to
//! the step), a second version of a protocol rule.

mod check;
mod clocks;
mod connections;
mod fleet;
mod network;
mod plan;
mod process;
mod queue_alone;
mod runs;
mod server;
mod variants;
mod weather;
mod workload;
