//! `RedLock` as pure machines: one lock at N independent servers, of which a majority decides.
//!
//! Read `nodes` (who votes, and how many decide) and `rules::ballots` (what a client asks of one node,
//! and what the node answers; `rules::voting` is its side), then `election` (one acquire at all nodes), `tally` (one round of yes or no: renewal, verification), `clocks` (proposals and
//! stamps, by the nodes' own clocks) and `jumps` (nodes whose clock was set do not vote). Deadlines
//! are those of `client::lease`.
//!
//! Invariants: votes are counted against the *configured* number of nodes; a number is a fence only
//! if a quorum of nodes holds it; whatever a node may have created stays in a set of open nodes
//! until that node says that nothing is left. Never in this folder: what one node decides
//! (`rules::voting`).

pub(crate) mod clocks;
pub(crate) mod election;
pub(crate) mod footprint;
pub(crate) mod jumps;
pub(crate) mod nodes;
pub(crate) mod tally;
