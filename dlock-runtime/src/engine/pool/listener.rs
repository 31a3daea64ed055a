//! What a pool does about what comes unasked from its server.

use super::Inner;
use crate::backend::Listener;
use crate::policy::commands::{Claim, Grant};
use crate::policy::gate::{Fate, Offer, Position};
use crate::policy::queue;
use crate::values::holder;
use crate::values::moment::Moment;

impl Inner {
    pub(super) fn give_up(&self, position: &Position) {
        let stay = queue::stay(&position.claim);
        self.guardian.give_up(position.token, stay);
    }
}

impl Listener for Inner {
    fn granted(&self, grant: Grant, since: Option<Moment>) {
        let in_turn = |since| Offer::in_turn(since, grant.lease, grant.epoch, grant.time);
        let offer = since.map(in_turn);
        let now = self.backend.clock().now();
        match self.gates.granted(&grant.key, &grant.value, offer, now) {
            Fate::Taken => {}
            Fate::Unwanted(position) => self.give_up(&position),
            Fate::NotOurs => {
                // Somebody else's, or forged, or of a token that this pool knows in another state. Only what it has drawn itself
                // is looked at: another pool of the process may hold the lock, or want it.
                let token = holder::token_in(&grant.value);
                if let Some(token) = token.and_then(|wire| self.tokens.recognize(wire)) {
                    let claim = Claim {
                        key: grant.key,
                        value: grant.value,
                        place: None,
                    };
                    self.guardian.stray(token, claim, queue::CLAIM);
                }
            }
        }
    }

    fn disconnected(&self) {
        self.gates.hurry_all(self.backend.clock().now());
    }
}
