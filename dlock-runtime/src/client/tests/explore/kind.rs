//! Locks with many holders: which kind each process requests, and who may hold the lock beside
//! whom.
//!
//! The driver gives each of their attempts a local queue of its own
//! (`client/queue_key.rs`), so a process of the model that requests one has one
//! contender. [`agree`] is the only rule that is written down a second time here: the machine's
//! `fits` is judged by it.

use super::process::Body;
use super::world::{KEY, World};
use crate::rules::commands::Claim;
use crate::values::entry::{self, Letter};
use crate::values::kind::Kind;
use crate::values::token::Token;
use crate::values::ttl::Ttl;

/// The kind of lock that a process requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Asks {
    Alone,
    Read,
    Write,
    /// This many permits of this total.
    Take(u32, u32),
    As(&'static str),
}

/// How one holder has the lock, or would have it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Holds<'a> {
    Alone,
    Reads,
    Takes { take: u32, of: u32 },
    As(&'a str),
}

/// Whose body does not end by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Keeps {
    Nobodys,
    /// The first process's, for ever; the wait of a process that waits for it in vain ends.
    TheFirst,
    /// The first process's, until the last one's has ended: the outer of two nested calls.
    TheOuter,
}

impl Asks {
    fn kind(self) -> Kind {
        match self {
            Asks::Alone => Kind::Exclusive,
            Asks::Read => Kind::Read,
            Asks::Write => Kind::Write,
            Asks::Take(take, of) => Kind::Permits { of, take },
            Asks::As(owner) => Kind::Owned(owner.into()),
        }
    }

    /// As in `driver/attempt.rs`; without an address it never queues.
    pub(super) fn claim(self, number: u64, address: Option<&str>, lease: Ttl) -> Claim {
        let (token, to) = (format!("t{number}"), address.unwrap_or_default());
        Claim {
            is_once: false,
            key: KEY.into(),
            value: entry::of_test(&self.kind(), &token, to, lease, "").into(),
            queues: address.is_some(),
        }
    }
}

impl<'a> Holds<'a> {
    /// What a value at the key, or an entry in the queue, stands for.
    pub(super) fn of(value: &'a str) -> Self {
        let Some(entry) = entry::read(value) else {
            return Holds::Alone;
        };
        match entry.letter {
            Letter::Reader => Holds::Reads,
            Letter::Exclusive | Letter::Writer => Holds::Alone,
            Letter::Permits => Holds::Takes {
                take: entry.take,
                of: entry.of,
            },
            Letter::Owner => Holds::As(entry.owner),
        }
    }

    /// A writer counts as a reader from when its downgrade was sent.
    pub(super) fn of_body(body: &'a Body) -> Self {
        if body.reads {
            Holds::Reads
        } else {
            Holds::of(&body.claim.value)
        }
    }
}

/// Whether these may hold one lock at the same time.
pub(super) fn agree(holders: &[Holds<'_>]) -> bool {
    let [first, _, ..] = holders else {
        return true;
    };
    match first {
        Holds::Alone => false,
        Holds::Reads | Holds::As(_) => holders.iter().all(|it| it == first),
        // The last of them was granted beside all others, by its own total.
        Holds::Takes { .. } => holders.iter().any(|it| fits_by_number(holders, *it)),
    }
}

/// Whether one more may hold the lock beside these.
pub(super) fn fits(newcomer: Holds<'_>, beside: &[String]) -> bool {
    let mut holders: Vec<_> = beside.iter().map(|it| Holds::of(it)).collect();
    holders.push(newcomer);
    match newcomer {
        Holds::Takes { .. } => fits_by_number(&holders, newcomer),
        _ => agree(&holders),
    }
}

/// Whether all hold permits, and no more in all than the total that `one` states.
fn fits_by_number(holders: &[Holds<'_>], one: Holds<'_>) -> bool {
    let taken = holders.iter().map(|it| match it {
        Holds::Takes { take, .. } => Some(*take),
        _ => None,
    });
    let taken: Option<u32> = taken.sum();
    matches!(one, Holds::Takes { of, .. } if taken.is_some_and(|taken| taken <= of))
}

/// The token in a queue entry, and its process.
pub(super) fn token_of_entry(entry: &str) -> Option<(usize, Token)> {
    super::world::token_in(entry)
}

/// Whether what stands at the key is this value, as it is or as a downgraded writer.
pub(super) fn is_or_was(stands: &str, value: &str) -> bool {
    stands == value || entry::reader_form(value).is_some_and(|reads| stands == reads)
}

/// Whether it is what `min_hold` kept of this value.
pub(super) fn is_kept_of(stands: &str, value: &str) -> bool {
    let of = entry::retired;
    stands == of(value) || entry::reader_form(value).is_some_and(|reads| stands == of(&reads))
}

impl World {
    /// What stands at the key: one value, or one for each holder.
    pub(super) fn standing(&mut self) -> Vec<String> {
        let time = self.clock.time();
        let members = self.holders();
        if members.is_empty() {
            return self.server().read(KEY, time).into_iter().collect();
        }
        members.into_iter().map(|(member, _)| member).collect()
    }

    /// The holders in the set at the key, each with its end; without the further members of a
    /// holder with several permits.
    pub(super) fn holders(&mut self) -> Vec<(String, u64)> {
        let time = self.clock.time();
        let mut members = self.server().members(KEY, time);
        members.retain(|(member, _)| !member.contains('#'));
        members
    }

    /// The epoch that the entries of an owner's hold share.
    pub(super) fn hold_epoch(&self) -> Option<u64> {
        let meta = self.server.stored_meta(KEY)?;
        entry::epoch_of_meta(&meta)
    }
}
