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

use super::CHECK_AT_LEAST_EVERY;
use crate::client::queue_key::QueueKey;
use crate::client::spec::AcquireSpec;
use crate::client::tokens::Attempt;
use crate::client::{
    AcquireRefusal, Heard, LeaderEpoch, LeaderTurn, LookReply, Looked, QueueStep, ReadAnswer,
};
use crate::driver::attempt::{self, AttemptAnswer, OpenAttempt};
use crate::driver::core::Core;
use crate::driver::shared::DriverHost;
use crate::link::Link;
use crate::link::command_error::CommandError;
use crate::link::joined::yield_to_ready_tasks;
use crate::observe;
use crate::rules::commands::Busy;
use crate::values::entry;
use crate::values::holder::{self, Reading};
use crate::values::moment::Moment;

/// A poll that takes longer is repeated, so that the queue entry is kept alive.
const POLL_AT_MOST: Duration = Duration::from_secs(1);

pub(in crate::driver) struct Leader {
    core: Arc<Core>,
    /// The request of the waiter that made it leader; it says which queue is led.
    spec: Arc<AcquireSpec>,
    epoch: LeaderEpoch,
    /// The queue knows that this leader ends, so its drop tells nobody.
    dismissed: bool,
}

/// How a leader's acquire ended.
pub(super) struct EndedAcquire {
    /// `None`: nothing was sent.
    open: Option<OpenAttempt>,
    /// The answer, until it is told.
    answer: Option<AttemptAnswer>,
    leader: Leader, // dropped last: others take the lead when the acquire is settled
}

impl Leader {
    /// Only for the caller that was given this leader epoch.
    pub(in crate::driver) fn new(
        core: Arc<Core>,
        spec: Arc<AcquireSpec>,
        leader_epoch: LeaderEpoch,
    ) -> Self {
        Self {
            core,
            spec,
            epoch: leader_epoch,
            dismissed: false,
        }
    }

    fn queue_key(&self) -> &QueueKey {
        &self.spec.queue_key
    }

