//! A connection to the node that served a lock's slot a moment ago. A command that only finishes
//! what was begun is sent again to the node that serves the slot now, if the first one said that it
//! did not execute it; an acquire that was `MOVED` is repeated by its caller.

use std::sync::Arc;
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::time::Instant;

use super::nodes::ClusterNodes;
use crate::backend::batched::{BatchedAnswer, ReleaseCommand};
use crate::backend::command_error::CommandError;
use crate::backend::{Answer, Link};
use crate::policy::commands::{
    Acquire, Acquired, AcquiredAll, Cancelled, Claim, GivenBack, Keep, Polled, Renewal, Renewed,
};
use crate::policy::server_check::Answers;
use crate::policy::writes::{Writes, Wrote};
use crate::values::error::Reason;
use crate::values::moment::Moment;
use crate::values::report::{Part, Scanned, Stored};
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

    fn acquire_all<'a>(
        &'a self,
        commands: &'a [Acquire],
        within: Duration,
    ) -> Answer<'a, AcquiredAll> {
        self.node.acquire_all(commands, within)
    }

    fn poll<'a>(&'a self, claim: &'a Claim, within: Duration) -> Answer<'a, Polled> {
        at_its_node!(self, &claim.key, within, |node| node.poll(claim, within))
    }

    fn heartbeat<'a>(&'a self, claim: &'a Claim, within: Duration) -> Answer<'a, Option<Polled>> {
        self.node.heartbeat(claim, within)
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

    fn cancel<'a>(
        &'a self,
        claim: &'a Claim,
        keep: Keep,
        not_after: u64,
        within: Duration,
    ) -> Answer<'a, Cancelled> {
        at_its_node!(self, &claim.key, within, |node| async {
            let cancelled = node.cancel(claim, keep, not_after, within).await?;
            if !(cancelled.found || cancelled.conclusive || Arc::ptr_eq(node, &self.node)) {
                // At another node than its acquire, which it may have overtaken.
                let why = Reason::new("the acquire may arrive yet");
                return Err(CommandError::Unclear(why));
            }
            Ok(cancelled)
        })
    }

    /// Of several, those that are elsewhere count as failed, and the watchdog asks again.
    fn renew<'a>(&'a self, items: &'a [Renewal], within: Duration) -> Answer<'a, Vec<Renewed>> {
        let key = items.first().map_or("", |first| &first.claim.key);
        at_its_node!(self, key, within, |node| node.renew(items, within))
    }

    fn downgrade<'a>(&'a self, claim: &'a Claim, ttl: Ttl, within: Duration) -> Answer<'a, bool> {
        at_its_node!(self, &claim.key, within, |node| node
            .downgrade(claim, ttl, within))
    }

    fn holds<'a>(&'a self, claim: &'a Claim, within: Duration) -> Answer<'a, bool> {
        at_its_node!(self, &claim.key, within, |node| node.holds(claim, within))
    }

    fn write<'a>(
        &'a self,
        claim: &'a Claim,
        writes: &'a Writes<'a>,
        within: Duration,
    ) -> Answer<'a, Wrote> {
        at_its_node!(self, &claim.key, within, |node| node
            .write(claim, writes, within))
    }

    fn read<'a>(&'a self, key: &'a str, within: Duration) -> Answer<'a, Option<String>> {
        at_its_node!(self, key, within, |node| node.read(key, within))
    }

    fn scan<'a>(&'a self, prefix: &'a str, cursor: u64, within: Duration) -> Answer<'a, Scanned> {
        self.node.scan(prefix, cursor, within)
    }

    fn inspect<'a>(
        &'a self,
        keys: &'a [&'a str],
        part: Part,
        within: Duration,
    ) -> Answer<'a, Vec<Stored>> {
        let key = keys.first().copied().unwrap_or_default();
        at_its_node!(self, key, within, |node| node.inspect(keys, part, within))
    }

    fn ping(&self, within: Duration) -> Answer<'_, ()> {
        self.node.ping(within)
    }

    fn check(&self, within: Duration) -> Answer<'_, Vec<Answers>> {
        self.node.check(within)
    }
}
