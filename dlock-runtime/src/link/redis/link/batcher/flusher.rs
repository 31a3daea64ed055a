//! Sends one batch: takes it and puts it into the connection's pipe under one lock, so batches leave
//! in the order of their items, whichever flusher sends them. The pending flusher is a task that
//! first lets the ready tasks run, so that their commands join the batch; one for a full batch is
//! first polled by the caller that filled it.
//!
//! Whatever happens, every item of the batch is answered: with the script's answer for the item,
//! with the error of the whole batch, when the item's own deadline passes, or, if the runtime ends,
//! when the flusher is dropped. The next flusher sends the items that this one leaves waiting.

use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use redis::{Cmd, RedisError, Value};
use tokio::task::unconstrained;
use tokio::time::{Instant, sleep_until, timeout_at};

use super::kept::Query;
use super::{
    BatchItem, BatchSort, Batcher, Command, ItemOutcome, Waiters, command, heartbeats, not_sent,
};
use crate::link::command_error::CommandError;
use crate::link::joined::yield_to_ready_tasks;
use crate::link::redis::reply::{self, Replies};
use crate::link::redis::scripts::{self, CallBy};
use crate::values::error::{Reason, Refusal};
use crate::values::moment::Moment;

pub(super) struct Flusher {
    batcher: Arc<Batcher>,
    batch: Vec<BatchItem>,
    /// No caller of the batch had gone while [`Outcomes`](super::outcomes::Outcomes) counted so many
    /// departures.
    departures: u64,
    /// How many items count as in flight until this flusher is dropped.
    taken: usize,
    /// The batch was taken.
    has_taken: bool,
    /// [`BatcherState`](crate::link::batched::state::BatcherState) counts on it: no other flusher is started before its batch
    /// is on the wire. If it is dropped before that, it fails every waiting item.
    is_pending: bool,
}

type Ended = Pin<Box<dyn Future<Output = ()> + Send>>;

/// When a command was put into the connection's pipe, and its answer if that was ready at once.
type SentCommand<T> = (Moment, Poll<T>);

impl Flusher {
    /// Creates the flusher that [`BatcherState`](crate::link::batched::state::BatcherState) has promised.
    pub(super) fn new(batcher: &Arc<Batcher>) -> Self {
        Self {
            batcher: batcher.clone(),
            batch: Vec::new(),
            departures: 0,
            taken: 0,
            has_taken: false,
            is_pending: true,
        }
    }

    /// Creates one for a full batch, besides the one that is pending.
    pub(super) fn for_full_batch(batcher: &Arc<Batcher>) -> Self {
        let mut it = Self::new(batcher);
        it.is_pending = false;
        it
    }

    /// Creates one for a batch that was taken.
    fn of_taken(batcher: &Arc<Batcher>, batch: Vec<BatchItem>) -> Self {
        let mut it = Self::for_full_batch(batcher);
        (it.batch, it.has_taken) = (batch, true);
        it
    }

    pub(super) async fn run(self) {
        match self.batcher.sort {
            BatchSort::Exclusive | BatchSort::OfNode => yield_to_ready_tasks().await,
            BatchSort::Heartbeats => self.sleep_until_due().await,
        }
        self.send_batch().await;
    }

    pub(super) async fn send_batch(mut self) {
        self.send().await;
    }

    async fn sleep_until_due(&self) {
        let not_before = || self.batcher.waiters().queue.not_before(Instant::now());
        while let Some(time) = not_before() {
            sleep_until(time).await;
        }
    }

    async fn send(&mut self) {
        for by in CallBy::each(self.batcher.connection.reading.now()) {
            if self.is_lone_heartbeat() {
                return self.end_each(|| ItemOutcome::Alone);
            }
            let sent = if self.has_taken {
                self.send_by(by).await
            } else {
                self.take_and_send().await
            };
            match sent {
                Ok(None) if self.batch.is_empty() => return,
                Ok(None) => {} // by text then, without the callers that have gone meanwhile
                Ok(Some((reply, sent))) => return self.hand_out(reply, sent),
                // Perhaps the user has no right to only one of the keys: each item is sent by
                // itself.
                Err(CommandError::Refused(Refusal::NoPermission, _)) if self.batch.len() > 1 => {
                    if self.batcher.sort == BatchSort::OfNode {
                        return self.send_each().await;
                    }
                    return self.end_each(|| ItemOutcome::Alone);
                }
                Err(error) => return self.end_each(|| ItemOutcome::Ended(Err(error.clone()))),
            }
        }
        let why = reply::unexpected("combined", &Value::Nil);
        self.end_each(|| ItemOutcome::Ended(Err(why.clone())));
    }

