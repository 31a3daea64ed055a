//! The Lua scripts on real, private servers: `alike` against the pure machine, `scripts` and `queue` each by itself,
//! `combining` several of them in one command, `heartbeats` those of many who wait, `shared` the kinds with many holders, `native` what a server has of its own, `refusals` when the server does not want to, `replication` where there is more than one, `write` for batches of data; beside
//! them what needs no server.

mod alike;
mod batching;
mod bounded;
mod heartbeats;
mod lab;
mod names;
mod native;
mod push;
mod push_storm;
mod queue;
mod refusals;
mod replication;
mod rights;
mod scripts;
mod shared;
mod write;
