//! Granting a lock to the head of its queue.
//!
//! It removes from the queue and adds holders; new entries come from `operations`. Invariant: no
//! entry passes a head that is alive.

use super::Reached;
use super::operations::OnKey;
use super::wait_queue::QueueHead;
use crate::rules::commands::{Keep, PushedGrant};
use crate::values::entry;

impl OnKey<'_> {
    /// Grants to the first entry, and to the next ones of whatever kind, as long as they fit beside
    /// the holders: all readers at the head, all permits that are free, one writer, one exclusive
    /// holder. One that runs once per period, and was run within it, leaves the queue, and is told.
    ///
    /// An entry that is not alive is dropped, and a grant whose push reached no client is taken
    /// back. Lapsed entries go first, so that they do not pile up behind a head that can't be read
    /// or does not fit. A head that can't be read counts only while its client shows signs of life.
    pub(crate) fn grant_next(&mut self) {
        if self.state.is_taken() {
            return;
        }
        self.state.queue.drop_lapsed(self.time);
        while !self.state.is_taken() {
            let head = match self.state.queue.first() {
                QueueHead::Nobody => return,
                QueueHead::Entry(head) => head.entry.clone(),
                QueueHead::Unseen => {
                    self.more = true;
                    return;
                }
            };
            if !self.state.queue.first_is_alive(self.time) {
                self.state.queue.leave(&head);
                continue;
            }
            let Some(entry) = entry::read(&head) else {
                return; // of a later kind or version: its own clients handle it
            };
            if !self.state.fits(&entry) {
                return; // no entry passes the head
            }
            self.state.queue.leave(&head);
            if self.state.not_due(&head, &entry, self.time).is_some() {
                self.publish.taken_out(entry.address, self.key, &head);
                continue;
            }
            let lease = entry.lease.min(self.claim);
            let at = (self.draw_epoch(), self.time);
            let epoch = self.state.put(&head, &entry, lease, at);
            let grant = PushedGrant {
                key: self.key.clone(),
                value: head.clone(),
                epoch,
                time: self.time,
                lease,
            };
            // A waiter without an address polls, and will find the grant.
            let is_told = entry.address.is_empty()
                || self.publish.publish(entry.address, &grant) != Reached::Nobody;
            if !is_told {
                self.state.remove(&head, Keep::NOT, self.time);
            }
        }
    }
}