    /// The script's reply, and when it was sent. `None`: the server does not know the script, so
    /// nothing was executed, or no item is left in the batch.
    async fn send_by(&mut self, by: CallBy) -> Result<Option<(Value, Moment)>, CommandError> {
        let mut connection = self.batcher.connection.multiplexed.clone();
        loop {
            self.drop_unwanted();
            let command = self.command(by);
            // Unconstrained: tokio's cooperative budget must not keep the first poll from putting
            // it into the pipe.
            let query = command.query_async::<Value>(&mut connection);
            let mut query = pin!(unconstrained(query));
            let put = poll_fn(|cx| Poll::Ready(self.put_on_wire(query.as_mut(), cx)));
            let sent = match put.await {
                Put::Again => continue,
                Put::Nothing => return Ok(None),
                Put::Done(sent) => sent?,
            };
            return self.answer(sent, query).await;
        }
    }

    /// Takes the batch and sends it, as [`send_by`](Self::send_by) would.
    async fn take_and_send(&mut self) -> Result<Option<(Value, Moment)>, CommandError> {
        let mut query = None;
        let put = poll_fn(|cx| Poll::Ready(self.take_and_put(&mut query, cx))).await;
        let (Some(sent), Some(mut query)) = (put.transpose()?, query) else {
            return Ok(None); // nothing waits any more
        };
        self.answer(sent, Pin::new(&mut query)).await
    }

    /// `None`: nothing waits any more.
    fn take_and_put(
        &mut self,
        query: &mut Option<Query>,
        cx: &mut Context<'_>,
    ) -> Option<Result<SentCommand<Result<Value, RedisError>>, CommandError>> {
        let (batcher, now) = (self.batcher.clone(), Instant::now());
        let mut waiters = batcher.waiters();
        let mut batch = waiters.queue.next_batch(now);
        (self.has_taken, self.taken) = (true, batch.len());
        // Whoever goes while its item waits takes it along, except at a node.
        self.departures = waiters.outcomes.departures();
        let is_late = |it: &mut BatchItem| it.until <= now && it.is_awaited(&waiters);
        let late: Vec<_> = batch.extract_if(.., is_late).collect();
        self.batch = match batcher.sort {
            BatchSort::Exclusive => batch,
            BatchSort::OfNode => command::take_backs_first(batch, |it| it.command.command()),
            BatchSort::Heartbeats => heartbeats::by_lock(batch),
        };
        let put = (!self.batch.is_empty() && !self.is_lone_heartbeat()).then(|| {
            let sent = batcher.connection.begin()?;
            let command = self.command(CallBy::Hash(batcher.connection.reading.now()));
            let mut connection = batcher.connection.multiplexed.clone();
            // Unconstrained, as in `send_by`.
            let asked = async move { command.query_async::<Value>(&mut connection).await };
            let asked: Query = Box::pin(unconstrained(asked));
            Ok((sent, query.insert(asked).as_mut().poll(cx)))
        });
        let more = std::mem::take(&mut self.is_pending) && waiters.queue.flushed();
        drop(waiters);
        let late = late.into_iter();
        batcher.end(late.map(|it| (it.slot, ItemOutcome::Ended(Err(not_sent(it.within))))));
        if more {
            batcher.flush();
        }
        put
    }

    /// Sends a node's commands one right behind the other, each by itself.
    async fn send_each(&mut self) {
        let one = |item| Some(Self::of_taken(&self.batcher, vec![item]).boxed());
        let mut all: Vec<_> = self.batch.drain(..).map(one).collect();
        poll_fn(|cx| {
            for each in &mut all {
                if let Some(open) = each
                    && open.as_mut().poll(cx).is_ready()
                {
                    *each = None;
                }
            }
            if all.iter().all(Option::is_none) {
                Poll::Ready(())
            } else {
                Poll::Pending
            }
        })
        .await;
    }

    fn boxed(self) -> Ended {
        Box::pin(self.send_batch())
    }

