//! Giving a free lock to the head of its queue.

use std::sync::Arc;

use super::{Publish, Reached, Server};
use crate::policy::commands::Grant;
use crate::policy::queue;

impl Server {
    /// Gives an absent lock to the first place that is alive and hears of it.
    ///
    /// The lapsed go first, so that they do not pile up behind a head that can't be read.
    pub(super) fn grant_next(&mut self, key: &Arc<str>, time: u64, publish: &mut dyn Publish) {
        self.queues.drop_lapsed(key, time);
        while let Some(head) = self.queues.first(key, time) {
            let Some(entry) = queue::read(&head.entry) else {
                return; // of another kind or version: its own clients know what to do with it
            };
            self.queues.leave(key, &head.entry, time);
            if !head.is_alive(time) {
                continue;
            }
            let grant = Grant {
                key: key.clone(),
                value: entry.value.into(),
                epoch: self.draw_epoch(time),
                time,
                lease: entry.lease.min(self.claim),
            };
            self.set(key, &grant.value, time, grant.lease);
            // Without an address it has to poll, and will find the grant.
            if entry.address.is_empty() || publish.publish(entry.address, &grant) != Reached::Nobody
            {
                return;
            }
            self.locks.remove(key);
        }
    }
}
