//! Takes and gives of exclusive locks that nobody waits for: those of many callers in one statement, since
//! the commits of a connection are flushed one after the other.
//!
//! `link::batched::state` decides what waits for a batch and what one takes: while fewer than two are in
//! flight a caller sends its own, and else a task of the connection's runtime sends what has come since the
//! batch before, as soon as that is answered. An answer goes through a channel for each caller, not through
//! the slots and tickets of the batcher for Redis: what they save is nothing beside a transaction. A batch
//! that failed because of some row is sent again in halves, so that this row fails only itself.
//!
//! Invariant: a caller that goes before its order is on the wire takes it back, and one that goes later
//! leaves it there; both happen under the one lock, under which a batch is also put on the wire. So a
//! `cancel` that follows never overtakes its acquire.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::{Arc, MutexGuard, PoisonError};
use std::task::Poll;

use tokio::sync::oneshot::{self, Receiver, Sender};
use tokio::time::{Instant, timeout_at};
use tokio_postgres::types::ToSql;

use super::machine::micros;
use super::session::{self, PostgresLink, Session};
use super::signed;
use super::statements::Ask;
use crate::link::batched::state::{BatcherState, ItemId};
use crate::link::command_error::CommandError;
use crate::link::joined::yield_to_ready_tasks;
use crate::rules::commands::{Acquire, Claim};
use crate::strangers::{beside_others, spared};
use crate::values::error::Reason;

/// A take or a give of one caller.
#[derive(Clone, Debug)]
pub(super) struct Order {
    ask: Ask,
    claim: Claim,
    lease: i64,
    not_after: i64,
}

/// The server's time, and the number that the statement tells; `None`: the machine decides.
type OrderAnswer = Option<(u64, u64)>;

/// An order that waits, or is in a batch.
#[derive(Debug)]
pub(super) struct WaitingOrder {
    order: Order,
    until: Instant,
    answer: Sender<Result<OrderAnswer, CommandError>>,
}

impl Order {
    pub(super) fn take(command: &Acquire) -> Self {
        Self {
            ask: Ask::Take,
            claim: command.claim.clone(),
            lease: micros(command.lease.get()),
            not_after: signed(command.not_after),
        }
    }

    pub(super) fn give(claim: &Claim) -> Self {
        Self {
            ask: Ask::Give,
            claim: claim.clone(),
            lease: 0,
            not_after: 0,
        }
    }

    /// Whether there is something else to try, if it got no answer: most locks have a row already.
    fn goes_on(&mut self) -> bool {
        let goes_on = self.ask == Ask::Take;
        if goes_on {
            self.ask = Ask::Make;
        }
        goes_on
    }
}

impl PostgresLink {
    /// Executes an order, perhaps with those of others.
    pub(super) async fn ordered(
        &self,
        order: Order,
        until: Instant,
    ) -> Result<OrderAnswer, CommandError> {
        let (session, ask) = (&self.session, order.ask);
        let mut caller = match session.begin(order, until) {
            Begun::Alone(mut order, _in_flight) => loop {
                let answers = session.execute(&[&order], until).await?;
                let answer = answers.into_iter().next().flatten();
                if answer.is_some() || !order.goes_on() {
                    return Ok(answer);
                }
            },
            Begun::Waits(caller, needs_flusher) => {
                if needs_flusher {
                    self.runtime.spawn(OrderFlusher::new(session).run());
                }
                caller
            }
        };
        match timeout_at(until, beside_others(&mut caller.outcome)).await {
            Ok(Ok(answer)) => answer,
            Ok(Err(_)) => Err(CommandError::Unclear(Reason::new(
                "the runtime of the connection has ended",
            ))),
            Err(_) if caller.withdraw() => Err(CommandError::Unsent(Reason::new(
                "PostgreSQL did not answer others in time",
            ))),
            Err(_) => Err(session.no_answer(ask.only_reads())),
        }
    }
}

/// How far an order has got.
enum Begun<'a> {
    /// Its caller sends it, at once.
    Alone(Order, OrdersInFlight<'a>),
    /// `true`: the caller starts a flusher.
    Waits(OrderCaller<'a>, bool),
}

/// Withdraws its order when it is dropped.
struct OrderCaller<'a> {
    session: &'a Session,
    id: ItemId,
    outcome: Receiver<Result<OrderAnswer, CommandError>>,
}

impl OrderCaller<'_> {
    /// Whether it was certainly not sent.
    fn withdraw(&mut self) -> bool {
        let mut orders = self.session.orders();
        self.outcome.close();
        let withdrawn = orders.withdraw(self.id);
        drop(orders); // before what may have a waker is dropped
        withdrawn.is_some()
    }
}

impl Drop for OrderCaller<'_> {
    fn drop(&mut self) {
        self.withdraw();
    }
}

/// So many orders, which count as in flight until this is dropped.
struct OrdersInFlight<'a>(&'a Session, usize);

impl Drop for OrdersInFlight<'_> {
    fn drop(&mut self) {
        self.0.orders().ended(self.1);
    }
}

