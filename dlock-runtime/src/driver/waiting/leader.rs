//! The task that leads a key's local queue: it sends one acquire for the first waiter, polls while
//! that stands in the server's queue, and goes on for the next.
//!
//! It ends when nobody waits any more. If it ends earlier (with its runtime), all waiters are
//! woken, and one of them starts another leader. Invariant: the outcome of every command is told to
//! the machine, or that nobody will read it.
//!
//! Never in this folder: what to send next, what an answer means, how long to pause (`client`).

use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use tokio::runtime::Handle;

use crate::backend::Link;
use crate::backend::command_error::CommandError;
use crate::backend::joined::yield_to_ready_tasks;
use crate::client::local_queue::Attempt;
use crate::client::queue_key::QueueKey;
use crate::client::spec::AcquireSpec;
use crate::client::{AcquireRefusal, Answered, LeaderEpoch, LeaderTurn, ReadAnswer, SentAcquire};
use crate::driver::attempt::{self, Answer};
use crate::driver::core::Core;
use crate::driver::shared::EngineHost;
use crate::observe;
use crate::policy::commands::Busy;
use crate::values::entry;
use crate::values::holder::{self, Reading};
use crate::values::moment::Moment;

/// How often a leader shows its waiters that it responds, at least.
const CHECK_AT_LEAST_EVERY: Duration = Duration::from_secs(1);

/// A poll that takes longer is repeated, so that the queue entry is kept alive.
const POLL_AT_MOST: Duration = Duration::from_secs(1);

pub(super) struct Leader {
    core: Arc<Core>,
    /// The request of the waiter that made it leader; it says which queue is led.
    spec: Arc<AcquireSpec>,
    epoch: LeaderEpoch,
    /// The acquire whose answer it has not told yet.
    open: Option<(SentAcquire, Arc<dyn Link>)>,
    /// The queue knows that this leader ends, so its drop tells nobody.
    dismissed: bool,
}

/// A leader whose first acquire has ended, and the answer that it has not told; `None`: nothing was
/// sent.
pub(super) type FirstAnswer = (Leader, Option<Answer>);

impl Leader {
    /// Only for the caller that was given this leader epoch.
    pub(super) fn new(core: Arc<Core>, spec: Arc<AcquireSpec>, leader_epoch: LeaderEpoch) -> Self {
        Self {
            core,
            spec,
            epoch: leader_epoch,
            open: None,
            dismissed: false,
        }
    }

