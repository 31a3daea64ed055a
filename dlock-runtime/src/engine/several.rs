//! Several locks at once: all of them, or none.
//!
//! Where all are free, one command takes them all. Else they are taken one after the other, in the order of their
//! names, which is the same for everybody: two who want the same locks never hold what the other waits for. What is
//! held already is kept alive while the next is waited for, and given back when that fails.

use std::pin::pin;
use std::sync::Arc;

use dlock_grammar::kind::KindError;

use super::acquire::{self, Patience};
use super::attempt::{OpenAttempt, Sent};
use super::core::Core;
use super::guard::LockGuard;
use super::lock_order;
use super::nested::{self, Nested};
use super::order::Order;
use crate::backend::fault::{self, Fault};
use crate::policy::commands::{Acquire, TakenTogether};
use crate::policy::gate::Offer;
use crate::values::error::{LockError, Text};
use crate::values::kind::Kind;
use crate::values::moment::Moment;

/// A lock that is held already; `None`: by the body that asks.
type One = (LockGuard, Option<Offer>);
type Held = Vec<One>;

/// `orders`: sorted by key, each key once.
pub(crate) async fn acquire(
    core: &Arc<Core>,
    orders: &[Arc<Order>],
) -> Result<LockGuard, LockError> {
    let [first, others @ ..] = orders else {
        return Err(LockError::config(KindError::NoKeys));
    };
    if others.is_empty() {
        return acquire::acquire(core, first).await;
    }
    fault::runtime_with_timers().map_err(|fault| fault.into_error(None))?;
    let nested: Vec<Nested> = orders.iter().map(|it| nested::look(core, it)).collect();
    for (order, nested) in orders.iter().zip(&nested) {
        if let Nested::WouldDeadlock(outer) = nested {
            return Err(nested::would_deadlock(order, outer));
        }
    }
    // What is joined is waited for by nobody.
    let mut asked = orders.iter().zip(nested);
    asked.try_for_each(|(order, nested)| match nested {
        Nested::Ask | Nested::AskOnce => lock_order::check(core, order),
        Nested::Join(_) | Nested::WouldDeadlock(_) => Ok(()),
    })?;
    core.guardian().revive()?;
    let patience = Patience::begins(core, first.wait);
    loop {
        if core.is_shut() {
            return Err(LockError::ShutDown);
        }
        let fault = match in_order(core, orders, &patience).await? {
            Ok(guard) => return Ok(guard),
            Err(fault) => fault,
        };
        // Nobody has used them, so the wait goes on, if there is any left.
        if !fault.may_pass() || patience.is_over(core) {
            return Err(fault.into_error(Some(&first.key)));
        }
    }
}

/// All in one step, if each is free and nobody waits for it; `None` if that is not so, or can't be done for this kind.
async fn at_once(core: &Arc<Core>, orders: &[Arc<Order>]) -> Result<Option<Held>, Fault> {
    let alone = |order: &Arc<Order>| order.kind == Kind::Exclusive && order.lane.is_for_all();
    let (true, Some(first)) = (orders.iter().all(alone), orders.first()) else {
        return Ok(None);
    };
    let settings = core.settings();
    let (link, now) = core
        .backend()
        .link_at(
            core.now(),
            &first.name,
            settings.connect_timeout.min(settings.command_timeout),
        )
        .await?;
    let within = settings.command_timeout.min(first.terms.validity());
    let prepare = |order: &Arc<Order>| Sent::prepare(core, order, &link, false, (now, within));
    let sent: Vec<Sent> = orders.iter().map(prepare).collect();
    for sent in &sent {
        core.gates().sending(None, sent.position(), sent.at);
    }
    let open: Vec<_> = sent
        .iter()
        .map(|sent| OpenAttempt::new(core, sent, &link, None))
        .collect();
    let commands: Vec<Acquire> = sent.iter().map(|sent| sent.command.clone()).collect();
    let answer = link.acquire_all(&commands, within).await;
    if core.is_inherited() {
        return Err(Fault::Setup(Text::new(
            "this process was forked while it waited for the answer: ask again, through a pool of its own",
        )));
    }
    match answer {
        Ok(TakenTogether::All { time, epochs, left }) => {
            open.into_iter().for_each(OpenAttempt::answered);
            let taken = orders.iter().zip(&sent).zip(epochs);
            let taken = taken.map(|((order, sent), epoch)| {
                let offer = match left {
                    None => Offer::at_once(sent.at, sent.command.lease.get(), epoch, time),
                    Some(left) => Offer::in_turn(sent.at, left, epoch, time),
                };
                let guard = acquire::take(core, order, sent.position(), offer);
                guard.map(|guard| (guard, Some(offer)))
            });
            // Each of them first: what is taken and not wanted is given back.
            let taken: Vec<Option<One>> = taken.collect();
            let taken: Option<Held> = taken.into_iter().collect();
            taken.map(Some).ok_or_else(|| {
                Fault::Unclear(Text::new("the lock was over before its grant arrived"))
            })
        }
        Ok(TakenTogether::Not { .. } | TakenTogether::Late { .. }) => {
            open.into_iter().for_each(OpenAttempt::created_nothing);
            Ok(None) // one by one tells why
        }
        Err(unclear) if unclear.leaves_open() => Err(unclear), // `open` sees to the rest
        Err(answered) => {
            open.into_iter().for_each(OpenAttempt::created_nothing);
            Err(answered)
        }
    }
}