/// The task that sends what waits, until nothing does.
struct OrderFlusher(Option<Arc<Session>>);

impl OrderFlusher {
    fn new(session: &Arc<Session>) -> Self {
        Self(Some(session.clone()))
    }

    async fn run(mut self) {
        while let Some(session) = &self.0 {
            yield_to_ready_tasks().await;
            let batch = session.orders().next_batch(Instant::now());
            let in_flight = OrdersInFlight(session, batch.len());
            session.send_all(batch).await;
            drop(in_flight);
            let more = session.orders().flushed();
            if !more {
                self.0 = None;
            }
        }
    }
}

impl Drop for OrderFlusher {
    fn drop(&mut self) {
        if let Some(session) = self.0.take() {
            let waiting = session.orders().give_up(); // with its runtime
            drop(waiting);
        }
    }
}

impl Session {
    fn orders(&self) -> MutexGuard<'_, BatcherState<WaitingOrder>> {
        self.orders.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn begin(&self, order: Order, until: Instant) -> Begun<'_> {
        let mut orders = self.orders();
        if orders.claim_lone_flight(Instant::now) {
            return Begun::Alone(order, OrdersInFlight(self, 1));
        }
        let (answer, outcome) = oneshot::channel();
        let is_release = order.ask == Ask::Give;
        let waiting = WaitingOrder {
            order,
            until,
            answer,
        };
        let (id, needs_flusher) = orders.wait(is_release, waiting);
        let caller = OrderCaller {
            session: self,
            id,
            outcome,
        };
        Begun::Waits(caller, needs_flusher)
    }

    /// Sends a batch, and tells each caller its answer.
    async fn send_all(&self, batch: Vec<WaitingOrder>) {
        let mut left = vec![batch];
        while let Some(mut batch) = left.pop() {
            let answers = loop {
                batch.retain(|it| !it.answer.is_closed());
                let Some(until) = batch.iter().map(|it| it.until).max() else {
                    break Ok(Vec::new()); // all callers have gone
                };
                let orders: Vec<_> = batch.iter().map(|it| &it.order).collect();
                let mut answers = pin!(self.execute(&orders, until));
                let put = poll_fn(|cx| {
                    let _whoever_goes_now = self.orders();
                    let is_whole = batch.iter().all(|it| !it.answer.is_closed());
                    Poll::Ready(is_whole.then(|| answers.as_mut().poll(cx)))
                });
                match put.await {
                    None => {} // without those that went meanwhile
                    Some(Poll::Ready(answers)) => break answers,
                    Some(Poll::Pending) => break answers.await,
                }
            };
            match answers {
                Ok(answers) => {
                    let mut rest = Vec::new();
                    for (mut it, answer) in batch.into_iter().zip(answers) {
                        if answer.is_none() && it.order.goes_on() {
                            rest.push(it);
                        } else {
                            spared(|| it.answer.send(Ok(answer)));
                        }
                    }
                    if !rest.is_empty() {
                        left.push(rest);
                    }
                }
                Err(CommandError::Unsent(_) | CommandError::Refused(..))
                    if batch.len() > 1 && self.works() =>
                {
                    let half = batch.split_off(batch.len() / 2);
                    left.extend([half, batch]);
                }
                Err(error) => {
                    for it in batch {
                        spared(|| it.answer.send(Err(error.clone())));
                    }
                }
            }
        }
    }

    /// Executes orders of one sort in one statement.
    async fn execute(
        &self,
        orders: &[&Order],
        until: Instant,
    ) -> Result<Vec<OrderAnswer>, CommandError> {
        let mut sorted: Vec<_> = (0..).zip(orders).collect();
        sorted.sort_unstable_by_key(|&(_, it)| &it.claim.key);
        let keys: Vec<&str> = sorted.iter().map(|(_, it)| &*it.claim.key).collect();
        let values: Vec<&str> = sorted.iter().map(|(_, it)| &*it.claim.value).collect();
        let places: Vec<i64> = sorted.iter().map(|(at, _)| *at).collect();
        let leases: Vec<i64> = sorted.iter().map(|(_, it)| it.lease).collect();
        let not_after: Vec<i64> = sorted.iter().map(|(_, it)| it.not_after).collect();
        let ask = orders.first().map_or(Ask::Give, |it| it.ask);
        let params: [&(dyn ToSql + Sync); 5] = [&keys, &values, &places, &leases, &not_after];
        let params = if ask == Ask::Give {
            &params[..3]
        } else {
            &params
        };
        let (rows, sent) = self.query(ask, params, until).await?;
        let mut answers = vec![None; orders.len()];
        for row in &rows {
            let time = self.heard(row, 0, sent)?;
            let at: i64 = session::read(row, 1)?;
            let place = usize::try_from(at).ok().and_then(|at| answers.get_mut(at));
            *place.ok_or_else(session::strange)? = Some((time, session::unsigned(row, 2)?));
        }
        Ok(answers)
    }
}
