//! One acquire on its way: what is sent, who sees to it if its answer never comes, and what is in the way
//! of a lock that is not ours.
//!
//! Invariant: from before it is sent until it is settled, an acquire's token is known to the guardian.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use super::acquire::Order;
use super::pool::LockPool;
use super::waiting::Lane;
use crate::backend::Link;
use crate::backend::fault::Fault;
use crate::policy::commands::{Acquire, Busy, Claim, Left};
use crate::policy::gate::Position;
use crate::policy::queue::{self, Place};
use crate::values::entry::{self, There};
use crate::values::error::{Refusal, Text};
use crate::values::holder::{self, About, Holder, Reading};
use crate::values::kind::Kind;
use crate::values::moment::Moment;
use crate::values::token::Token;

/// An acquire that is about to be sent.
pub(super) struct Sent {
    pub(super) token: Token,
    pub(super) command: Acquire,
    pub(super) at: Moment,
    /// Nothing of it can be left after this.
    give_up: Moment,
}

impl Sent {
    /// Sent right now. `place`: how it queues, if it is to.
    pub(super) fn prepare(
        pool: &LockPool,
        order: &Order,
        link: &Arc<dyn Link>,
        place: Option<Place>,
        (now, within): (Moment, Duration),
    ) -> Self {
        let token = pool.tokens().draw();
        let lease = order.terms.lease();
        let about = About {
            host: pool.holder_name(),
            pid: token.pid(),
            function: &order.function,
            since: SystemTime::now(),
        };
        let claim = claim(order, token, &about, place);
        let command = Acquire {
            claim,
            lease,
            not_after: Acquire::not_after(link.server_time_at(now), within),
            repair_missing_ttl: pool.settings().repair_missing_ttl,
        };
        let give_up = now.plus(within + queue::longest_stay(lease.get()));
        pool.guardian().acquiring(token, command.claim.clone());
        Self {
            token,
            command,
            at: now,
            give_up,
        }
    }

    pub(super) fn position(&self) -> Position {
        Position {
            token: self.token,
            claim: self.command.claim.clone(),
        }
    }
}

fn claim(order: &Order, token: Token, about: &About<'_>, place: Option<Place>) -> Claim {
    let entry = || {
        let address = place.as_ref().map_or("", |place| &*place.address);
        let (wire, lease) = (token.to_wire(), order.terms.lease());
        entry::write(&order.kind, &wire, address, lease, &about.text())
    };
    let entry = order.kind.is_shared().then(entry).flatten();
    let value = entry.unwrap_or_else(|| holder::write(token, about));
    Claim {
        key: order.name.clone(),
        value: value.into(),
        place,
    }
}

/// An acquire whose fate is open. Dropped so, its token goes to the guardian.
pub(super) struct OpenAttempt<'a> {
    pool: &'a LockPool,
    sent: &'a Sent,
    link: &'a Arc<dyn Link>,
    /// The gate that has it as its place.
    gate: Option<&'a Lane>,
    settled: bool,
}

impl<'a> OpenAttempt<'a> {
    pub(super) fn new(
        pool: &'a LockPool,
        sent: &'a Sent,
        link: &'a Arc<dyn Link>,
        gate: Option<&'a Lane>,
    ) -> Self {
        Self {
            pool,
            sent,
            link,
            gate,
            settled: false,
        }
    }

    /// It created something, and whoever reads the answer sees to that.
    pub(super) fn answered(mut self) {
        self.settled = true;
    }

    pub(super) fn created_nothing(mut self) {
        self.settled = true;
        if self.leaves_gate() {
            self.pool.guardian().not_granted(self.sent.token);
        }
    }

    /// `false`: a push was faster, and the token is somebody's.
    fn leaves_gate(&self) -> bool {
        let now = self.pool.backend().clock().now();
        self.gate
            .is_none_or(|lane| self.pool.gates().ended(lane, self.sent.token, now))
    }
}

impl Drop for OpenAttempt<'_> {
    fn drop(&mut self) {
        if !self.settled && !self.pool.is_inherited() && self.leaves_gate() {
            let Sent {
                token,
                command,
                give_up,
                ..
            } = self.sent;
            let (claim, link) = (command.claim.clone(), self.link.clone());
            self.pool
                .guardian()
                .abandoned(*token, claim, command.not_after, *give_up, link);
        }
    }
}

/// What keeps a lock from being ours.
pub(super) enum InTheWay {
    Somebody {
        holder: Holder,
        left: Duration,
    },
    /// The key has no time to live; its owner may be about to give it one.
    Endless(Fault),
}

pub(super) fn in_the_way(busy: &Busy) -> Result<InTheWay, Fault> {
    match (holder::read(&busy.value), busy.left) {
        (Reading::UnknownLayout, _) => Err(Fault::Refused(
            Refusal::Layout,
            Text::new("the value's layout version is not 1"),
        )),
        (_, Left::Endless) => {
            let why = Text::new("PTTL of the key is -1");
            Ok(InTheWay::Endless(Fault::Refused(Refusal::NoTtl, why)))
        }
        (Reading::Holder(holder), Left::For(left)) => Ok(InTheWay::Somebody { holder, left }),
    }
}

/// Two kinds at one key: never a matter of waiting.
pub(super) fn wrong_kind(order: &Order, there: &str) -> Fault {
    let (ours, theirs) = (&order.kind, There::read(there));
    let one_owner = match (ours, &theirs.kind) {
        (Kind::Owned(_), Some(Kind::Exclusive)) => !theirs.waits,
        (Kind::Exclusive, Some(Kind::Owned(_))) => order.reentrant,
        _ => false,
    };
    let hint = if one_owner {
        "; `reentrant` with an `owner` and without are two kinds, so where one is inside the other say the same `owner` at both"
    } else {
        ""
    };
    let why = Text::new(format_args!(
        "asked for {ours}, and there is {theirs}{hint}"
    ));
    Fault::Refused(Refusal::WrongKind, why)
}

pub(super) fn clock_runs_ahead() -> Fault {
    Fault::Unsent(Text::new("the server's clock runs ahead by leaps"))
}
