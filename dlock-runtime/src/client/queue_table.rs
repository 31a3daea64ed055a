//! The local queues of a pool, by their keys.
//!
//! Belongs elsewhere: a decision about a lock. Invariant: a queue that is waited at, or whose
//! lock may be handed on, is never forgotten.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::host::ClientHost;
use super::queue_key::QueueKey;
use super::queue_state::QueueState;
use crate::values::hashed::HashedMap;
use crate::values::kind::Kind;
use crate::values::moment::Moment;
use crate::values::token::Token;

/// With fewer queues than this, 470 KB, none is swept: a busy pool's come and go by the hundred.
pub(crate) const SWEEP_AT_LEAST: usize = 1024;

/// As many queues as the batches in flight of a busy pool can end: 118 KB.
const SPARE_AT_MOST: usize = 256;

/// So many queues are looked at for one hint, besides those that are looked at for the last time.
pub(crate) const LOOKED_AT_MOST: usize = 100;

#[derive(Debug)]
pub(crate) struct QueueTable<H: ClientHost> {
    /// Boxed: most slots of a hash table are empty.
    pub(crate) by_key: HashedMap<QueueKey, Box<QueueState<H>>>,
    /// The queues that are not shared, by the token of the last acquire of each: whatever token a
    /// push names, one lookup finds its queue, however many wait for the key.
    pub(crate) own: HashedMap<Token, QueueKey>,
    /// Those of them that are waited at, and perhaps some others, in the order in which the waiters
    /// came; `None` where no node of a quorum sends hints, which name a key and no value.
    pub(crate) own_of_quorum: Option<BTreeSet<QueueKey>>,
    /// Boxes of removed queues, for the next ones: most queues come and go with each lock.
    pub(super) spare: Vec<Box<QueueState<H>>>,
    /// At this many queues, idle ones are swept.
    pub(super) sweep_at: usize,
}

impl<H: ClientHost> Default for QueueTable<H> {
    fn default() -> Self {
        Self {
            by_key: HashedMap::default(),
            own: HashedMap::default(),
            own_of_quorum: None,
            spare: Vec::new(),
            sweep_at: 0,
        }
    }
}

impl<H: ClientHost> QueueTable<H> {
    pub(crate) fn of_quorum() -> Self {
        Self {
            own_of_quorum: Some(BTreeSet::new()),
            ..Self::default()
        }
    }

    /// The queue of this key, new if there is none.
    pub(crate) fn at(&mut self, queue_key: &QueueKey, now: Moment) -> &mut QueueState<H> {
        self.sweep(now);
        let spare = || self.spare.pop().unwrap_or_default();
        self.by_key.entry(queue_key.clone()).or_insert_with(spare)
    }

    /// The calls that wait, at all queues.
    pub(crate) fn waiters(&self) -> impl Iterator<Item = &H::Request> {
        let queues = self.by_key.values();
        queues.flat_map(|it| it.queue.waiters().map(|waiter| &waiter.request))
    }

    pub(crate) fn keys(&self) -> Vec<QueueKey> {
        self.by_key.keys().cloned().collect()
    }

    /// An acquire of this queue, which is not shared, is about to be sent with this token.
    pub(super) fn sent(&mut self, queue_key: &QueueKey, token: Token) {
        if let Some(queue_state) = self.by_key.get_mut(queue_key) {
            if let Some(before) = queue_state.last_token.replace(token) {
                self.own.remove(&before);
            }
            self.own.insert(token, queue_key.clone());
            if let Some(own) = &mut self.own_of_quorum {
                own.insert(queue_key.clone());
            }
        }
    }

    /// The queues to which it is news that the lock is free at a node: the shared one, and of the
    /// others the first that is waited at, those whose waiters may hold the lock together with its
    /// waiter, and the first writer's, for whom a node may keep readers out. Of a great crowd only
    /// some: anybody may send such news, and the others ask by themselves.
    pub(crate) fn news_for(&mut self, key: &Arc<str>) -> Vec<QueueKey> {
        let Some(own) = &mut self.own_of_quorum else {
            return Vec::new();
        };
        let mut told = vec![QueueKey::for_all(key.clone())];
        let (mut first, mut has_writer, mut nobodys) = (None, false, Vec::new());
        let mut looked_at = 0;
        for queue_key in own.range(QueueKey::all_own(key)) {
            let queue = self.by_key.get(queue_key).map(|it| &it.queue);
            let Some(queue) = queue.filter(|it| it.has_waiters()) else {
                nobodys.push(queue_key.clone());
                continue;
            };
            looked_at += 1;
            let Some(waiter) = queue.first() else {
                continue;
            };
            let kind = H::kind(&waiter.request);
            let is_told = match kind {
                Kind::Write => !std::mem::replace(&mut has_writer, true),
                kind => first.is_none_or(|first| kind == first),
            };
            if is_told {
                told.push(queue_key.clone());
            }
            let first = first.get_or_insert(kind);
            if **first == Kind::Write || looked_at >= LOOKED_AT_MOST {
                break;
            }
        }
        for queue_key in nobodys {
            own.remove(&queue_key); // its waiter has the lock, or has left
        }
        told
    }

    /// The queue of this key that waits for this token.
    pub(crate) fn awaits(&self, key: &Arc<str>, token: Token) -> Option<QueueKey> {
        let for_all = QueueKey::for_all(key.clone());
        let own = self
            .own
            .get(&token)
            .filter(|queue_key| queue_key.key() == key);
        let awaits = |queue_key: &QueueKey| {
            #[cfg(test)]
            LOOKUPS.with(|lookups| lookups.set(lookups.get() + 1));
            let queue_state = self.by_key.get(queue_key);
            queue_state.is_some_and(|queue_state| queue_state.queue.awaits(token))
        };
        if awaits(&for_all) {
            return Some(for_all);
        }
        own.filter(|queue_key| awaits(queue_key)).cloned()
    }

    /// Forgets the queues of locks that are held so long that they can't be handed on any more.
    /// Runs when there are twice as many queues as the last sweep left, so it costs each queue a
    /// look or two.
    fn sweep(&mut self, now: Moment) {
        if self.by_key.len() < self.sweep_at.max(SWEEP_AT_LEAST) {
            return;
        }
        let all = self.by_key.iter();
        let idle = all.filter(|(_, queue_state)| queue_state.is_idle_at(now));
        let idle: Vec<QueueKey> = idle.map(|(queue_key, _)| queue_key.clone()).collect();
        for queue_key in &idle {
            self.remove(queue_key);
        }
        self.sweep_at = self.by_key.len() * 2;
        self.by_key.shrink_to(self.sweep_at.max(SWEEP_AT_LEAST));
    }

    pub(super) fn remove(&mut self, queue_key: &QueueKey) {
        let Some(mut queue_state) = self.by_key.remove(queue_key) else {
            return;
        };
        // After a peak the threshold falls again.
        self.sweep_at = self.sweep_at.min(self.by_key.len() * 4);
        if let Some(last_token) = queue_state.last_token {
            self.own.remove(&last_token);
            if let Some(own) = &mut self.own_of_quorum {
                own.remove(queue_key);
            }
        }
        if self.spare.len() < SPARE_AT_MOST {
            *queue_state = QueueState::default();
            self.spare.push(queue_state);
        }
    }
}

#[cfg(test)]
thread_local! {
    /// How many queues were looked up for a push.
    pub(crate) static LOOKUPS: std::cell::Cell<usize> = const { std::cell::Cell::new(0) };
}