    /// Tells its queue what has happened.
    fn tell<T: Default>(
        &self,
        now: Moment,
        event: impl FnOnce(&mut QueueStep<'_, DriverHost>) -> T,
    ) -> T {
        self.core.at(self.queue_key(), now, event)
    }

    fn now(&self) -> Moment {
        self.core.now()
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
                    self = self.ask(Some(spec), now).await.tell_as_task();
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
    async fn turn(&self) -> (LeaderTurn<DriverHost>, Moment) {
        poll_fn(|cx| {
            let now = self.now();
            let turn = self.tell(now, |queue| queue.lead(self.epoch, cx.waker()));
            Poll::Ready((turn, now))
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

impl EndedAcquire {
    /// Nothing was sent.
    pub(super) fn unsent(leader: Leader) -> Self {
        Self {
            open: None,
            answer: None,
            leader,
        }
    }

    /// The waiter that sent the acquire tells the answer. `tell`: does that, and looks. Returns what
    /// it has found, and the number of another leader that the queue needs. The leader
    /// [goes on](Self::is_led_on) if the queue needs it.
    pub(super) fn tell_as_waiter(
        &mut self,
        now: Moment,
        tell: impl FnOnce(ReadAnswer<'_, CommandError>) -> LookReply<DriverHost>,
    ) -> (Looked<DriverHost>, Option<LeaderEpoch>) {
        let leader_epoch = self.leader.epoch;
        let answer = self.open.as_ref().zip(self.answer.take());
        let answer = answer.map(|(open, answer)| {
            let heard = self.leader.hear(open, &answer, now);
            (&open.sent, answer, heard)
        });
        let LookReply {
            looked,
            lead,
            answered,
            ..
        } = tell(ReadAnswer {
            leader_epoch,
            answer,
        });
        if let Some(open) = &mut self.open {
            open.settle(answered.cancels_behind);
        }
        self.leader.dismissed = lead != Some(leader_epoch);
        (looked, lead.filter(|_| self.leader.dismissed))
    }

    /// Whether its leader must go on in a task.
    pub(super) fn is_led_on(&self) -> bool {
        !self.leader.dismissed
    }

    /// Its leader goes on in a task.
    pub(super) fn lead_on(self, runtime: &Handle) {
        self.leader.start(runtime);
    }

    /// A task tells the answer.
    fn tell_as_task(self) -> Leader {
        let Self {
            leader,
            open,
            answer,
        } = self;
        if let (Some(mut open), Some(answer)) = (open, answer) {
            let now = leader.now();
            let failed = answer.as_ref().err().map(|fault| fault.error.clone());
            let heard = leader.hear(&open, &answer, now);
            let answer = (&open.sent, answer);
            let answered = leader.tell(now, |queue| queue.answered(leader.epoch, answer, heard));
            open.settle(answered.cancels_behind);
            if answered.mention.is_some() {
                let late = || attempt::in_words(&leader.spec, AcquireRefusal::TooLate);
                if let Some(failed) = failed.or_else(late) {
                    leader.mention(answered.mention, &failed);
                }
            }
        }
        leader
    }

    /// A task tells the answer, and goes on as the leader while anybody waits.
    pub(super) async fn go_on(self) {
        self.tell_as_task().run().await;
    }
}

/// The two commands, acquire and poll.
impl Leader {
    /// Sends an acquire. `spec`: for this waiter; `None`: for the one that made it leader.
    #[expect(
        clippy::manual_async_fn,
        reason = "an `async fn` holds its arguments twice, and every lock boxes this future"
    )]
    pub(super) fn ask(
        self,
        spec: Option<Arc<AcquireSpec>>,
        now: Moment,
    ) -> impl Future<Output = EndedAcquire> + Send {
        async move {
            let within = self.core.settings().connect_timeout;
            let backend = self.core.backend();
            let connected = backend.link_at(now, self.queue_key().key(), within);
            let Some((open, within)) = self.open(spec.as_ref(), connected.await) else {
                return EndedAcquire::unsent(self);
            };
            // Awaited here, and not in a future of its own that would keep its arguments, too.
            let answer = open.link.acquire(&open.sent.command, within).await;
            let answer = open.landed(answer);
            EndedAcquire {
                open: Some(open),
                answer: Some(answer),
                leader: self,
            }
        }
    }

    /// Prepares an acquire, which must be sent now and may take so long. `None`: nothing is to be
    /// sent. Apart from the future that sends it, which would keep what is moved here.
    fn open(
        &self,
        spec: Option<&Arc<AcquireSpec>>,
        connected: Result<(Arc<dyn Link>, Moment), CommandError>,
    ) -> Option<(OpenAttempt, Duration)> {
        let core = &self.core;
        let (link, now) = match connected {
            Ok(connected) => connected,
            Err(error) => {
                self.not_connected(error);
                return None;
            }
        };
        let spec = spec.unwrap_or(&self.spec);
        let within = core.settings().command_timeout;
        let within = within.min(spec.terms.validity());
        let sent = attempt::prepare(core, spec, &link, true, (now, within));
        let by = (self.queue_key(), self.epoch);
        let sends = core.tell(now, |client, told| client.sending(by, &sent, told));
        sends.then(|| {
            let open = OpenAttempt::of_queue(core, &self.spec, sent, link);
            (open, within)
        })
    }

    /// Shows an answer, and returns what its reader knows about its connection.
    fn hear(&self, open: &OpenAttempt, answer: &AttemptAnswer, now: Moment) -> Heard {
        self.observe(answer.as_ref().ok().and_then(|it| it.waits_for()));
        open.heard(answer, now)
    }

    fn not_connected(&self, error: CommandError) {
        let (now, fault) = (self.now(), attempt::fault(error));
        let failed = fault.error.clone();
        let mention = self.tell(now, |queue| queue.unsent(self.epoch, fault));
        self.mention(mention, &failed);
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
        let (answer, of) = (answer.map_err(attempt::fault), (attempt.token, sent));
        let mention = self.tell(self.now(), |queue| {
            queue.polled(self.epoch, of, answer, heard)
        });
        if let Some(failed) = failed {
            self.mention(mention, &failed);
        }
    }

    /// Mentions an outage through which the queue waits, from time to time.
    fn mention(&self, lasted: Option<Duration>, failed: &CommandError) {
        if let Some(lasted) = lasted {
            let key = self.core.parts(self.queue_key().key());
            observe::waiting_through_outage(key, lasted, failed);
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
            self.tell(self.now(), |queue| queue.state.shown.0 = holder);
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
        self.tell(self.now(), |queue| queue.leader_gone(self.epoch));
    }
}
