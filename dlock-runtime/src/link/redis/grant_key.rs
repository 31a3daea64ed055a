//! The secret that proves to a waiter that one of the fleet's scripts published its grant.
//!
//! A client that may publish, and read the queue, can write a message that looks like a grant. So
//! each command that may grant passes the scripts a secret, and they publish a MAC with the grant
//! (`lua/grant.lua`). The secret is not a key in Redis, because that could be read. Invariant: the
//! secret is never shown, neither as it was given nor as it is sent.

use std::fmt;
use std::sync::Arc;

use sha1_smol::Sha1;

use crate::values::config::Secret;

/// The key with which the fleet's grants are authenticated.
#[derive(Clone)]
pub(crate) struct GrantKey {
    /// 40 hexadecimal digits; empty if the fleet has no secret.
    key: Arc<str>,
}

/// Whether a message is authentic.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Proof {
    /// One of the fleet's scripts wrote it.
    Right,
    /// Anyone may have written it.
    Wrong,
    /// There is no secret to check it with.
    Impossible,
}

impl GrantKey {
    /// Derives the key. The server gets a hash and not the secret itself, which may be another
    /// user's password there. An empty secret, with which a `nopass` user may log in, is known to
    /// everyone, so it proves nothing.
    pub(crate) fn new(secret: Option<&Secret>) -> Self {
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

    /// The MAC of a message on this channel; `None` if the fleet has no secret.
    pub(super) fn mac(&self, channel: &str, message: &str) -> Option<String> {
        let inner = || sha1(&[&self.key, channel, "\n", message]);
        (!self.key.is_empty()).then(|| sha1(&[&self.key, &inner()]))
    }

    /// Whether the MAC is right for the message on this channel.
    pub(super) fn check(&self, channel: &str, message: &str, mac: &str) -> Proof {
        let Some(right) = self.mac(channel, message) else {
            return Proof::Impossible;
        };
        // Compares all bytes, so that the time taken does not reveal where they differ.
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