    /// Sends the first acquire, for the waiter that made it leader. Whoever is returned the answer
    /// tells it: by [`read`](Self::read) and [`has_read`](Self::has_read), or by
    /// [`go_on`](Self::go_on).
    #[expect(
        clippy::manual_async_fn,
        reason = "an `async fn` holds its arguments twice, and every lock boxes this future"
    )]
    pub(super) fn first(mut self, now: Moment) -> impl Future<Output = FirstAnswer> + Send {
        async move {
            let answer = self.ask(None, now).await;
            (self, answer)
        }
    }

    fn queue_key(&self) -> &QueueKey {
        &self.spec.queue_key
    }

    /// What the machine knows it by.
    fn by(&self) -> (&QueueKey, LeaderEpoch) {
        (&self.spec.queue_key, self.epoch)
    }

    fn now(&self) -> Moment {
        self.core.now()
    }

    /// The answer to the first acquire, for the waiter that sent it and tells it now.
    pub(super) fn read(&self, answer: Option<Answer>, now: Moment) -> ReadAnswer<'_, CommandError> {
        let open = self.open.as_ref().zip(answer);
        ReadAnswer {
            leader_epoch: self.epoch,
            answer: open.map(|((sent, link), answer)| {
                self.observe(answer.as_ref().ok().and_then(|it| it.busy()));
                let heard = attempt::heard(&self.core, link, &answer, now);
                (sent, answer, heard)
            }),
        }
    }

    /// The waiter has told the answer, and `lead` has to lead the queue in a task now; returns that
    /// if it is another leader.
    pub(super) fn has_read(
        mut self,
        answered: Answered,
        lead: Option<LeaderEpoch>,
        runtime: &Handle,
    ) -> Option<LeaderEpoch> {
        self.follow(answered);
        self.dismissed = lead != Some(self.epoch);
        if self.dismissed {
            return lead;
        }
        runtime.spawn(self.run());
        None
    }

    /// Goes on in a task of its own while anybody waits. `answer`: what no waiter has read.
    pub(super) fn go_on(mut self, answer: Option<Answer>, runtime: &Handle) {
        if let Some(answer) = answer {
            self.answered(answer);
        }
        let (core, now) = (&self.core, self.now());
        let goes_on = core.tell(now, |client, at| client.goes_on(self.by(), at));
        self.dismissed = !goes_on;
        if goes_on {
            runtime.spawn(self.run());
        }
    }

    /// Leads a queue that has no leader, in a task of its own.
    pub(super) fn start(self, runtime: &Handle) {
        runtime.spawn(self.run());
    }

    async fn run(mut self) {
        loop {
            let (turn, now) = self.turn().await;
            match turn {
                LeaderTurn::Acquire(spec) => {
                    if let Some(answer) = self.ask(Some(&spec), now).await {
                        self.answered(answer);
                    }
                }
                LeaderTurn::Poll { attempt, is_alone } => self.poll(&attempt, is_alone).await,
                LeaderTurn::Sleep(until) => self.sleep(until).await,
                LeaderTurn::Rest => {
                    self.dismissed = true;
                    return;
                }
            }
        }
    }

    /// What to do next. If it is to sleep, the machine has this task's waker.
    async fn turn(&self) -> (LeaderTurn<EngineHost>, Moment) {
        poll_fn(|cx| {
            let now = self.now();
            let lead = self
                .core
                .tell(now, |client, at| client.lead(self.by(), cx.waker(), at));
            Poll::Ready((lead, now))
        })
        .await
    }

    async fn sleep(&self, until: Moment) {
        let pause = self.now().until(until).min(CHECK_AT_LEAST_EVERY);
        let mut timer = pin!(tokio::time::sleep(pause));
        let mut has_slept = false;
        let woken = poll_fn(|cx| {
            let passed = timer.as_mut().poll(cx).map(|()| false);
            if passed.is_pending() && std::mem::replace(&mut has_slept, true) {
                return Poll::Ready(true);
            }
            passed
        });
        if woken.await {
            // Mostly woken by a holder of this process whose release is about to be sent. The
            // server would execute an acquire in the same write before it tells the next waiter
            // elsewhere of its grant, so let the acquire leave in the next write.
            yield_to_ready_tasks().await;
        }
    }
}

/// The two commands, acquire and poll.
impl Leader {
    /// Sends an acquire; `None`: nothing was sent. `spec`: for this waiter; `None`: for the one that
    /// made it leader.
    async fn ask(&mut self, spec: Option<&AcquireSpec>, now: Moment) -> Option<Answer> {
        let Self {
            core,
            spec: own,
            epoch,
            open,
            ..
        } = self;
        let (spec, queue_key) = (spec.unwrap_or(own), &own.queue_key);
        let settings = core.settings();
        let connected = core
            .backend()
            .link_at(now, queue_key.key(), settings.connect_timeout)
            .await;
        let (link, now) = match connected {
            Ok(connected) => connected,
            Err(error) => {
                let (now, fault) = (core.now(), attempt::fault(error));
                let error = fault.error.clone();
                let by = (queue_key, *epoch);
                let answered = core.tell(now, |client, at| client.unsent(by, fault, at));
                mention(core, queue_key, answered, &error);
                return None;
            }
        };
        let within = settings.command_timeout.min(spec.terms.validity());
        let sent = attempt::prepare(core, spec, &link, true, (now, within));
        if !core.tell(now, |client, at| {
            client.sending((queue_key, *epoch), &sent, at)
        }) {
            return None;
        }
        let (sent, link) = open.insert((sent, link));
        let answer = link.acquire(&sent.command, within).await;
        Some(attempt::landed(sent, answer))
    }

