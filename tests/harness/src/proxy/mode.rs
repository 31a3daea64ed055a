//! The state of the wire that the verbs set, and what all connections share.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::sync::watch;

use super::trigger::Registered;

/// What happens to the frames of one direction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Flow {
    Pass,
    /// Frames are lost; the connection can't be used afterwards.
    Swallow,
    /// Kept back.
    Stall,
}

/// A direction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Way {
    Requests,
    Replies,
}

/// The state of the wire. Every change wakes every connection.
#[derive(Debug, Clone, Copy)]
pub(super) struct Mode {
    pub(super) requests: Flow,
    pub(super) replies: Flow,
    pub(super) refuse: bool,
    pub(super) delay: Duration,
    /// How often all connections were cut: a connection that was accepted under a smaller count has
    /// to go.
    pub(super) cuts: u64,
    /// How often held frames were released: frames held under a smaller count are free.
    pub(super) releases: u64,
    /// The proxy was dropped.
    pub(super) ended: bool,
}

impl Mode {
    pub(super) fn flow(&self, way: Way) -> Flow {
        match way {
            Way::Requests => self.requests,
            Way::Replies => self.replies,
        }
    }
}

pub(super) struct Shared {
    pub(super) upstream: SocketAddr,
    pub(super) mode: watch::Sender<Mode>,
    triggers: Mutex<Vec<Arc<Registered>>>,
    accepted: AtomicU64,
    /// The live connections: their number, and `cuts` when they were accepted.
    live: Mutex<BTreeMap<u64, u64>>,
}

impl Shared {
    pub(super) fn new(upstream: SocketAddr) -> Self {
        let mode = Mode {
            requests: Flow::Pass,
            replies: Flow::Pass,
            refuse: false,
            delay: Duration::ZERO,
            cuts: 0,
            releases: 0,
            ended: false,
        };
        Self {
            upstream,
            mode: watch::Sender::new(mode),
            triggers: Mutex::default(),
            accepted: AtomicU64::new(0),
            live: Mutex::default(),
        }
    }

    pub(super) fn register(&self, trigger: Arc<Registered>) {
        self.triggers.lock().unwrap().push(trigger);
    }

    pub(super) fn clear_triggers(&self) {
        self.triggers.lock().unwrap().clear();
    }

    /// Shows a request or a message to every trigger; returns the one that has to act on it.
    pub(super) fn due(&self, frame: &[u8], way: Way) -> Option<Arc<Registered>> {
        // All of them count it, also those after the one that acts.
        let triggers = self.triggers.lock().unwrap();
        let due: Vec<_> = triggers.iter().filter(|it| it.is_due(frame, way)).collect();
        due.into_iter().find(|it| it.acts()).map(Arc::clone)
    }

    /// The number of a new connection.
    pub(super) fn accept(&self) -> u64 {
        self.accepted.fetch_add(1, Ordering::Relaxed)
    }

    pub(super) fn accepted(&self) -> u64 {
        self.accepted.load(Ordering::Relaxed)
    }

    pub(super) fn opened(&self, number: u64, born: u64) {
        self.live.lock().unwrap().insert(number, born);
    }

    pub(super) fn closed(&self, number: u64) {
        self.live.lock().unwrap().remove(&number);
    }

    pub(super) fn live_born_before(&self, cuts: u64) -> usize {
        let live = self.live.lock().unwrap();
        live.values().filter(|&&born| born < cuts).count()
    }

    /// Waits until the mode fits, and returns it.
    pub(super) async fn mode_where(&self, fits: impl FnMut(&Mode) -> bool) -> Mode {
        let mut mode = self.mode.subscribe();
        let found = mode.wait_for(fits).await;
        *found.expect("the sender is `self`")
    }
}
