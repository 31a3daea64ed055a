//! What the lock protects: it refuses each write whose fence is lower than one that it has seen.

use std::cell::Cell;

use dlock_runtime::Fence;

use crate::record::{Record, What, Who};

pub(crate) struct Resource<'a> {
    newest: Cell<Option<Fence>>,
    record: &'a Record,
}

impl<'a> Resource<'a> {
    pub(crate) fn new(record: &'a Record) -> Self {
        let newest = Cell::new(None);
        Self { newest, record }
    }

    /// Compares and writes in one step; in SQL, `UPDATE … SET fence = $1 WHERE fence <= $1`.
    /// Returns whether it accepts the write.
    pub(crate) fn write(&self, who: Who, fence: Fence) -> bool {
        let is_late = self.newest.get().is_some_and(|newest| fence < newest);
        if is_late {
            self.record.add(Who::Resource, What::Refused(who));
        } else {
            self.newest.set(Some(fence));
            self.record.add(Who::Resource, What::Accepted(who));
        }
        !is_late
    }
}
