//! What a pool does with messages that its server pushes without being asked.
//!
//! It only looks up whom a message concerns; the machine and the watchdog act on it.

use std::sync::Arc;

use super::Core;
use crate::client::local_queue::Grant;
use crate::link::Listener;
use crate::rules::commands::{Claim, PushedGrant};
use crate::rules::queue;
use crate::values::moment::Moment;

impl Listener for Core {
    fn granted(&self, pushed: PushedGrant, since: Option<Moment>) {
        // Ignore tokens that this pool has not drawn: another pool of the process may hold the
        // lock, or want it.
        let Some(token) = self.tokens.recognize_in(&pushed.value) else {
            return;
        };
        let in_turn = |since| Grant::in_turn(since, pushed.lease, pushed.epoch, pushed.time);
        let grant = since.map(in_turn);
        let now = self.backend.clock().now();
        let is_awaited = self.tell(now, |client, told| {
            client.pushed((&pushed.key, token, &pushed.value), grant, told)
        });
        if !is_awaited {
            // The waiter has left, or the token is in another state: the watchdog finds out which.
            let claim = Claim {
                key: pushed.key,
                value: pushed.value,
                queues: false,
                is_once: false,
            };
            self.watchdog.stray(token, claim, queue::CLAIM);
        }
    }

    fn hinted(&self, key: &Arc<str>, value: &str) {
        if let Some(token) = self.tokens.recognize_in(value) {
            let hint = (key, token, value);
            self.tell(self.now(), |client, told| client.pushed(hint, None, told));
        }
    }

    fn freed(&self, key: &Arc<str>) {
        self.tell(self.now(), |client, told| client.freed(key, told));
    }

    fn evicted(&self, key: &str, value: &str, is_proved: bool) {
        if let Some(token) = self.tokens.recognize_in(value) {
            self.watchdog.doubted(token, key, is_proved);
            self.hinted(&key.into(), value); // a waiter that has left its queue polls
        }
    }

    fn disconnected(&self) {
        let now = self.now();
        for queue_key in self.queue_keys() {
            self.tell(now, |client, told| client.disconnected(&queue_key, told));
        }
    }
}
