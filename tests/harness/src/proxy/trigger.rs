//! An action at one chosen request, and the handle that tells when it was done.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::sync::watch;

use super::matcher::Matcher;
use super::mode::Way;
use crate::wait::{until_blocking, within};

/// What a trigger does to its request, or to a message from the server. A cut resets the client's
/// connection; the server sees an orderly end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Action {
    /// Cut without forwarding it. Requests before it were forwarded.
    CutBefore,
    /// Forward its first n bytes, then cut. If these are all of its bytes, the server executes it,
    /// perhaps after the client has noticed the cut.
    CutInside(usize),
    /// Forward it, wait until its reply is at the proxy, then cut before any byte of the reply:
    /// certainly executed, and unknown to the client.
    CutAfter,
    /// Forward it, let n bytes of its reply through, then cut.
    CutReply(usize),
    /// Keep it and all later requests of its connection back until
    /// [`Proxy::release_held`](super::Proxy::release_held). They are delivered even if the client
    /// has gone in the meantime: a command that comes late.
    Hold,
    /// Forward it, wait until its reply is at the proxy, and keep that and all later replies back
    /// until [`Proxy::release_held`](super::Proxy::release_held): certainly executed, and the
    /// client still waits.
    HoldReply,
    /// The same, but messages pass: they overtake the replies that are kept back. Those are lost if
    /// the connection ends before.
    HoldReplyAlone,
    /// Of a message: lose it.
    LoseMessage,
    /// Of a message: keep it back until [`Proxy::release_held`](super::Proxy::release_held); later
    /// frames pass. It is lost if the connection ends before.
    HoldMessage,
    /// Of a message: deliver it twice. The trigger fires before it is delivered.
    RepeatMessage,
    /// Only fire, before the request is forwarded.
    Signal,
}

impl Action {
    /// The direction whose frames its matcher is shown.
    fn way(self) -> Way {
        match self {
            Action::LoseMessage | Action::HoldMessage | Action::RepeatMessage => Way::Replies,
            _ => Way::Requests,
        }
    }
}

/// The handle of a registered trigger. Dropping it leaves the trigger in place.
#[derive(Debug, Clone)]
pub struct Trigger(Arc<Registered>);

impl Trigger {
    pub(super) fn new(registered: Arc<Registered>) -> Self {
        Self(registered)
    }

    /// Waits until the action was done, or until the frame that it keeps back is there. Panics
    /// after 10 s (scaled).
    pub async fn seen(&self) {
        let mut fired = self.0.fired.subscribe();
        let seen = within(CAP, fired.wait_for(|&count| count > 0)).await;
        assert!(seen.is_some(), "never came to {:?}", self.0);
    }

    /// [`seen`](Self::seen) for synchronous code.
    pub fn seen_blocking(&self) {
        let what = format!("{:?}", self.0);
        until_blocking(&what, CAP, || self.fired() > 0);
    }

    /// How often the action was done.
    #[must_use]
    pub fn fired(&self) -> u64 {
        *self.0.fired.borrow()
    }

    /// How many requests have matched so far, including those before and after the nth.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.0.matched.load(Ordering::SeqCst)
    }
}

const CAP: Duration = Duration::from_secs(10);

#[derive(Debug)]
pub(super) struct Registered {
    matcher: Matcher,
    pub(super) action: Action,
    matched: AtomicU64,
    fired: watch::Sender<u64>,
}

impl Registered {
    pub(super) fn new(matcher: Matcher, action: Action) -> Self {
        Self {
            matcher,
            action,
            matched: AtomicU64::new(0),
            fired: watch::Sender::new(0),
        }
    }

    /// Counts a request or a message if it matches; returns whether the action is due at it. A
    /// signal fires at once.
    pub(super) fn is_due(&self, frame: &[u8], way: Way) -> bool {
        if self.action.way() != way || !self.matcher.matches(frame) {
            return false;
        }
        let number = self.matched.fetch_add(1, Ordering::SeqCst) + 1;
        let due = self.matcher.means(number);
        if due && !self.acts() {
            self.fire();
        }
        due
    }

    /// Whether the action does more than signal.
    pub(super) fn acts(&self) -> bool {
        self.action != Action::Signal
    }

    pub(super) fn fire(&self) {
        self.fired.send_modify(|count| *count += 1);
    }
}
