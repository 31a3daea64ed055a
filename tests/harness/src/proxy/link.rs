//! The state of one connection: which reply is to be cut or held, what was lost, and what is kept
//! back.

use std::future::pending;
use std::sync::{Arc, Mutex};

use super::mode::{Flow, Mode, Shared, Way};
use super::trigger::Registered;
use crate::resp::{Kind, is_subscription};

/// One client connection. Dropping it takes it off the list of live ones.
pub(super) struct Link {
    pub(super) shared: Arc<Shared>,
    number: u64,
    /// `Mode::cuts` when it was accepted.
    born: u64,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// The number of forwarded requests that have a reply, and of replies seen; replies come in the
    /// order of the requests.
    asked: u64,
    answered: u64,
    plans: Vec<Plan>,
    lost_requests: bool,
    lost_replies: bool,
    /// Requests kept back.
    held: Option<Held>,
}

/// What is to be done to frames from the server.
struct Plan {
    at: Frame,
    trigger: Arc<Registered>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Frame {
    Reply(u64),
    /// The next confirmation.
    Confirmation,
}

/// Bytes for the other side, and the release count since which they are kept.
pub(super) struct Held {
    pub(super) bytes: Vec<u8>,
    pub(super) since: u64,
}

impl Held {
    pub(super) fn empty(since: u64) -> Self {
        Self {
            bytes: Vec::new(),
            since,
        }
    }
}

impl Link {
    pub(super) fn open(shared: Arc<Shared>, number: u64) -> Self {
        let born = shared.mode.borrow().cuts;
        shared.opened(number, born);
        Self {
            shared,
            number,
            born,
            state: Mutex::default(),
        }
    }

    /// Returns when the connection has to be reset: it was cut, or the wire passes again and this
    /// connection has lost bytes.
    pub(super) async fn cut(&self) {
        let must_end = |mode: &Mode| {
            mode.cuts != self.born
                || [Way::Requests, Way::Replies]
                    .into_iter()
                    .any(|way| mode.flow(way) == Flow::Pass && self.has_hole(way))
        };
        self.shared.mode_where(must_end).await;
    }

    /// Waits until it is known whether a frame may pass; `false`: it is lost.
    pub(super) async fn may_pass(&self, way: Way) -> bool {
        let mode = self.shared.mode_where(|mode| mode.flow(way) != Flow::Stall);
        match mode.await.flow(way) {
            // `cut` is about to end this connection.
            Flow::Pass if self.has_hole(way) => pending().await,
            Flow::Pass => true,
            Flow::Swallow | Flow::Stall => {
                self.make_hole(way);
                false
            }
        }
    }

    /// Waits until the end of one side may be passed on to the other: a silent wire carries no FIN.
    pub(super) async fn may_end(&self, way: Way) {
        let mode = self.shared.mode_where(|mode| mode.flow(way) == Flow::Pass);
        mode.await;
    }

    pub(super) async fn latency(&self) {
        let delay = self.shared.mode.borrow().delay;
        if !delay.is_zero() {
            tokio::time::sleep(delay).await;
        }
    }

    /// Counts a request that is about to be forwarded, and notes what is to be done to its reply.
    pub(super) fn ask(&self, request: &[u8], trigger: Option<Arc<Registered>>) {
        let mut state = self.state.lock().unwrap();
        let at = if is_subscription(request) {
            Frame::Confirmation
        } else {
            state.asked += 1;
            Frame::Reply(state.asked)
        };
        if let Some(trigger) = trigger {
            state.plans.push(Plan { at, trigger });
        }
    }

    /// Counts a frame from the server; returns the trigger that acts on it.
    pub(super) fn answer(&self, frame: &[u8]) -> Option<Arc<Registered>> {
        let mut state = self.state.lock().unwrap();
        let at = match Kind::of(frame) {
            Kind::Message => return None,
            Kind::Confirmation => Frame::Confirmation,
            // A reply that belongs to no request: a subscription was refused.
            Kind::Reply if state.answered == state.asked => Frame::Confirmation,
            Kind::Reply => {
                state.answered += 1;
                Frame::Reply(state.answered)
            }
        };
        let index = state.plans.iter().position(|plan| plan.at == at)?;
        Some(state.plans.remove(index).trigger)
    }

    pub(super) fn releases(&self) -> u64 {
        self.shared.mode.borrow().releases
    }

    /// Waits for a release after the one with this count.
    pub(super) async fn released(&self, since: u64) {
        let mode = self.shared.mode_where(|mode| mode.releases > since);
        mode.await;
    }

    /// Keeps requests back, together with those that are kept already.
    pub(super) fn hold(&self, bytes: &[u8]) -> u64 {
        let since = self.releases();
        let mut state = self.state.lock().unwrap();
        let held = state.held.get_or_insert_with(|| Held::empty(since));
        held.bytes.extend_from_slice(bytes);
        held.since
    }

    pub(super) fn take_held(&self) -> Option<Held> {
        self.state.lock().unwrap().held.take()
    }

    fn has_hole(&self, way: Way) -> bool {
        let state = self.state.lock().unwrap();
        match way {
            Way::Requests => state.lost_requests,
            Way::Replies => state.lost_replies,
        }
    }

    fn make_hole(&self, way: Way) {
        let mut state = self.state.lock().unwrap();
        match way {
            Way::Requests => state.lost_requests = true,
            Way::Replies => state.lost_replies = true,
        }
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        self.shared.closed(self.number);
    }
}