    /// Removes the items whose callers have gone, and those whose deadline has passed, which are
    /// told that nothing was sent.
    fn drop_unwanted(&mut self) {
        let now = Instant::now();
        let late = |it: &BatchItem, waiters: &Waiters| it.until <= now && it.is_awaited(waiters);
        self.end_where(late, not_sent);
        let mut waiters = self.batcher.waiters();
        let is_over = self.over(&waiters);
        let over: Vec<_> = self.batch.extract_if(.., |it| is_over(it)).collect();
        drop(is_over);
        for slot in over.into_iter().filter_map(|it| it.slot) {
            waiters.outcomes.end(slot, ItemOutcome::Alone); // its caller has gone
        }
        self.departures = waiters.outcomes.departures();
    }

    /// Whether an item of the batch is over. Looks at its caller's slot, which is seldom in a cache,
    /// only if any caller has gone.
    fn over<'a>(&self, waiters: &'a Waiters) -> impl Fn(&BatchItem) -> bool + use<'a> {
        let all_stay = self.departures == waiters.outcomes.departures();
        move |it| it.slot.is_none() || (!all_stay && it.is_over(waiters))
    }

    /// The script's reply, and when it was sent. Each item whose deadline passes is told so at once;
    /// after the last one, waiting ends.
    async fn answer(
        &mut self,
        (sent, first): SentCommand<Result<Value, RedisError>>,
        mut query: Pin<&mut impl Future<Output = Result<Value, RedisError>>>,
    ) -> Result<Option<(Value, Moment)>, CommandError> {
        let batcher = self.batcher.clone();
        let connection = &batcher.connection;
        let with_time = |reply: Option<Value>| reply.map(|reply| (reply, sent));
        if let Poll::Ready(answer) = first {
            return connection.answered(known(answer)).map(with_time);
        }
        let untils = self.batch.iter().map(|it| it.until);
        let last = untils.max().unwrap_or_else(Instant::now); // a batch has items
        loop {
            let next = self.next_deadline().unwrap_or(last);
            if let Ok(answer) = timeout_at(next, query.as_mut()).await {
                return connection.answered(known(answer)).map(with_time);
            }
            self.end_where(
                |it, _| it.until <= next,
                |within| connection.no_answer(within),
            );
            if next >= last {
                // Every item has been told.
                return Err(connection.no_answer(connection.command_timeout));
            }
        }
    }

    /// The first deadline of an item that is not over.
    fn next_deadline(&self) -> Option<Instant> {
        let waiters = self.batcher.waiters();
        let is_over = self.over(&waiters);
        let open = self.batch.iter().filter(|it| !is_over(it));
        open.map(|it| it.until).min()
    }

    /// Puts the batch into the pipe under the lock: a caller that goes either still
    /// withdraws its item, or its item is on the wire.
    fn put_on_wire<F: Future>(
        &mut self,
        query: Pin<&mut F>,
        cx: &mut Context<'_>,
    ) -> Put<F::Output> {
        let waiters = self.batcher.waiters();
        if self.batch.iter().any(self.over(&waiters)) {
            return Put::Again;
        }
        if self.batch.is_empty() {
            return Put::Nothing;
        }
        let begun = self.batcher.connection.begin();
        Put::Done(begun.map(|sent| (sent, query.poll(cx))))
    }

    fn command(&self, by: CallBy) -> Cmd {
        let connection = &self.batcher.connection;
        if let Some(command) = self.own_command() {
            return command.alone(connection, by);
        }
        let (names, commands) = (
            &connection.names,
            self.batch.iter().map(|it| it.command.command()),
        );
        match self.batcher.sort {
            BatchSort::Exclusive => command::combined(by, names, &connection.grant_key, commands),
            BatchSort::OfNode => command::of_node(by, names, commands),
            BatchSort::Heartbeats => heartbeats::command(by, names, &self.batch),
        }
    }

    /// A batch of one item is sent as the item's own command, except heartbeats: the last of those
    /// that is left is not sent, or is sent as it is.
    fn own_command(&self) -> Option<Command<'_>> {
        match &self.batch[..] {
            [it] if self.batcher.sort != BatchSort::Heartbeats => Some(it.command.command()),
            _ => None,
        }
    }

    /// A poll costs the same and tells more.
    fn is_lone_heartbeat(&self) -> bool {
        self.batcher.sort == BatchSort::Heartbeats && self.batch.len() == 1
    }

    fn hand_out(&mut self, reply: Value, sent: Moment) {
        let connection = &self.batcher.connection;
        if let Some(command) = self.own_command() {
            let answer = command.read(reply, connection);
            let answered = ItemOutcome::Ended(answer.map(|reply| (reply, sent)));
            return self.end([answered]);
        }
        let replies = match self.batcher.sort {
            BatchSort::Exclusive => {
                let is_release = |it: &&BatchItem| it.command.command().is_release();
                let releases = self.batch.iter().filter(is_release).count();
                reply::combined(reply, releases, self.batch.len())
            }
            BatchSort::OfNode => {
                let replies = reply::of_node(reply, self.batch.len());
                let item = |it: Result<_, _>| it.map(|it| reply::ItemReply::OfNode(Box::new(it)));
                replies.map(|all| Replies::each(all.into_iter().map(item)))
            }
            BatchSort::Heartbeats => heartbeats::replies(&reply, &self.batch),
        };
        match replies {
            Ok(mut replies) => {
                if let Some(time) = replies.time() {
                    connection.heard_time(time, sent);
                }
                // Before `end` locks what waits.
                for error in replies.errors() {
                    *error = connection.noted(error.clone());
                }
                let outcome = |reply: Result<_, _>| ItemOutcome::Ended(reply.map(|it| (it, sent)));
                self.end(replies.map(outcome));
            }
            Err(error) => self.end_each(|| ItemOutcome::Ended(Err(error.clone()))),
        }
    }

    fn end_each(&mut self, mut outcome: impl FnMut() -> ItemOutcome) {
        self.end(std::iter::from_fn(|| Some(outcome())));
    }

    /// Ends all items with these outcomes, in order.
    fn end(&mut self, outcomes: impl IntoIterator<Item = ItemOutcome>) {
        let slots = self.batch.iter_mut().map(|it| it.slot.take());
        self.batcher.end(slots.zip(outcomes));
        self.batch.clear();
    }

    /// Ends some items with an error, made from the time that they had. They stay in the batch.
    fn end_where(
        &mut self,
        ends: impl Fn(&BatchItem, &Waiters) -> bool,
        error: impl Fn(Duration) -> CommandError,
    ) {
        let waiters = self.batcher.waiters();
        let ending = self.batch.iter_mut().filter(|it| ends(it, &waiters));
        let ending: Vec<_> = ending.map(|it| (it.slot.take(), it.within)).collect();
        drop(waiters);
        let ending = ending.into_iter();
        self.batcher
            .end(ending.map(|(slot, within)| (slot, ItemOutcome::Ended(Err(error(within))))));
    }
}