/// The inner error: what was held is given back, and it may be tried again.
async fn in_order(
    core: &Arc<Core>,
    orders: &[Arc<Order>],
    patience: &Patience,
) -> Result<Result<LockGuard, Fault>, LockError> {
    let (begun, mut held) = (core.now(), Held::new());
    match at_once(core, orders).await {
        Ok(Some(held)) => return Ok(begin(core, orders, begun, held).await),
        Ok(None) => {}
        // In line there is a pause before the next command, and somebody who cleans up is waited for.
        Err(fault) if fault.may_pass() && !patience.is_over(core) => {}
        Err(fault) => return Ok(Err(fault)),
    }
    let mut keep_at = core.now();
    for order in orders {
        let third = order.terms.ttl.get() / 3;
        if held.is_empty() {
            keep_at = core.now().plus(third);
        }
        let may_wait = match nested::look(core, order) {
            Nested::Join(guard) => {
                held.push((guard, None));
                continue;
            }
            nested => !matches!(nested, Nested::AskOnce),
        };
        let next = async { acquire::take_one(core, order, patience, core.now(), may_wait).await };
        let mut next = pin!(next);
        let (guard, offer) = loop {
            let pause = core.now().until(keep_at);
            if pause.is_zero() {
                keep_at = core.now().plus(third);
                if let Err(fault) = keep(core, order, &held).await {
                    return Ok(Err(fault));
                }
                continue;
            }
            if let Ok(taken) = tokio::time::timeout(pause, next.as_mut()).await {
                break taken?;
            }
        };
        held.push((guard, Some(offer)));
    }
    Ok(begin(core, orders, begun, held).await)
}

/// Makes what is held last as long as what is still to come.
async fn keep(core: &Arc<Core>, order: &Order, held: &[One]) -> Result<(), Fault> {
    let ours: Vec<&LockGuard> = held
        .iter()
        .map(|(guard, _)| guard)
        .filter(|guard| !guard.is_joined())
        .collect();
    let timeout = core.settings().command_timeout;
    if LockGuard::confirm_all(&ours, &order.terms, timeout).await? {
        Ok(())
    } else {
        Err(acquire::lost_before_its_body())
    }
}

/// All are held: each lasts its whole ttl from now on, and stays for its `min_hold`.
async fn begin(
    core: &Arc<Core>,
    orders: &[Arc<Order>],
    begun: Moment,
    held: Held,
) -> Result<LockGuard, Fault> {
    let is_short = |(order, (_, offer)): (&Arc<Order>, &One)| {
        offer.is_some_and(|offer| acquire::is_short(order, &offer))
    };
    if let Some(first) = orders.first()
        && (begun.until(core.now()) > first.terms.ttl.get() / 10
            || orders.iter().zip(&held).any(is_short))
    {
        keep(core, first, &held).await?;
    }
    // No `await` from here on: none stays for a body that never began.
    let kept = orders.iter().zip(&held).all(|(order, (guard, offer))| {
        offer.is_none_or(|offer| acquire::stays(order, guard, &offer))
    });
    if !kept {
        for (guard, _) in &held {
            guard.keep_until(0);
        }
        return Err(acquire::lost_before_its_body());
    }
    let guards = held.into_iter().map(|(guard, _)| guard).collect();
    let guard = LockGuard::of_several(guards);
    let guard = guard.ok_or_else(|| Fault::Setup(Text::new(KindError::NoKeys)))?;
    // One may have been lost while another was waited for; and one that was joined is its outer body's to lose.
    if guard.look().is_err() {
        return Err(acquire::lost_before_its_body());
    }
    Ok(guard)
}
