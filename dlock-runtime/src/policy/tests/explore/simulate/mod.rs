//! The simulator: the machines as they ship, in fleets of processes over a virtual network with virtual clocks, under a seed. The
//! explorer sees every order of few steps; the simulator sees some orders of many.
//!
//! Read `plan` (what a seed says), `fleet` (what happens next), `process` (the seam: one process, events in, commands out), `network`,
//! `clocks` and `server` (the virtual world), `workload` and `weather` (what people do, and what goes wrong), `check` (what must hold).
//! `runs` and `variants` are the tests. Nothing here reads a clock or depends on the order of a hash map, so a seed
//! repeats to the step. No rule of the protocol is written down again.

mod check;
mod clocks;
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
