//! States of the machine, copied, compared and hashed for models that look up what they have seen.
//! What only saves time, or is the same in a whole run, is not compared.

use std::hash::{Hash, Hasher};

use crate::client::Client;
use crate::client::host::ClientHost;
use crate::client::queue_state::QueueState;
use crate::client::queue_table::QueueTable;

impl<H: ClientHost + Clone> Clone for Client<H>
where
    QueueState<H>: Clone,
{
    fn clone(&self) -> Self {
        let QueueTable {
            by_key,
            own,
            own_of_quorum,
            sweep_at,
            ..
        } = &self.queues;
        Self {
            host: self.host.clone(),
            rules: self.rules.clone(),
            queues: QueueTable {
                by_key: by_key.clone(),
                own: own.clone(),
                own_of_quorum: own_of_quorum.clone(),
                spare: Vec::new(),
                sweep_at: *sweep_at,
            },
            tokens: self.tokens.clone(),
            epochs: self.epochs,
            is_closed: self.is_closed,
        }
    }
}

impl<H: ClientHost<Holder: PartialEq> + PartialEq> PartialEq for Client<H>
where
    QueueState<H>: PartialEq,
{
    fn eq(&self, other: &Self) -> bool {
        self.host == other.host
            && self.tokens == other.tokens
            && self.epochs == other.epochs
            && self.is_closed == other.is_closed
            && self.queues.by_key == other.queues.by_key
    }
}

impl<H: ClientHost<Holder: Eq> + Eq> Eq for Client<H> where QueueState<H>: Eq {}

impl<H: ClientHost<Holder: Hash> + Hash> Hash for Client<H>
where
    QueueState<H>: Hash,
{
    fn hash<S: Hasher>(&self, state: &mut S) {
        let mut keys = self.queues.keys();
        keys.sort_unstable();
        for key in keys {
            self.queues.by_key.get(&key).hash(state);
        }
        (&self.host, &self.tokens, self.is_closed, self.epochs).hash(state);
    }
}
