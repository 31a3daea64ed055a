//! Tests of the Lua scripts and of the connection on real, private servers. `alike` compares the
//! scripts with the pure machine, `scripts` and `queue` test single ones, `batching` several items
//! in one command, `by_key` those about one key alone, `heartbeats` those of many waiters,
//! `bounded` the limit of one call, `shared` the kinds with many holders, `epochs` a server whose
//! counter is behind, `native` the server's own compare-and-delete, `refusals` and `rights` a
//! server that refuses, `replication` grants across servers, `node` a node of a quorum, `write`
//! guarded writes, `dial` names with several addresses, `wire` that processes of an older build share every
//! lock. `names`, `outage`, `push` and `push_storm` need no server.

mod alike;
mod batching;
mod bounded;
mod by_key;
pub(super) mod dial;
mod epochs;
mod heartbeats;
mod lab;
mod names;
mod native;
mod node;
mod outage;
mod push;
mod push_storm;
mod queue;
mod refusals;
mod replication;
mod rights;
mod scripts;
mod shared;
mod target;
mod wire;
mod write;
