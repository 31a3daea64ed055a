//! The task that leads a key's local queue: it sends one acquire for the first waiter, polls while
//! that stands in the server's queue, and goes on for the next.
//!
//! It ends when nobody waits any more. If it ends earlier (with its runtime), all waiters are
//! woken, and one of them starts another leader. Invariant: the outcome of every command reaches
//! the local queue, or its token is cleaned up.
//!
//! Never in this folder: who is next (`client::local_queue`), how long to pause (`client::retry`).

mod answers;

use std::hash::{BuildHasher, RandomState};
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use tokio::runtime::Handle;

use crate::backend::Link;
use crate::backend::command_error::CommandError;
use crate::backend::joined::yield_to_ready_tasks;
use crate::client::local_queue::{Attempt, Grant, LeaderStep};
use crate::client::queue_key::QueueKey;
use crate::client::retry::{Jitter, Retries};
use crate::client::spec::AcquireSpec;
use crate::driver::attempt::{self, Landed, Occupied, OpenAttempt, SentAcquire};
use crate::driver::core::Core;
use crate::driver::local_queues::{FirstAnswered, LeaderEpoch};
use crate::policy::commands::{Left, Polled};
use crate::values::entry;
use crate::values::moment::Moment;
use crate::values::token::Token;

/// How often a leader shows its waiters that it responds, at least.
const CHECK_AT_LEAST_EVERY: Duration = Duration::from_secs(1);

/// A poll that takes longer is repeated, so that the queue entry is kept alive.
const POLL_AT_MOST: Duration = Duration::from_secs(1);

/// Leaders of different processes get different jitter.
static SEED: LazyLock<u64> = LazyLock::new(|| RandomState::new().hash_one(0));

pub(super) struct Leader {
    core: Arc<Core>,
    /// The request of the waiter that made it leader; it says which queue is led.
    spec: Arc<AcquireSpec>,
    epoch: LeaderEpoch,
    /// The queue knows that this leader ends, so its drop tells nobody.
    dismissed: bool,
    /// Made when they are first needed: most locks are free.
    retries: Option<Box<Retries>>,
}

/// A leader whose first acquire has ended, and what that was granted.
pub(super) type FirstAnswer = (Leader, Option<(Token, Grant)>);

impl Leader {
    /// Only for the caller that was given this leader epoch.
    pub(super) fn new(core: Arc<Core>, spec: Arc<AcquireSpec>, leader_epoch: LeaderEpoch) -> Self {
        Self {
            core,
            spec,
            epoch: leader_epoch,
            dismissed: false,
            retries: None,
        }
    }

    /// Sends the first acquire, for the waiter that made it leader; returns what was granted. The
    /// poll that returns it has to tell the queue, by [`answered`](Self::answered) or
    /// [`go_on`](Self::go_on): nobody else knows of the grant, and its token would never be
    /// released.
    #[expect(
        clippy::manual_async_fn,
        reason = "an `async fn` holds its arguments twice, and every lock boxes this future"
    )]
    pub(super) fn first(mut self, now: Moment) -> impl Future<Output = FirstAnswer> + Send {
        async move {
            let granted = self.acquire(None, now).await;
            (self, granted)
        }
    }

    fn queue_key(&self) -> &QueueKey {
        &self.spec.queue_key
    }

    fn retries(&mut self) -> &mut Retries {
        let jitter = || Jitter::seeded(self.epoch.wrapping_add(*SEED));
        let retries = &mut self.retries;
        retries.get_or_insert_with(|| Box::new(Retries::new(jitter())))
    }

    /// The server answers, and the key is as it should be.
    fn succeeded(&mut self) {
        if let Some(retries) = &mut self.retries {
            retries.succeeded();
        }
    }

    /// What the waiter reads that has sent the first acquire.
    pub(super) fn answered(&mut self, granted: Option<(Token, Grant)>) -> FirstAnswered {
        if granted.is_some() {
            self.succeeded();
        }
        FirstAnswered {
            leader_epoch: self.epoch,
            granted,
        }
    }

    /// The queue knows that this leader ends, since nobody waits.
    pub(super) fn dismiss(mut self) {
        self.dismissed = true;
    }

    /// Goes on in a task of its own while anybody waits. `granted`: what no waiter has read.
    pub(super) fn go_on(mut self, granted: Option<(Token, Grant)>, runtime: &Handle) {
        if let Some((token, grant)) = granted {
            self.granted_to_leader(token, grant);
        }
        let local_queues = self.core.local_queues();
        let rests = local_queues.at(self.queue_key(), |it| {
            it.queue_state.dismiss_if_idle(self.epoch)
        });
        self.dismissed |= rests.unwrap_or(true);
        if !self.dismissed {
            runtime.spawn(self.run());
        }
    }

    async fn run(mut self) {
        loop {
            let now = self.now();
            let (next, first) = self.next(now);
            match (next, first) {
                (LeaderStep::Acquire, Some(spec)) => {
                    if let Some((token, grant)) = self.acquire(Some(&spec), now).await {
                        self.granted_to_leader(token, grant);
                    }
                }
                (LeaderStep::Poll(attempt), _) => self.poll(attempt).await,
                (LeaderStep::GiveUp(attempt), _) => self.core.hand_to_watchdog(Some(attempt.token)),
                // All waiters have left, or the one whose turn it is has been woken.
                (LeaderStep::Acquire, None) | (LeaderStep::PassOn, _) => {}
                (LeaderStep::Sleep(until), _) => self.sleep(until).await,
                (LeaderStep::Rest, _) => return,
            }
        }
    }

    /// What to do next; for an acquire also the waiter's request.
    fn next(&mut self, now: Moment) -> (LeaderStep, Option<Arc<AcquireSpec>>) {
        let next = self.core.local_queues().at(self.queue_key(), |it| {
            let next = it.next(self.epoch, now);
            let acquires = next == LeaderStep::Acquire;
            let first = it.queue_state.queue.first().filter(|_| acquires);
            (next, first.map(|it| it.spec.clone()))
        });
        let (next, first) = next.unwrap_or((LeaderStep::Rest, None));
        self.dismissed = next == LeaderStep::Rest;
        (next, first)
    }

    fn now(&self) -> Moment {
        self.core.backend().clock().now()
    }

    async fn sleep(&self, until: Moment) {
        let notify = self
            .core
            .local_queues()
            .at(self.queue_key(), |it| it.queue_state.notify())
            .unwrap_or_default();
        let pause = self.now().until(until).min(CHECK_AT_LEAST_EVERY);
        let notified = tokio::time::timeout(pause, notify.notified()).await;
        if notified.is_ok() {
            // Mostly notified by a holder of this process whose release is about to be sent. The
            // server would execute an acquire in the same write before it tells the next waiter
            // elsewhere of its grant, so let the acquire leave in the next write.
            yield_to_ready_tasks().await;
        }
    }
}

