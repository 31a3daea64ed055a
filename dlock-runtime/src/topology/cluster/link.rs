//! A connection to the node that served a lock's slot a moment ago. A command that only finishes
//! what was begun is sent again to the node that serves the slot now, if the first one said that it
//! did not execute it; an acquire that was `MOVED` is repeated by its caller.

use std::sync::Arc;
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::time::Instant;

use super::nodes::ClusterNodes;
use crate::link::batched::{BatchedAnswer, ReleaseCommand};
use crate::link::command_error::CommandError;
use crate::link::{Answer, Link, LinkCommand, LinkReply};
use crate::rules::commands::{Acquire, Acquired, Claim, GivenBack, Keep};
use crate::values::error::Reason;
use crate::values::moment::Moment;
use crate::values::ttl::Ttl;

/// So often a command is sent on; each time one node says that another one serves the slot.
const MOST_REDIRECTS: u32 = 5;

/// After so many, nodes name each other, as they do for a moment at the end of a slot's move.
const AT_ONCE: u32 = 2;
const BETWEEN_REDIRECTS: Duration = Duration::from_millis(20);

#[derive(Debug)]
pub(super) struct ClusterLink {
    cluster: Arc<ClusterNodes>,
    node: Arc<dyn Link>,
}

impl ClusterLink {
    pub(super) fn new(cluster: Arc<ClusterNodes>, node: Arc<dyn Link>) -> Self {
        Self { cluster, node }
    }
}

/// Sends a command about this key until a node executes it or fails to.
macro_rules! at_its_node {
    ($self:ident, $key:expr, $within:ident, |$node:ident| $command:expr) => {
        Box::pin(async move {
            let until = Instant::now() + $within;
            let mut moved: Option<Arc<dyn Link>> = None;
            let (mut redirects, mut $within) = (0, $within);
            loop {
                let $node = moved.as_ref().unwrap_or(&$self.node);
                match $command.await {
                    Err(CommandError::Elsewhere(_)) if redirects < MOST_REDIRECTS => {}
                    ended => return ended,
                }
                if redirects >= AT_ONCE {
                    tokio::time::sleep(BETWEEN_REDIRECTS.min($within)).await;
                }
                redirects += 1;
                $within = until.saturating_duration_since(Instant::now());
                moved = Some($self.cluster.connect_to_owner($key, $within).await?);
                $within = until.saturating_duration_since(Instant::now());
            }
        })
    };
}

impl Link for ClusterLink {
    fn server_time_at(&self, now: Moment) -> u64 {
        self.node.server_time_at(now)
    }

    fn runtime(&self) -> Option<&Handle> {
        self.node.runtime()
    }

    fn address(&self) -> Option<&Arc<str>> {
        self.node.address()
    }

    fn not_after(&self, now: Moment, within: Duration, lease: Ttl) -> u64 {
        self.node.not_after(now, within, lease)
    }

    fn acquire<'a>(
        &'a self,
        command: &'a Acquire,
        within: Duration,
    ) -> BatchedAnswer<'a, &'a Acquire, Acquired> {
        self.node.acquire(command, within)
    }

    fn release<'a>(
        &'a self,
        claim: &'a Claim,
        keep: Keep,
        within: Duration,
    ) -> BatchedAnswer<'a, ReleaseCommand<'a>, GivenBack> {
        BatchedAnswer::Boxed(at_its_node!(self, &claim.key, within, |node| node
            .release(claim, keep, within)))
    }

    /// Of several renewals, those that are elsewhere count as failed, and the watchdog asks again.
    fn call<'a>(&'a self, command: LinkCommand<'a>, within: Duration) -> Answer<'a, LinkReply> {
        if !command.rules().is_redirected {
            return self.node.call(command, within);
        }
        at_its_node!(self, command.key(), within, |node| async {
            let reply = node.call(command, within).await?;
            if let LinkReply::Cancelled(cancelled) = &reply
                && !(cancelled.found || cancelled.conclusive || Arc::ptr_eq(node, &self.node))
            {
                // At another node than its acquire, which it may have overtaken.
                let why = Reason::new("the acquire may arrive yet");
                return Err(CommandError::Unclear(why));
            }
            Ok(reply)
        })
    }
}
