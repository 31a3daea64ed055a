//! How many independent servers can decide about a lock.

/// The most nodes that one lock is taken at.
pub(crate) const MOST_NODES: usize = 9;

/// Whether a majority of so many nodes is worth asking: an even number survives no more failures
/// than the odd one below it, fewer than three survive none, and more than nine only cost.
pub(crate) fn can_decide(nodes: usize) -> bool {
    (3..=MOST_NODES).contains(&nodes) && nodes % 2 == 1
}
