//! What proves to a waiter that a script of the fleet's published its grant.
//!
//! Whoever may publish, and read the queue, can write a message that looks like a grant. So the scripts are told a secret
//! with each command that may grant, and publish a MAC beside the grant (`lua/queue.lua`). The secret is no key in Redis,
//! for that could be read. Invariant: it is shown nowhere, neither as it was given nor as it is sent.

use std::fmt;
use std::sync::Arc;

use sha1_smol::Sha1;

use crate::values::config::Secret;

/// The fleet's key for its grants.
#[derive(Clone)]
pub(super) struct GrantKey {
    /// 40 hexadecimal digits; empty: the fleet has no secret.
    key: Arc<str>,
}

/// Whether a message may be believed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Proof {
    /// A script of the fleet's wrote it.
    Right,
    /// Anybody may have written it.
    Wrong,
    /// There is no secret to prove it with.
    Impossible,
}

impl GrantKey {
    /// Not the secret itself goes to the server, which may be the password of another user there. An empty one, as a user with
    /// `nopass` may log in with, is everybody's, so it proves nothing.
    pub(super) fn new(secret: Option<&Secret>) -> Self {
        let secret = secret.map(Secret::reveal).filter(|it| !it.is_empty());
        let key = secret.map(|secret| sha1(&["dlock grants\n", secret]));
        Self {
            key: key.unwrap_or_default().into(),
        }
    }

    /// The last argument of each script that may grant.
    pub(super) fn argument(&self) -> &str {
        &self.key
    }

    /// Whether the message on this channel goes with this MAC.
    pub(super) fn check(&self, channel: &str, message: &str, mac: &str) -> Proof {
        if self.key.is_empty() {
            return Proof::Impossible;
        }
        let inner = sha1(&[&self.key, channel, "\n", message]);
        let right = sha1(&[&self.key, &inner]);
        // All of it, so that the time tells nothing of where they differ.
        let differ = right
            .bytes()
            .zip(mac.bytes())
            .fold(0, |all, (a, b)| all | (a ^ b));
        if differ == 0 && right.len() == mac.len() {
            Proof::Right
        } else {
            Proof::Wrong
        }
    }
}

fn sha1(parts: &[&str]) -> String {
    let mut hash = Sha1::new();
    for part in parts {
        hash.update(part.as_bytes());
    }
    hash.digest().to_string()
}

impl fmt::Debug for GrantKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("GrantKey(..)")
    }
}
