//! The task that sends batches, one after the other, for as long as somebody waits.
//!
//! Whatever becomes of it, its slot comes back, and everybody in a batch is answered: by what the script said of its item, by the
//! fault that the batch met, or, when the runtime ends, by the end of the channel.

use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;

use redis::{RedisError, Value};
use tokio::task::unconstrained;
use tokio::time::Instant;

use super::ask;
use super::{Combiner, Item, Outcome};
use crate::backend::fault::Fault;
use crate::backend::redis::reply;
use crate::backend::redis::scripts::{self, By};
use crate::values::error::{Refusal, Text};
use crate::values::moment::Moment;

pub(super) struct Carrier {
    combiner: Arc<Combiner>,
    is_done: bool,
}

impl Carrier {
    /// It has a slot.
    pub(super) fn new(combiner: &Arc<Combiner>) -> Self {
        Self {
            combiner: combiner.clone(),
            is_done: false,
        }
    }

    pub(super) async fn run(mut self) {
        loop {
            let batch = self.combiner.state().next_batch();
            if batch.is_empty() {
                self.is_done = true;
                return;
            }
            self.combiner.send(batch).await;
        }
    }
}

impl Drop for Carrier {
    fn drop(&mut self) {
        if self.is_done {
            return;
        }
        let waiting = self.combiner.state().give_up();
        let why = Fault::Unsent(Text::new("the runtime of the connection has ended"));
        fail(waiting, &why);
    }
}

impl Combiner {
    pub(super) async fn send(&self, mut batch: Vec<Item>) {
        for by in [By::Hash, By::Text] {
            match self.run(&mut batch, by).await {
                Ok(None) => {} // by its text then, and without those who have gone meanwhile
                Ok(Some((reply, sent))) => return self.hand_out(batch, reply, sent),
                // Of one of the keys, it may be: none was looked at.
                Err(Fault::Refused(Refusal::NoPermission, _)) if batch.len() > 1 => {
                    for item in batch {
                        item.ends(Outcome::Alone);
                    }
                    return;
                }
                Err(fault) => return fail(batch, &fault),
            }
        }
        fail(batch, &reply::unexpected("combined", &Value::Nil));
    }

    /// What the script said, and when it was sent; `None`: the server does not know it, and nothing was executed.
    async fn run(&self, batch: &mut Vec<Item>, by: By) -> Result<Option<(Value, Moment)>, Fault> {
        loop {
            batch.retain(|it| !it.answer.is_closed());
            let Some(until) = batch.iter().map(|it| it.until).max() else {
                return Ok(None);
            };
            let (names, grant_key) = (&self.wire.names, &self.wire.grant_key);
            let command = ask::combined(by, names, grant_key, batch.iter().map(|it| &it.ask));
            let mut connection = self.wire.connection.clone();
            // Unconstrained, so that its first poll gives it its place in the pipe.
            let query = command.query_async::<Value>(&mut connection);
            let mut query = pin!(unconstrained(query));
            let first = std::future::poll_fn(|cx| {
                let _state = self.state(); // who goes takes it too
                if batch.iter().any(|it| it.answer.is_closed()) {
                    return Poll::Ready(Ok(None));
                }
                let begun = self.wire.begin();
                Poll::Ready(begun.map(|sent| Some((query.as_mut().poll(cx), sent))))
            });
            let Some((first, sent)) = first.await? else {
                continue;
            };
            let answer = pin!(async {
                let answer = match first {
                    Poll::Ready(answer) => answer,
                    Poll::Pending => query.await,
                };
                known(answer)
            });
            let within = until.saturating_duration_since(Instant::now());
            let reply = self.wire.finish(within, answer).await?;
            return Ok(reply.map(|reply| (reply, sent)));
        }
    }

    fn hand_out(&self, batch: Vec<Item>, reply: Value, sent: Moment) {
        match reply::combined(reply, batch.len()) {
            Ok(replies) => {
                let granted_at = |it: &Result<reply::Item, Fault>| match it {
                    Ok(reply::Item::Granted { time, .. }) => Some(*time),
                    _ => None,
                };
                if let Some(time) = replies.iter().find_map(granted_at) {
                    self.wire.heard_time(time, sent);
                }
                let says_read_only = |it: &Result<reply::Item, Fault>| {
                    matches!(it, Err(Fault::Refused(Refusal::ReadOnly, _)))
                };
                if replies.iter().any(says_read_only) {
                    self.wire.give_up(); // the master is elsewhere
                }
                for (item, reply) in batch.into_iter().zip(replies) {
                    item.ends(reply.map_or_else(Outcome::Failed, Outcome::Answered));
                }
            }
            Err(fault) => fail(batch, &fault),
        }
    }
}

impl Item {
    fn ends(self, outcome: Outcome) {
        let _ = self.answer.send(outcome); // unless its caller has gone
    }
}

fn fail(batch: Vec<Item>, fault: &Fault) {
    for item in batch {
        item.ends(Outcome::Failed(fault.clone()));
    }
}

fn known(answer: Result<Value, RedisError>) -> Result<Option<Value>, RedisError> {
    match answer {
        Err(error) if scripts::is_unknown(&error) => Ok(None),
        answer => answer.map(Some),
    }
}