/// The two commands, acquire and poll.
impl Leader {
    /// Sends an acquire; returns what was granted. `spec`: for this waiter; `None`: for the one that
    /// made it leader.
    async fn acquire(&mut self, spec: Option<&AcquireSpec>, now: Moment) -> Option<(Token, Grant)> {
        let asked = self.try_acquire(spec, now).await;
        asked.unwrap_or_else(|error| {
            self.failed(error);
            None
        })
    }

    async fn try_acquire(
        &mut self,
        spec: Option<&AcquireSpec>,
        now: Moment,
    ) -> Result<Option<(Token, Grant)>, CommandError> {
        let (core, queue_key) = (&self.core, &self.spec.queue_key);
        let spec = spec.unwrap_or(&self.spec);
        let settings = core.settings();
        let (link, now) = core
            .backend()
            .link_at(now, queue_key.key(), settings.connect_timeout)
            .await?;
        let within = settings.command_timeout.min(spec.terms.validity());
        let sent = SentAcquire::prepare(core, spec, &link, true, (now, within));
        let local_queues = core.local_queues();
        if !local_queues.sending(Some((queue_key, self.epoch)), sent.attempt(), sent.at) {
            return Ok(None);
        }
        let open = OpenAttempt::new(core, &sent, &link, Some(queue_key));
        let answer = link.acquire(&sent.command, within).await;
        match open.read(spec, answer)? {
            Landed::Granted(grant) => return Ok(Some((sent.token, grant))),
            Landed::Taken(Occupied::Queued(busy)) => self.queued(sent.token, &busy, &*link),
            Landed::Taken(Occupied::Nothing(busy)) => self.not_queued(attempt::in_the_way(&busy)),
            Landed::Taken(Occupied::NoQuorum(answer)) => self.no_quorum(&answer),
            Landed::Late => self.late(),
            Landed::WrongKind(refusal) => self.reject(refusal),
        }
        Ok(None)
    }

    /// Asks what became of the attempt. A poll that the queue wants flushed early is sent by
    /// itself; any other goes out in a batch with those of other queues first.
    async fn poll(&mut self, attempt: Attempt) {
        let (core, token) = (self.core.clone(), attempt.token);
        let within = core.settings().command_timeout.min(POLL_AT_MOST);
        let link = match core.backend().link(self.queue_key().key(), within).await {
            Ok(link) => link,
            Err(error) => return self.poll_failed(token, error),
        };
        let local_queues = core.local_queues();
        let is_flushed_early = local_queues.at(self.queue_key(), |it| {
            it.queue_state.queue.take_early_flush()
        });
        let answer = if is_flushed_early.unwrap_or_default() {
            Ok(None)
        } else {
            link.heartbeat(&attempt.claim, within).await
        };
        let sent = self.now();
        let answer = match answer {
            // Sent by itself, it has the whole timeout, however late a slow server or process
            // answered the batch.
            Ok(None) => link.poll(&attempt.claim, within).await,
            Ok(Some(waits)) => Ok(waits),
            Err(error) => Err(error),
        };
        match answer {
            Ok(Polled::Yours { time, epoch, left }) => {
                self.granted_to_leader(token, Grant::in_turn(sent, left, epoch, time));
            }
            // The connection has changed, so a grant would reach nobody; or the key has lost its
            // time to live, which only an acquire handles.
            Ok(Polled::Queued(busy))
                if !answers_at(&attempt, &*link) || busy.left == Left::Endless =>
            {
                let now = self.now();
                let unowned = local_queues.at(self.queue_key(), |it| {
                    it.client().unreachable(&attempt, now)
                });
                self.core.hand_to_watchdog(unowned.flatten());
            }
            Ok(Polled::Queued(busy)) => self.queued(token, &busy, &*link),
            Ok(Polled::Gone { .. }) => {
                local_queues.nothing_there(Some(self.queue_key()), token, self.now());
            }
            Err(error) => self.poll_failed(token, error),
        }
    }
}

/// Whether grants for this attempt arrive on this connection.
fn answers_at(attempt: &Attempt, link: &dyn Link) -> bool {
    let entry = entry::read(&attempt.claim.value);
    entry.is_some_and(|it| it.address == link.address().map_or("", |address| address))
}

impl Drop for Leader {
    fn drop(&mut self) {
        if self.dismissed || self.core.is_inherited() {
            return;
        }
        let leader_epoch = self.epoch;
        self.core.local_queues().at(self.queue_key(), |it| {
            it.queue_state.leader_gone(leader_epoch);
        });
    }
}
