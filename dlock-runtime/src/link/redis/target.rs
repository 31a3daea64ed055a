//! Which server a pool's connections go to: one that is given by name or address, or the master that
//! the sentinels name.
//!
//! Invariants: once the master is known to have moved, no connection to an older one is used, and
//! what is still answered there counts as unanswered. No two connections that work go to servers
//! with different run ids, as far as these are known.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use tokio::sync::Notify;

use crate::observe;
use crate::values::config::Host;

/// A connection that ends when the master has moved.
pub(crate) trait Outdated: std::fmt::Debug + Send + Sync {
    /// Ends it; its waiters poll, and nothing that is under way gets an answer.
    fn end(&self);

    fn works(&self) -> bool;
}

/// The server that a connection was made to.
#[derive(Clone, Debug)]
pub(crate) struct Landing {
    pub(crate) run_id: Box<str>,
    /// Its address, as far as it is known.
    pub(crate) at: String,
}

/// So many servers are remembered.
const LANDINGS: usize = 8;

/// Where a pool's connections go.
#[derive(Debug, Default)]
pub(crate) struct ConnectionTarget {
    /// How many masters have been known or, of a server that is given, how often it was replaced.
    generation: AtomicU64,
    state: Mutex<TargetState>,
    /// Notified when the first master is known.
    found: Notify,
    /// Notified when the master may have moved.
    pub(crate) may_have_moved: Notify,
}

#[derive(Debug, Default)]
struct TargetState {
    master: Option<Host>,
    /// The connections of the current generation; some may have ended.
    connections: Vec<Weak<dyn Outdated>>,
    /// The servers to which connections were made, the present one last.
    landings: Vec<Landing>,
    /// Two servers to which the name leads at the same time.
    several: Option<[String; 2]>,
}

impl TargetState {
    /// The name leads to both servers; `true`: that was not known.
    fn note_other_server(&mut self, both: &[String; 2]) -> bool {
        let is_news = self.several.is_none();
        self.several.get_or_insert_with(|| both.clone());
        is_news
    }
}

impl ConnectionTarget {
    pub(crate) fn generation(&self) -> u64 {
        self.generation.load(Ordering::Acquire)
    }

    /// Ends once a first master is known.
    pub(crate) async fn found(&self) {
        if self.lock().master.is_none() {
            self.found.notified().await;
        }
    }

    /// A majority of the sentinels, who were asked in generation `asked`, names this master. If it is
    /// a new one, connections to the old one end. Returns the generation of the new ones; `None`:
    /// the master moved while they were asked, so what they said may be about the one before.
    pub(crate) fn master_is(&self, master: &Host, asked: u64) -> Option<u64> {
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
        drop(state); // what ends tells the driver
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
    pub(crate) fn attach(&self, connection: &Arc<dyn Outdated>, generation: u64) {
        let mut state = self.lock();
        state.connections.retain(|it| it.strong_count() > 0);
        if generation == self.generation() {
            state.connections.push(Arc::downgrade(connection));
            return;
        }
        drop(state);
        connection.end();
    }

    /// A connection was made to the server that the configuration gives, begun in generation `asked`.
    /// If that is another server now, it was restarted, or a failover changed what its name means:
    /// the older connections end, because their locks are not this server's.
    ///
    /// # Errors
    /// If a connection to a later server works: the name leads to several. Which ones, unless that
    /// was told before.
    pub(crate) fn lands(
        &self,
        connection: &Arc<dyn Outdated>,
        landing: Landing,
        asked: u64,
    ) -> Result<(), Option<[String; 2]>> {
        let mut state = self.lock();
        state.connections.retain(|it| it.strong_count() > 0);
        let mut older = Vec::new();
        if let Some(present) = state.landings.last()
            && present.run_id != landing.run_id
        {
            let both = [present.at.clone(), landing.at.clone()];
            let was_left = (state.landings.iter()).any(|it| it.run_id == landing.run_id);
            let mut present = state.connections.iter().filter_map(Weak::upgrade);
            if was_left && present.any(|it| it.works()) {
                // An attempt that began before the change proves nothing.
                let is_news = asked == self.generation() && state.note_other_server(&both);
                return Err(is_news.then_some(both));
            }
            older = std::mem::take(&mut state.connections);
            self.generation.fetch_add(1, Ordering::AcqRel);
        }
        state.landings.retain(|it| it.run_id != landing.run_id);
        if state.landings.len() == LANDINGS {
            state.landings.remove(0);
        }
        state.landings.push(landing);
        state.connections.push(Arc::downgrade(connection));
        drop(state); // what ends tells the driver
        for connection in older.iter().filter_map(Weak::upgrade) {
            connection.end();
        }
        Ok(())
    }

    /// The server with this run id says that it is a replica. If connections go there, all of them
    /// end, and the name may lead back to one that was left before.
    pub(crate) fn is_replica(&self, run_id: &str) {
        let mut state = self.lock();
        if state.landings.last().is_none_or(|it| *it.run_id != *run_id) {
            return;
        }
        state.landings.clear();
        let older = std::mem::take(&mut state.connections);
        self.generation.fetch_add(1, Ordering::AcqRel);
        drop(state); // what ends tells the driver
        for connection in older.iter().filter_map(Weak::upgrade) {
            connection.end();
        }
    }

    /// The server to which connections go, if it was given.
    pub(crate) fn landing(&self) -> Option<Landing> {
        self.lock().landings.last().cloned()
    }

    /// The name leads to this server, too; `true`: that was not known.
    pub(crate) fn leads_beside(&self, present: &Landing, other: &str) -> bool {
        self.lock()
            .note_other_server(&[present.at.clone(), other.to_owned()])
    }

    /// Two servers to which the name leads, if it was seen to lead to several.
    pub(crate) fn several(&self) -> Option<[String; 2]> {
        self.lock().several.clone()
    }

    fn lock(&self) -> MutexGuard<'_, TargetState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