    /// Tells the answer to the acquire that is open.
    fn answered(&mut self, answer: Answer) {
        let now = self.now();
        let failed = answer.as_ref().err().map(|fault| fault.error.clone());
        let ReadAnswer {
            answer: Some((sent, answer, heard)),
            ..
        } = self.read(Some(answer), now)
        else {
            return;
        };
        let answered = self.core.tell(now, |client, at| {
            client.answered(self.by(), (sent, answer), heard, at)
        });
        if answered.mention.is_some() {
            let late = || attempt::in_words(&self.spec, AcquireRefusal::ClockAhead);
            if let Some(failed) = failed.or_else(late) {
                mention(&self.core, self.queue_key(), answered, &failed);
            }
        }
        self.follow(answered);
    }

    /// The answer has been told.
    fn follow(&mut self, answered: Answered) {
        if let Some((sent, link)) = self.open.take()
            && answered.cancels_behind
        {
            attempt::cancel_behind(&self.core, &sent, &link);
        }
    }

    /// Asks what became of the attempt. A poll that is not sent alone goes out in a batch with those
    /// of other queues first.
    async fn poll(&self, attempt: &Attempt, is_alone: bool) {
        let core = &self.core;
        let within = core.settings().command_timeout.min(POLL_AT_MOST);
        let (answer, sent, heard) = match core.backend().link(self.queue_key().key(), within).await
        {
            Err(error) => (Err(error), self.now(), (false, false)),
            Ok(link) => {
                let answer = if is_alone {
                    Ok(None)
                } else {
                    link.heartbeat(&attempt.claim, within).await
                };
                let sent = self.now();
                let answer = match answer {
                    // Sent by itself, it has the whole timeout, however late a slow server or
                    // process answered the batch.
                    Ok(None) => link.poll(&attempt.claim, within).await,
                    Ok(Some(waits)) => Ok(waits),
                    Err(error) => Err(error),
                };
                let heard = (answers_at(attempt, &*link), link.address().is_some());
                (answer, sent, heard)
            }
        };
        if let Ok(answer) = &answer {
            self.observe(answer.busy());
        }
        let failed = answer.as_ref().err().cloned();
        let (answer, of) = (answer.map_err(attempt::fault), (attempt, sent));
        let answered = core.tell(self.now(), |client, at| {
            client.polled(self.by(), of, answer, heard, at)
        });
        if let Some(failed) = failed {
            mention(core, self.queue_key(), answered, &failed);
        }
    }

    /// Shows who holds the lock.
    fn observe(&self, busy: Option<&Busy>) {
        let Some(busy) = busy else {
            return;
        };
        let holder = || match holder::read(&busy.value) {
            Reading::Holder(_) if !attempt::is_held(&self.core, busy) => {
                "nobody: what this process asked for before, or held, is taken back".to_owned()
            }
            Reading::Holder(holder) => holder.to_string(),
            Reading::UnknownLayout => "a program with another version of dlock".to_owned(),
        };
        let queue_key = self.queue_key();
        observe::queued(self.core.parts(queue_key.key()), holder);
        if self.core.settings().observing.slow_acquire.is_some() {
            let holder = Some(holder());
            self.core.tell(self.now(), |client, at| {
                client.at(queue_key, at, |it| it.state.shown.0 = holder)
            });
        }
    }
}

/// Mentions an outage through which the queue waits, from time to time.
fn mention(core: &Core, queue_key: &QueueKey, answered: Answered, failed: &CommandError) {
    if let Some(lasted) = answered.mention {
        observe::waiting_through_outage(core.parts(queue_key.key()), lasted, failed);
    }
}

/// Whether grants for this attempt arrive on this connection.
fn answers_at(attempt: &Attempt, link: &dyn Link) -> bool {
    let entry = entry::read(&attempt.claim.value);
    entry.is_some_and(|it| it.address == link.address().map_or("", |address| address))
}

impl Drop for Leader {
    fn drop(&mut self) {
        if self.core.is_inherited() {
            return;
        }
        if let Some((sent, link)) = self.open.take() {
            attempt::unread(&self.core, Some(self.queue_key()), &sent, &link);
        }
        if !self.dismissed {
            let (core, now) = (&self.core, self.now());
            core.tell(now, |client, at| client.leader_gone(self.by(), at));
        }
    }
}
