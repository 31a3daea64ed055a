//! The nodes of a quorum: how many there are, how many decide, and sets of them.
//!
//! Invariant: two quorums of the same nodes share a node.

pub(crate) use crate::values::nodes::MOST_NODES;
use crate::values::nodes::can_decide;

/// How many nodes are configured: odd, 3 to [`MOST_NODES`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct NodeCount(u8);

/// One of the configured nodes, by its position.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct NodeId(u8);

/// Some of the nodes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct NodeSet(u16);

impl NodeCount {
    /// `None`: so many can't decide.
    pub(crate) fn new(number: usize) -> Option<Self> {
        u8::try_from(number)
            .ok()
            .filter(|_| can_decide(number))
            .map(Self)
    }

    pub(crate) fn number(self) -> usize {
        usize::from(self.0)
    }

    /// How many nodes decide.
    pub(crate) fn quorum(self) -> usize {
        self.number() / 2 + 1
    }

    /// How many nodes may fail.
    pub(crate) fn minority(self) -> usize {
        self.number() - self.quorum()
    }

    pub(crate) fn all(self) -> NodeSet {
        NodeSet((1 << self.0) - 1)
    }

    pub(crate) fn ids(self) -> impl Iterator<Item = NodeId> {
        (0..self.0).map(NodeId)
    }
}

impl NodeId {
    pub(crate) fn index(self) -> usize {
        usize::from(self.0)
    }
}

impl NodeSet {
    pub(crate) const NONE: NodeSet = NodeSet(0);

    pub(crate) fn insert(&mut self, node: NodeId) {
        self.0 |= 1 << node.0;
    }

    pub(crate) fn remove(&mut self, node: NodeId) {
        self.0 &= !(1 << node.0);
    }

    pub(crate) fn with(mut self, node: NodeId) -> Self {
        self.insert(node);
        self
    }

    pub(crate) fn contains(self, node: NodeId) -> bool {
        self.0 & (1 << node.0) != 0
    }

    pub(crate) fn len(self) -> usize {
        self.0.count_ones() as usize // at most 16
    }

    pub(crate) fn is_empty(self) -> bool {
        self.0 == 0
    }

    pub(crate) fn iter(self) -> impl Iterator<Item = NodeId> {
        (0..16).map(NodeId).filter(move |node| self.contains(*node))
    }
}

impl FromIterator<NodeId> for NodeSet {
    fn from_iter<T: IntoIterator<Item = NodeId>>(nodes: T) -> Self {
        nodes.into_iter().fold(Self::NONE, Self::with)
    }
}
