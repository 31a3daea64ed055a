//! What the locks share that one script may touch: all locks of a connection or, with a counter per
//! slot, those of one slot.

use std::sync::{Arc, OnceLock};

use super::batcher::{Batcher, HeartbeatPace};
use super::connection::Connection;

#[derive(Debug)]
pub(super) struct Groups {
    connection: Arc<Connection>,
    most: usize,
    pace: Option<HeartbeatPace>,
    first: Group,
    /// All others by their numbers, made when they are needed.
    blocks: Box<[OnceLock<Block>]>,
}

/// So many groups in a row: a node of a cluster serves few slots, mostly neighbours.
type Block = Box<[OnceLock<Group>]>;

const IN_A_BLOCK: usize = 128;

#[derive(Debug)]
pub(super) struct Group {
    pub(super) batcher: Arc<Batcher>,
    pub(super) heartbeats: Arc<Batcher>,
}

impl Groups {
    /// As for [`Batcher::new`] and [`Batcher::of_heartbeats`].
    pub(super) fn new(
        connection: &Arc<Connection>,
        most: usize,
        pace: Option<HeartbeatPace>,
    ) -> Self {
        let blocks = usize::from(connection.names.script_groups()) / IN_A_BLOCK;
        Self {
            first: Group::new(connection, most, pace),
            blocks: (0..blocks).map(|_| OnceLock::new()).collect(),
            connection: connection.clone(),
            most,
            pace,
        }
    }

    pub(super) fn of(&self, lock: &str) -> &Group {
        match usize::from(self.connection.names.script_group(lock)) {
            0 => &self.first,
            number => self.other(number).unwrap_or(&self.first),
        }
    }

    fn other(&self, number: usize) -> Option<&Group> {
        let block = self.blocks.get(number / IN_A_BLOCK)?;
        let block = block.get_or_init(|| (0..IN_A_BLOCK).map(|_| OnceLock::new()).collect());
        let group = block.get(number % IN_A_BLOCK)?;
        Some(group.get_or_init(|| Group::new(&self.connection, self.most, self.pace)))
    }
}

impl Group {
    fn new(connection: &Arc<Connection>, most: usize, pace: Option<HeartbeatPace>) -> Self {
        Self {
            batcher: Batcher::new(connection, most),
            heartbeats: Batcher::of_heartbeats(connection, pace),
        }
    }
}
