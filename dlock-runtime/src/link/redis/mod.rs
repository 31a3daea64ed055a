//! A connection to one Redis (or Valkey) server, 6.2 or newer.
//!
//! `topology::server` makes it and keeps it alive. `plan` holds its settings; `client` logs in, over a
//! stream of `dial`: a `socket`, or `tls` on it. Its `io_task` reads and writes, `reply_bound` says how
//! much. `outage` notes which attempts failed. `server_info` is what the server is asked first.
//! `target` is the server that connections go to, `redirects` what a node of a cluster says of others.
//! `link` speaks the protocol over it and batches commands, `calls` chooses the script and the
//! arguments of an operation, `write` sends guarded writes, `check` asks for the server's settings, and
//! `beside` the other addresses of its name for their server. `push` receives pushes and `grant_key`
//! authenticates them; `pace` detects clock drift and steps, `epochs` keeps the epoch counter from
//! falling. `names` has the keys and channels that belong to a lock, `scripts` sends the texts of
//! `rules::lua`, `native` is the server's own compare-and-delete command, `reads` says how much is read
//! of a string, `reply` and `errors` read the answers. `node` shakes hands with a node of a quorum, whose
//! `membership` it keeps.
//!
//! Never in this folder: a command that the client library retries automatically.

pub(crate) mod beside;
pub(crate) mod calls;
pub(crate) mod check;
pub(crate) mod client;
pub(crate) mod dial;
pub(crate) mod epochs;
pub(crate) mod errors;
pub(crate) mod grant_key;
pub(crate) mod io_task;
pub(crate) mod link;
pub(crate) mod membership;
pub(crate) mod names;
pub(crate) mod native;
pub(crate) mod node;
pub(crate) mod outage;
pub(crate) mod pace;
pub(crate) mod plan;
pub(crate) mod push;
pub(crate) mod reads;
pub(crate) mod redirects;
pub(crate) mod reply;
pub(crate) mod reply_bound;
pub(crate) mod scripts;
pub(crate) mod server_info;
pub(crate) mod socket;
pub(crate) mod target;
#[cfg(feature = "tls")]
pub(crate) mod tls;
pub(crate) mod write;

#[cfg(test)]
mod tests;
