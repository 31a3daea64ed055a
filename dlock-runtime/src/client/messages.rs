//! What a server's messages mean, which it sends without being asked: a grant, a hint, the end of a
//! connection.
//!
//! Anybody who may publish can forge one. Invariant: a message can only make a leader ask; a grant
//! counts for an attempt of this process, with the value that it drew.

use std::sync::Arc;

use super::host::ClientHost;
use super::local_queue::Grant;
use super::queue_key::QueueKey;
use super::{Client, QueueStep, Told};
use crate::values::token::Token;

impl<H: ClientHost> Client<H> {
    /// A push says that this token was granted, with this value. `grant`: `None` if the time of the
    /// grant is not known; then the leader polls for it. Returns whether it is about an attempt of a
    /// queue.
    pub(crate) fn pushed(
        &mut self,
        (key, token, value): (&Arc<str>, Token, &str),
        grant: Option<Grant>,
        told: Told<'_, H>,
    ) -> bool {
        let claim = self.tokens.claim(token);
        if claim.is_none_or(|claim| claim.key != *key || *claim.value != *value) {
            return false;
        }
        let Some(queue_key) = self.queues.awaits(key, token) else {
            return false;
        };
        self.at(&queue_key, told, |it| match grant {
            Some(grant) => it.granted_to_called(token, grant),
            None => it.hinted(),
        });
        true
    }

    /// Pushes may have been missed: the leader of this queue polls.
    pub(crate) fn disconnected(&mut self, queue_key: &QueueKey, told: Told<'_, H>) {
        self.at(queue_key, told, |it| {
            it.state.queue.poll_now(it.step.now);
            it.state.wake_leader(it.step.out);
        });
    }

    /// The lock may be free at a node: the queues to which that is news ask for it again. A node's
    /// message carries no right, and false ones cost few acquires.
    pub(crate) fn freed(&mut self, key: &Arc<str>, (now, out): Told<'_, H>) {
        for queue_key in self.queues.news_for(key) {
            self.at(&queue_key, (now, out), |it| {
                if it.state.queue.freed(now) {
                    it.state.wake_leader(it.step.out);
                }
            });
        }
    }
}

impl<H: ClientHost> QueueStep<'_, H> {
    /// The leader polls, but not for every such message.
    fn hinted(&mut self) {
        if self.state.queue.hint(self.step.now) {
            self.state.wake_leader(self.step.out);
        }
    }
}
