//! A command that is sent even if its caller goes.
//!
//! The client library does not send a command whose future is dropped before the connection's task
//! has taken it.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use redis::{RedisError, Value};
use tokio::runtime::Handle;
use tokio::task::unconstrained;
use tokio::time::timeout;

pub(super) type Query = Pin<Box<dyn Future<Output = Result<Value, RedisError>> + Send>>;

/// If it is dropped between its first poll and its end, a task of the connection's runtime awaits
/// the answer in its place.
pub(super) struct Kept {
    query: Option<Query>,
    has_begun: bool,
    runtime: Handle,
    /// For how long the task waits.
    within: Duration,
}

impl Kept {
    pub(super) fn new(
        query: impl Future<Output = Result<Value, RedisError>> + Send + 'static,
        runtime: &Handle,
        within: Duration,
    ) -> Self {
        Self {
            // Tokio's cooperative budget must not keep the first poll from sending it.
            query: Some(Box::pin(unconstrained(query))),
            has_begun: false,
            runtime: runtime.clone(),
            within,
        }
    }
}

impl Future for Kept {
    type Output = Result<Value, RedisError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        self.has_begun = true;
        let Some(query) = &mut self.query else {
            return Poll::Pending; // polled after its end
        };
        let answer = query.as_mut().poll(cx);
        if answer.is_ready() {
            self.query = None;
        }
        answer
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        if let Some(query) = self.query.take().filter(|_| self.has_begun) {
            let within = self.within;
            self.runtime
                .spawn(async move { timeout(within, query).await });
        }
    }
}
