//! The task that moves a key's place at the server: one acquire for the first in line, polls while it
//! stands in the queue, and again for the next.
//!
//! It ends when nobody waits any more; if it ends before (with its runtime), those who wait are told, and
//! one of them starts another. Every command's outcome reaches the gate, or its token is cleaned up.
//!
//! Never in this folder: who is next (`policy::gate`), how long to pause (`policy::retry`).

mod answers;

use std::future::poll_fn;
use std::hash::{BuildHasher, RandomState};
use std::sync::{Arc, LazyLock};
use std::task::Poll;
use std::time::Duration;

use tokio::runtime::Handle;

use crate::backend::Link;
use crate::backend::fault::Fault;
use crate::engine::attempt::{self, OpenAttempt, Sent};
use crate::engine::core::Core;
use crate::engine::local_queues::lane::Lane;
use crate::engine::local_queues::{Answered, Wheel};
use crate::engine::order::Order;
use crate::policy::commands::{Acquired, Left, Polled};
use crate::policy::gate::{Next, Offer, Position};
use crate::policy::retry::{Jitter, Retries};
use crate::values::entry;
use crate::values::moment::Moment;
use crate::values::token::Token;

/// A driver shows a sign of life at least so often.
const LOOK_AT_LEAST_EVERY: Duration = Duration::from_secs(1);

/// A poll that takes longer is repeated, so that the place shows signs of life.
const POLL_AT_MOST: Duration = Duration::from_secs(1);

/// Drivers of other processes pause for other times.
static SEED: LazyLock<u64> = LazyLock::new(|| RandomState::new().hash_one(0));

pub(super) struct Driver {
    core: Arc<Core>,
    lane: Lane,
    wheel: Wheel,
    /// What the first acquire was answered with, until the waiter who sent it looks.
    granted: Option<(Token, Offer)>,
    /// Nobody has to be told that it is gone.
    dismissed: bool,
    retries: Retries,
}

impl Driver {
    /// Only for who took the gate's wheel.
    pub(super) fn new(core: Arc<Core>, lane: Lane, wheel: Wheel) -> Self {
        Self {
            core,
            lane,
            wheel,
            granted: None,
            dismissed: false,
            retries: Retries::new(Jitter::seeded(wheel.wrapping_add(*SEED))),
        }
    }

    /// The first acquire, if nothing speaks against it. Its grant is for [`answered`](Self::answered).
    pub(super) async fn first(mut self, now: Moment) -> Self {
        match self.next(now) {
            (Next::Ask, Some(order)) => self.granted = self.ask(&order, now).await,
            (Next::GiveUp(position), _) => self.core.see_to(Some(position.token)),
            _ => {} // whoever goes on asks again
        }
        self
    }

    /// What the waiter reads who has sent the first acquire.
    pub(super) fn answered(&mut self) -> Answered {
        let granted = self.granted.take();
        if granted.is_some() {
            self.retries.works();
        }
        Answered {
            wheel: self.wheel,
            granted,
        }
    }

    /// Nobody waits, and the gate knows that it ends.
    pub(super) fn dismiss(mut self) {
        self.dismissed = true;
    }

    /// Drives on in a task of its own while somebody waits.
    pub(super) fn go_on(mut self, runtime: &Handle) {
        if let Some((token, offer)) = self.granted.take() {
            self.offered(token, offer); // nobody has read it
        }
        let gates = self.core.gates();
        let rests = gates.at(&self.lane, |it| it.keyed.rests(self.wheel));
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
                (Next::Ask, Some(order)) => {
                    if let Some((token, offer)) = self.ask(&order, now).await {
                        self.offered(token, offer);
                    }
                }
                (Next::Poll(position), _) => self.poll(position).await,
                (Next::GiveUp(position), _) => self.core.see_to(Some(position.token)),
                // Everybody has gone; or whose turn it is has been woken.
                (Next::Ask, None) | (Next::PassOn, _) => {}
                (Next::Sleep(until), _) => self.sleep(until).await,
                (Next::Rest, _) => return,
            }
        }
    }

    /// What to do; of an acquire also for whom.
    fn next(&mut self, now: Moment) -> (Next, Option<Arc<Order>>) {
        let next = self.core.gates().at(&self.lane, |it| {
            let next = it.next(self.wheel, now);
            let asks = next == Next::Ask;
            let first = it.keyed.gate.first().filter(|_| asks);
            (next, first.map(|it| it.order.clone()))
        });
        let (next, first) = next.unwrap_or((Next::Rest, None));
        self.dismissed = next == Next::Rest;
        (next, first)
    }

    fn now(&self) -> Moment {
        self.core.backend().clock().now()
    }

    async fn sleep(&self, until: Moment) {
        let bell = self
            .core
            .gates()
            .at(&self.lane, |it| it.keyed.bell())
            .unwrap_or_default();
        let pause = self.now().until(until).min(LOOK_AT_LEAST_EVERY);
        let rung = tokio::time::timeout(pause, bell.notified()).await;
        if rung.is_ok() {
            // Mostly by a holder here, whose release is about to leave. An acquire in the same write would be executed before
            // the server tells the next one elsewhere of its grant: so it leaves in the next one.
            let_others_go_first().await;
        }
    }
}