impl Drop for Flusher {
    fn drop(&mut self) {
        let ended = || Reason::new("the runtime of the connection has ended");
        self.end_each(|| ItemOutcome::Ended(Err(CommandError::Unclear(ended()))));
        let mut waiters = self.batcher.waiters();
        waiters.queue.ended(self.taken);
        if !self.is_pending {
            return;
        }
        self.batch = waiters.queue.give_up();
        drop(waiters);
        self.end_each(|| ItemOutcome::Ended(Err(CommandError::Unsent(ended()))));
    }
}

impl BatchItem {
    /// Whether it is not to be sent: its caller has its outcome or, unless it is a node's, has gone.
    fn is_over(&self, waiters: &Waiters) -> bool {
        match self.slot {
            None => true,
            Some(_) => !self.command.command().is_of_node() && !self.is_awaited(waiters),
        }
    }

    fn is_awaited(&self, waiters: &Waiters) -> bool {
        self.slot
            .is_some_and(|slot| waiters.outcomes.is_awaited(slot))
    }
}

/// The result of putting a batch on the wire.
enum Put<T> {
    Done(Result<SentCommand<T>, CommandError>),
    /// No item is left in the batch.
    Nothing,
    /// A caller has gone meanwhile: build the command again.
    Again,
}

fn known(answer: Result<Value, RedisError>) -> Result<Option<Value>, RedisError> {
    match answer {
        Err(error) if scripts::is_unknown(&error) => Ok(None),
        answer => answer.map(Some),
    }
}

#[cfg(test)]
impl Flusher {
    /// Sends one batch at once.
    pub(super) async fn of(batcher: &Arc<Batcher>, batch: Vec<BatchItem>) {
        let batch = match batcher.sort {
            BatchSort::Heartbeats => heartbeats::by_lock(batch),
            BatchSort::Exclusive | BatchSort::OfNode => batch,
        };
        Self::of_taken(batcher, batch).send_batch().await;
    }
}
