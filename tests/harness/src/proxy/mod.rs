//! A wire between clients and one Redis server that can go silent, lose one direction, or be cut
//! inside a chosen request.
//!
//! * this file: the verbs, which change what happens on all connections, live and future, from the
//!   moment they return;
//! * `trigger`: [`Proxy::on`], an [`Action`] at one chosen request, which takes precedence over the
//!   verb; `matcher`: the choice;
//! * `mode`: what the verbs set; `link`: the state of one connection; `serve`: its life; `pump`:
//!   its two directions;
//! * `delay`: [`DelayProxy`], another proxy, for measurements: a wire that is only long.
//!
//! It runs on a thread of its own, in real time, so it works on while the test's runtime is
//! blocked, paused or gone. Frames are forwarded whole; bytes are never reordered, and never lost
//! in the middle of a connection that then goes on: TCP has no holes. Only pushed messages may be
//! lost, delayed or doubled one by one, by a trigger: to the client that looks like a server that
//! published over another connection.

mod delay;
mod link;
mod matcher;
mod mode;
mod pump;
mod serve;
mod trigger;

use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use crate::server::port::{self, Claim};
use crate::wait::until_blocking;
use mode::{Flow, Shared};
use trigger::Registered;

pub use delay::DelayProxy;
pub use matcher::Matcher;
pub use trigger::{Action, Trigger};

/// A running proxy. Dropping it closes every connection, and loses what is held.
#[must_use = "dropping it closes every connection"]
pub struct Proxy {
    addr: SocketAddr,
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
    _claim: Claim,
}

impl Proxy {
    /// Starts a proxy to `upstream`, which need not exist yet: each client connection opens one of
    /// its own.
    pub fn start(upstream: SocketAddr) -> Self {
        let (listener, claim) = port::listener();
        let addr = listener.local_addr().expect("the address just bound");
        let shared = Arc::new(Shared::new(upstream));
        let serving = Arc::clone(&shared);
        let thread = thread::Builder::new()
            .name("dlock-proxy".to_owned())
            .spawn(move || serve::run(listener, &serving))
            .expect("a thread");
        Self {
            addr,
            shared,
            thread: Some(thread),
            _claim: claim,
        }
    }

    /// `redis://127.0.0.1:port`.
    #[must_use]
    pub fn url(&self) -> String {
        format!("redis://{}", self.addr)
    }

    /// The address that it listens on.
    #[must_use]
    pub fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// Everything passes again, without delay. Connections that have lost bytes are reset: they
    /// could only answer a request with the reply to another.
    pub fn pass(&self) {
        self.flows(Flow::Pass, Flow::Pass);
        self.shared.mode.send_modify(|mode| {
            mode.refuse = false;
            mode.delay = Duration::ZERO;
        });
    }

    /// Swallows both directions and keeps sockets open, also those that the other side closes: a
    /// cable that was pulled, for good.
    pub fn blackhole(&self) {
        self.flows(Flow::Swallow, Flow::Swallow);
    }

    /// Requests pass and are executed; replies and messages are swallowed.
    pub fn drop_replies(&self) {
        self.flows(Flow::Pass, Flow::Swallow);
    }

    /// Requests are swallowed; replies and messages pass.
    pub fn drop_requests(&self) {
        self.flows(Flow::Swallow, Flow::Pass);
    }

    /// Keeps both directions back until another verb: a partition that ends before TCP gives up,
    /// and then delivers everything.
    pub fn stall(&self) {
        self.flows(Flow::Stall, Flow::Stall);
    }

    /// Requests pass and are executed; replies and messages are kept back until another verb.
    pub fn stall_replies(&self) {
        self.flows(Flow::Pass, Flow::Stall);
    }

    /// Resets every live connection; returns once the clients' sockets are closed. Held frames stay
    /// held.
    pub fn cut_all(&self) {
        self.shared.mode.send_modify(|mode| mode.cuts += 1);
        let cuts = self.shared.mode.borrow().cuts;
        until_blocking("connections are cut", CAP, || {
            self.shared.live_born_before(cuts) == 0
        });
    }

    /// Resets new connections at once, until [`pass`](Self::pass). Live ones stay: see
    /// [`cut_all`](Self::cut_all).
    pub fn refuse(&self) {
        self.shared.mode.send_modify(|mode| mode.refuse = true);
    }

    /// Delays each direction by `delay`, until [`pass`](Self::pass): a round trip takes twice as
    /// long. Bytes that arrive while others are delayed may take up to twice `delay`.
    pub fn delay(&self, delay: Duration) {
        self.shared.mode.send_modify(|mode| mode.delay = delay);
    }

    /// Client connections that are open now.
    #[must_use]
    pub fn live(&self) -> usize {
        self.shared.live_born_before(u64::MAX)
    }

    /// Client connections accepted since the start, refused ones included.
    #[must_use]
    pub fn accepted(&self) -> u64 {
        self.shared.accepted()
    }

    /// Applies `action` to the first request ([`Matcher::nth`]: the nth) that matches from now on,
    /// on any connection; an action on messages, to the first message.
    ///
    /// If several triggers are due at one request, the first one registered acts, and those with
    /// [`Action::Signal`] fire as well.
    #[allow(clippy::must_use_candidate, reason = "registering is the effect")]
    pub fn on(&self, matcher: Matcher, action: Action) -> Trigger {
        let registered = Arc::new(Registered::new(matcher, action));
        self.shared.register(Arc::clone(&registered));
        Trigger::new(registered)
    }

    /// Removes all triggers. Their handles keep their counts, and held frames stay held.
    pub fn clear_triggers(&self) {
        self.shared.clear_triggers();
    }

    /// Releases everything that [`Action::Hold`], [`Action::HoldReply`] and the like keep back now.
    pub fn release_held(&self) {
        self.shared.mode.send_modify(|mode| mode.releases += 1);
    }

    fn flows(&self, requests: Flow, replies: Flow) {
        self.shared.mode.send_modify(|mode| {
            mode.requests = requests;
            mode.replies = replies;
        });
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.shared.mode.send_modify(|mode| mode.ended = true);
        if let Some(thread) = self.thread.take() {
            // Its panic, if any, is on stderr already; a second one here would abort the test.
            let _ = thread.join();
        }
    }
}

impl fmt::Debug for Proxy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mode = *self.shared.mode.borrow();
        f.debug_struct("Proxy")
            .field("addr", &self.addr)
            .field("mode", &mode)
            .finish_non_exhaustive()
    }
}

const CAP: Duration = Duration::from_secs(10);

#[cfg(test)]
mod tests;