/// Those tasks that are ready run before this one, which keeps its place among its like. With tokio's `yield_now` those who are
/// `fair` would ask in the reverse of their order, and a worker that is busy would keep the task from all others.
async fn let_others_go_first() {
    let mut waited = false;
    poll_fn(|cx| {
        if std::mem::replace(&mut waited, true) {
            return Poll::Ready(());
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}

/// The two commands.
impl Driver {
    /// What was granted.
    async fn ask(&mut self, order: &Order, now: Moment) -> Option<(Token, Offer)> {
        let asked = self.try_ask(order, now).await;
        asked.unwrap_or_else(|fault| {
            self.failed(fault);
            None
        })
    }

    async fn try_ask(
        &mut self,
        order: &Order,
        now: Moment,
    ) -> Result<Option<(Token, Offer)>, Fault> {
        let (core, lane) = (&self.core, &self.lane);
        let settings = core.settings();
        let (link, now) = core
            .backend()
            .link_at(now, lane.key(), settings.connect_timeout)
            .await?;
        let within = settings.command_timeout.min(order.terms.validity());
        let sent = Sent::prepare(core, order, &link, true, (now, within));
        let gates = core.gates();
        if !gates.sending(Some((lane, self.wheel)), sent.position(), sent.at) {
            return Ok(None);
        }
        let open = OpenAttempt::new(core, &sent, &link, Some(lane));
        let answer = link.acquire(&sent.command, within).await;
        match answer {
            Ok(Acquired::Granted { time, epoch }) => {
                open.answered();
                let lease = sent.command.lease.get();
                let offer = Offer::at_once(sent.at, lease, epoch, time);
                return Ok(Some((sent.token, offer)));
            }
            Ok(Acquired::Yours { time, epoch, left }) => {
                open.answered();
                let offer = Offer::in_turn(sent.at, left, epoch, time);
                return Ok(Some((sent.token, offer)));
            }
            Ok(Acquired::Queued(busy)) => {
                open.answered();
                self.queued(sent.token, &busy, &*link);
            }
            Ok(Acquired::Busy(busy)) => {
                open.created_nothing();
                self.not_queued(attempt::in_the_way(&busy));
            }
            Ok(Acquired::Late { .. }) => {
                open.created_nothing();
                self.late();
            }
            Ok(Acquired::WrongKind { there, .. }) => {
                open.created_nothing();
                self.send_away(attempt::wrong_kind(order, &there));
            }
            Err(unclear) if unclear.leaves_open() => return Err(unclear), // `open` sees to the rest
            Err(answered) => {
                open.created_nothing();
                return Err(answered);
            }
        }
        Ok(None)
    }

    /// Where somebody has hurried, and may be let in, by a poll of its own. Else with others.
    async fn poll(&mut self, position: Position) {
        let (core, token) = (self.core.clone(), position.token);
        let within = core.settings().command_timeout.min(POLL_AT_MOST);
        let link = match core.backend().link(self.lane.key(), within).await {
            Ok(link) => link,
            Err(fault) => return self.poll_failed(token, fault),
        };
        let gates = core.gates();
        let is_hurried = gates.at(&self.lane, |it| it.keyed.gate.polls_by_itself());
        let answer = if is_hurried.unwrap_or_default() {
            Ok(None)
        } else {
            link.heartbeat(&position.claim, within).await
        };
        let sent = self.now();
        let answer = match answer {
            // With all of its time, however late a server or a process that has too much to do has said so.
            Ok(None) => link.poll(&position.claim, within).await,
            Ok(Some(waits)) => Ok(waits),
            Err(fault) => Err(fault),
        };
        match answer {
            Ok(Polled::Yours { time, epoch, left }) => {
                self.offered(token, Offer::in_turn(sent, left, epoch, time));
            }
            // The connection is another one by now, and a grant would reach nobody; or the key has lost its
            // time to live, of which an acquire knows what to do.
            Ok(Polled::Queued(busy))
                if !answers_at(&position, &*link) || busy.left == Left::Endless =>
            {
                let now = self.now();
                let unowned = gates.at(&self.lane, |it| it.client().unreachable(&position, now));
                self.core.see_to(unowned.flatten());
            }
            Ok(Polled::Queued(busy)) => self.queued(token, &busy, &*link),
            Ok(Polled::Gone { .. }) => gates.nothing_there(Some(&self.lane), token, self.now()),
            Err(fault) => self.poll_failed(token, fault),
        }
    }
}

/// Whether grants to this place arrive at this connection.
fn answers_at(position: &Position, link: &dyn Link) -> bool {
    let entry = entry::read(&position.claim.value);
    entry.is_some_and(|it| it.address == link.address().map_or("", |address| address))
}

impl Drop for Driver {
    fn drop(&mut self) {
        if (self.dismissed && self.granted.is_none()) || self.core.is_inherited() {
            return;
        }
        if let Some((token, offer)) = self.granted.take() {
            self.offered(token, offer);
        }
        if !self.dismissed {
            let wheel = self.wheel;
            self.core
                .gates()
                .at(&self.lane, |it| it.keyed.driver_gone(wheel));
        }
    }
}

#[cfg(test)]
mod tests;
