//! A wire between a client and a Redis server that can go dark, lose one way, or be cut inside a chosen request. (skeleton: signatures only)

use std::net::SocketAddr;
use std::time::Duration;

/// A running proxy. Dropping it closes every connection.
#[derive(Debug)]
pub struct Proxy {}

#[allow(
    unused_variables,
    clippy::unused_self,
    clippy::unused_async,
    reason = "skeleton"
)]
impl Proxy {
    /// Starts a proxy to `upstream`, on a thread of its own.
    #[must_use]
    pub fn start(upstream: SocketAddr) -> Self {
        unimplemented!()
    }
    /// `redis://127.0.0.1:port`.
    #[must_use]
    pub fn url(&self) -> String {
        unimplemented!()
    }
    /// The address it listens on.
    #[must_use]
    pub fn addr(&self) -> SocketAddr {
        unimplemented!()
    }
    /// Everything passes again. Connections that lost bytes are cut: TCP has no holes.
    pub fn pass(&self) {}
    /// Swallows both ways, sockets stay open.
    pub fn blackhole(&self) {}
    /// Requests pass, replies are swallowed.
    pub fn drop_replies(&self) {}
    /// Requests are swallowed, replies (and messages) pass.
    pub fn drop_requests(&self) {}
    /// Keeps both ways back until `pass`: a short partition, which TCP repairs.
    pub fn stall(&self) {}
    /// Requests pass, replies are kept back until `pass`.
    pub fn stall_replies(&self) {}
    /// Resets every live connection, and returns once they are closed.
    pub fn cut_all(&self) {}
    /// Closes new connections at once, until `pass`.
    pub fn refuse(&self) {}
    /// Delays each direction by this much.
    pub fn delay(&self, delay: Duration) {}
    /// Connections that are open now.
    #[must_use]
    pub fn live(&self) -> usize {
        unimplemented!()
    }
    /// Connections accepted since the start, refused ones included.
    #[must_use]
    pub fn accepted(&self) -> u64 {
        unimplemented!()
    }
    /// Does `action` to the first (or [`Matcher::nth`]) request that matches from now on, on whichever connection.
    pub fn on(&self, matcher: Matcher, action: Action) -> Trigger {
        unimplemented!()
    }
    /// Lets go of whatever `Hold` and `HoldReply` keep back.
    pub fn release_held(&self) {}
}

/// What a trigger does to its request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Action {
    /// Cut without forwarding it.
    CutBefore,
    /// Forward its first n bytes, then cut.
    CutInside(usize),
    /// Forward it, wait until its reply is at the proxy (so the server has executed it), then cut before any reply byte.
    CutAfter,
    /// Forward it, let n bytes of its reply through, then cut.
    CutReply(usize),
    /// Keep it and all later requests of its connection back until `release_held`, even if the client goes in the meantime.
    Hold,
    /// Forward it, and keep its reply and all later ones of the connection back until `release_held`.
    HoldReply,
    /// Nothing: tell only.
    Signal,
}

/// Which request a trigger is for.
#[derive(Debug)]
pub struct Matcher {}

#[allow(unused_variables, clippy::needless_pass_by_value, reason = "skeleton")]
impl Matcher {
    /// Any request.
    #[must_use]
    pub fn any() -> Self {
        unimplemented!()
    }
    /// Requests of this command, in any case.
    #[must_use]
    pub fn command(name: &str) -> Self {
        unimplemented!()
    }
    /// `EVAL` and `EVALSHA`.
    #[must_use]
    pub fn script() -> Self {
        unimplemented!()
    }
    /// Requests for which this is true; it gets the raw bytes.
    #[must_use]
    pub fn when(predicate: impl Fn(&[u8]) -> bool + Send + Sync + 'static) -> Self {
        unimplemented!()
    }
    /// And that contain these bytes anywhere.
    #[must_use]
    pub fn containing(self, needle: impl Into<Vec<u8>>) -> Self {
        unimplemented!()
    }
    /// And of those the nth, from 1.
    #[must_use]
    pub fn nth(self, n: u64) -> Self {
        unimplemented!()
    }
    /// And each one after it as well: the trigger is no longer one-shot.
    #[must_use]
    pub fn every(self) -> Self {
        unimplemented!()
    }
}

/// A registered trigger. Dropping the handle leaves it in place.
#[derive(Debug)]
pub struct Trigger {}

#[allow(clippy::unused_async, reason = "skeleton")]
impl Trigger {
    /// Waits until the action has been done (10 s, then it panics).
    pub async fn seen(&self) {
        unimplemented!()
    }
    /// How often the action has been done.
    #[must_use]
    pub fn fired(&self) -> u64 {
        unimplemented!()
    }
    /// How many requests have matched, those before and after the nth included.
    #[must_use]
    pub fn count(&self) -> u64 {
        unimplemented!()
    }
}
