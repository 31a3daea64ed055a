//! What the locks share that one script may touch: all locks of a connection or, with a counter per
//! slot, those of one slot.

use std::sync::{Arc, OnceLock};

use super::batcher::Batcher;
use super::connection::Connection;
use super::heartbeats::{Heartbeats, Pace};

#[derive(Debug)]
pub(super) struct Groups {
    connection: Arc<Connection>,
    most: usize,
    pace: Option<Pace>,
    first: Group,
    /// Those with the numbers 1, 2, …, made when they are needed.
    others: Box<[OnceLock<Group>]>,
}

#[derive(Debug)]
pub(super) struct Group {
    pub(super) batcher: Arc<Batcher>,
    pub(super) heartbeats: Arc<Heartbeats>,
}

impl Groups {
    /// As for [`Batcher::new`] and [`Heartbeats::new`].
    pub(super) fn new(connection: &Arc<Connection>, most: usize, pace: Option<Pace>) -> Self {
        let others = 1..connection.names.script_groups();
        Self {
            first: Group::new(connection, most, pace),
            others: others.map(|_| OnceLock::new()).collect(),
            connection: connection.clone(),
            most,
            pace,
        }
    }

    pub(super) fn of(&self, lock: &str) -> &Group {
        let number = usize::from(self.connection.names.script_group(lock));
        let other = number.checked_sub(1).and_then(|at| self.others.get(at));
        other.map_or(&self.first, |other| {
            other.get_or_init(|| Group::new(&self.connection, self.most, self.pace))
        })
    }
}

impl Group {
    fn new(connection: &Arc<Connection>, most: usize, pace: Option<Pace>) -> Self {
        Self {
            batcher: Batcher::new(connection, most),
            heartbeats: Heartbeats::new(connection, pace),
        }
    }
}
