//! Which server a pool's connections go to: a fixed one, or the master that the sentinels name.
//!
//! Invariant: once the master is known to have moved, no connection to an older one is used, and
//! what is still answered there counts as unanswered.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use tokio::sync::Notify;

use crate::observe;
use crate::values::config::Host;

/// A connection that ends when the master has moved.
pub(super) trait Outdated: std::fmt::Debug + Send + Sync {
    /// Ends it; its waiters poll, and nothing that is under way gets an answer.
    fn end(&self);
}

/// Where a pool's connections go.
#[derive(Debug, Default)]
pub(super) struct Target {
    /// How many masters have been known; always 0 for a fixed server.
    generation: AtomicU64,
    state: Mutex<State>,
    /// Notified when the first master is known.
    found: Notify,
    /// Notified when the master may have moved.
    pub(super) may_have_moved: Notify,
}

#[derive(Debug, Default)]
struct State {
    master: Option<Host>,
    /// The connections of the current generation; some may have ended.
    connections: Vec<Weak<dyn Outdated>>,
}

impl Target {
    pub(super) fn generation(&self) -> u64 {
        self.generation.load(Ordering::Acquire)
    }

    /// Ends once a first master is known.
    pub(super) async fn found(&self) {
        if self.lock().master.is_none() {
            self.found.notified().await;
        }
    }

    /// A majority of the sentinels, who were asked in generation `asked`, names this master. If it is
    /// a new one, connections to the old one end. Returns the generation of the new ones; `None`:
    /// the master moved while they were asked, so what they said may be about the one before.
    pub(super) fn master_is(&self, master: &Host, asked: u64) -> Option<u64> {
        let mut state = self.lock();
        if state.master.as_ref() == Some(master) {
            return Some(self.generation());
        }
        if asked != self.generation() {
            return None;
        }
        let old = state.master.replace(master.clone());
        let generation = asked + 1;
        self.generation.store(generation, Ordering::Release);
        let older = std::mem::take(&mut state.connections);
        drop(state); // what ends tells the engine
        for connection in older.iter().filter_map(Weak::upgrade) {
            connection.end();
        }
        match old {
            Some(old) => observe::master_moved(&old, master),
            None => self.found.notify_one(),
        }
        Some(generation)
    }

    /// A connection was made: it ends when the master moves, or at once if it has.
    pub(super) fn attach(&self, connection: &Arc<dyn Outdated>, generation: u64) {
        let mut state = self.lock();
        state.connections.retain(|it| it.strong_count() > 0);
        if generation == self.generation() {
            state.connections.push(Arc::downgrade(connection));
            return;
        }
        drop(state);
        connection.end();
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
