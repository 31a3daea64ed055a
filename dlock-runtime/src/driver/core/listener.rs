//! What a pool does with messages that its server pushes without being asked.
//!
//! It only looks up whom a message concerns; the machine and the watchdog act on it.

use std::sync::Arc;

use super::Core;
use crate::backend::Listener;
use crate::client::local_queue::Grant;
use crate::policy::commands::{Claim, PushedGrant};
use crate::policy::queue;
use crate::values::holder;
use crate::values::moment::Moment;
use crate::values::token::Token;

impl Core {
    /// The token in a value, if this pool has drawn it.
    pub(in crate::driver) fn token_in(&self, value: &str) -> Option<Token> {
        self.tokens.recognize(holder::token_in(value)?)
    }
}

impl Listener for Core {
    fn granted(&self, pushed: PushedGrant, since: Option<Moment>) {
        // Ignore tokens that this pool has not drawn: another pool of the process may hold the
        // lock, or want it.
        let Some(token) = self.token_in(&pushed.value) else {
            return;
        };
        let in_turn = |since| Grant::in_turn(since, pushed.lease, pushed.epoch, pushed.time);
        let grant = since.map(in_turn);
        let now = self.backend.clock().now();
        let is_awaited = self.tell(now, |client, at| {
            client.pushed(&pushed.key, &pushed.value, grant, at)
        });
        if !is_awaited {
            // The waiter has left, or the token is in another state: the watchdog finds out which.
            let claim = Claim {
                key: pushed.key,
                value: pushed.value,
                queues: false,
            };
            self.watchdog.stray(token, claim, queue::CLAIM);
        }
    }

    fn hinted(&self, key: &Arc<str>, value: &str) {
        if self.token_in(value).is_some() {
            self.tell(self.now(), |client, at| client.pushed(key, value, None, at));
        }
    }

    fn freed(&self, key: &Arc<str>) {
        self.tell(self.now(), |client, at| client.freed(key, at));
    }

    fn disconnected(&self) {
        let now = self.now();
        for queue_key in self.queue_keys() {
            self.tell(now, |client, at| client.disconnected(&queue_key, at));
        }
    }
}
