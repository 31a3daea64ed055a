//! What a server's messages mean, which it sends without being asked: a grant, a hint, the end of a
//! connection.
//!
//! Anybody who may publish can forge one. Invariant: a message can only make a leader ask; a grant
//! counts for an attempt of this process, with the value that it drew.

use std::sync::Arc;

use super::host::{ClientActions, ClientHost};
use super::local_queue::Grant;
use super::queue_key::QueueKey;
use super::{AtQueue, Client};
use crate::values::moment::Moment;

impl<H: ClientHost> Client<H> {
    /// A push says that an attempt was granted. `grant`: `None` if the time of the grant is not
    /// known; then the leader polls for it. Returns whether it is about an attempt of a queue.
    pub(crate) fn pushed(
        &mut self,
        key: &Arc<str>,
        value: &str,
        grant: Option<Grant>,
        at: (Moment, &mut ClientActions<H>),
    ) -> bool {
        let Some(queue_key) = self.queues.awaits(key, value) else {
            return false;
        };
        let pushed = self.at(&queue_key, at, |it| {
            let Some(token) = it.state.queue.awaits(value) else {
                return false;
            };
            match grant {
                Some(grant) => it.granted_to_called(token, grant),
                None => it.hinted(),
            }
            true
        });
        pushed.unwrap_or(false)
    }

    /// The lock may be free at a node: the queues to which that is news ask for it again. A node's
    /// message carries no right, and false ones cost few acquires.
    pub(crate) fn freed(&mut self, key: &Arc<str>, (now, out): (Moment, &mut ClientActions<H>)) {
        for queue_key in self.queues.news_for(key) {
            self.at(&queue_key, (now, out), |it| {
                if it.state.queue.freed(it.now) {
                    it.state.wake_leader(it.out);
                }
            });
        }
    }

    /// Pushes may have been missed: the leader polls.
    pub(crate) fn disconnected(
        &mut self,
        queue_key: &QueueKey,
        at: (Moment, &mut ClientActions<H>),
    ) {
        self.at(queue_key, at, |it| {
            it.state.queue.poll_now(it.now);
            it.state.wake_leader(it.out);
        });
    }
}

impl<H: ClientHost> AtQueue<'_, H> {
    /// The leader polls, but not for every such message.
    fn hinted(&mut self) {
        if self.state.queue.hint(self.now) {
            self.state.wake_leader(self.out);
        }
    }
}
