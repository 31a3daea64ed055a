//! What a pool does about what comes unasked from its server.

use std::sync::Arc;

use super::Core;
use crate::backend::Listener;
use crate::policy::client::Settled;
use crate::policy::commands::{Claim, Grant};
use crate::policy::gate::Offer;
use crate::policy::queue;
use crate::values::holder;
use crate::values::moment::Moment;
use crate::values::token::Token;

impl Core {
    /// The token in a value, if this pool has drawn it.
    fn token_in(&self, value: &str) -> Option<Token> {
        self.tokens.recognize(holder::token_in(value)?)
    }
}

impl Listener for Core {
    fn granted(&self, grant: Grant, since: Option<Moment>) {
        // Only what this pool has drawn itself is looked at: another pool of the process may hold the lock, or want it.
        let Some(token) = self.token_in(&grant.value) else {
            return;
        };
        let in_turn = |since| Offer::in_turn(since, grant.lease, grant.epoch, grant.time);
        let offer = since.map(in_turn);
        let now = self.backend.clock().now();
        match self.gates.granted(&grant.key, &grant.value, offer, now) {
            Settled::Taken => {}
            Settled::Unowned(token) => self.guardian.nudge(token),
            // Its waiter has gone; or the token is known in another state, which the guardian sees.
            Settled::NotOurs => {
                let claim = Claim {
                    key: grant.key,
                    value: grant.value,
                    queues: false,
                };
                self.guardian.stray(token, claim, queue::CLAIM);
            }
        }
    }

    fn hinted(&self, key: &Arc<str>, value: &str) {
        if self.token_in(value).is_some() {
            self.gates.hinted(key, value, self.backend.clock().now());
        }
    }

    fn disconnected(&self) {
        self.gates.hurry_all(self.backend.clock().now());
    }
}
