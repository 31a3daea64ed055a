//! A lock that is asked for inside the body that already holds its key.
//!
//! A call that waits for its own lock would never end, so a nested call either joins the lock that
//! its scope holds, without a command to the server, or fails at once. Only what a body polls is
//! nested: spawned tasks and siblings under `join!` wait like any other caller.
//!
//! Never in this folder: a command to the server.

use std::sync::Arc;

use super::core::Core;
use super::guard::LockGuard;
use super::scope::{self, ScopedGuard};
use crate::client::spec::AcquireSpec;
use crate::values::error::{LockError, Reason};
use crate::values::kind::Kind;

/// How a request relates to the locks of its scope.
pub(super) enum Nested {
    /// No conflict: acquire it.
    Acquire,
    /// The scope holds it already: joins that lock, whose hold count rises by one.
    Join(LockGuard),
    /// The scope holds the key as another kind of lock, which no wait ends: it is tried once, and
    /// the server's error names both kinds.
    AskOnce,
    /// Which lock is in the way, and what to write instead.
    WouldDeadlock(Reason),
}

pub(super) fn check(core: &Arc<Core>, spec: &AcquireSpec) -> Nested {
    let outer = scope::holds(core, &spec.key);
    let mut parts = outer.iter().filter_map(|guard| guard.part_named(&spec.key));
    let Some(innermost) = parts.next() else {
        return Nested::Acquire;
    };
    match (&spec.kind, innermost.kind()) {
        (Kind::Exclusive, Kind::Exclusive) if spec.reentrant => join(spec, innermost),
        (Kind::Read, Kind::Read | Kind::Write) => join(spec, innermost),
        (Kind::Owned(ours), Kind::Owned(theirs)) if ours == theirs => join(spec, innermost),
        (Kind::Permits { of, take }, Kind::Permits { .. }) if is_enough(*of, *take, &outer) => {
            Nested::Acquire
        }
        (Kind::Exclusive, Kind::Exclusive)
        | (Kind::Write, Kind::Read | Kind::Write)
        | (Kind::Owned(_), Kind::Owned(_))
        | (Kind::Permits { .. }, Kind::Permits { .. }) => {
            Nested::WouldDeadlock(in_the_way(spec, innermost))
        }
        _ => Nested::AskOnce,
    }
}

pub(super) fn would_deadlock(spec: &AcquireSpec, enclosing: &Reason) -> LockError {
    LockError::WouldDeadlock {
        key: spec.key.clone(),
        inversion: None,
        enclosing: Some(enclosing.clone()),
    }
}

/// Gives only advice that fits these two kinds: `write` is of no use to the holder of an exclusive
/// lock, and `reentrant` none to a candidate.
fn in_the_way(spec: &AcquireSpec, outer: &LockGuard) -> Reason {
    let advice = match (&spec.kind, outer.kind()) {
        (Kind::Write, Kind::Read) => "a reader can't become the writer, so take `write` there",
        (Kind::Write, _) => "pass the lock down, or take `read` here, which the writer may",
        (Kind::Owned(_), _) => "name the same `owner` at both, or pass the lock down",
        (Kind::Permits { .. }, _) => {
            "it has taken permits that this one needs, so raise `permits`, or `take` all of them there"
        }
        _ if spec.of_candidate => "campaign after that body has ended, or use the lock that it has",
        _ => "pass the lock down, or say `reentrant` here to take it again",
    };
    Reason::new(format_args!(
        "by {}, so waiting for it would never end; {advice}",
        outer.site()
    ))
}

fn join(spec: &AcquireSpec, outer: &LockGuard) -> Nested {
    Nested::Join(outer.join(spec))
}

/// Whether the enclosing scopes have left enough permits.
fn is_enough(of: u32, take: u32, outer: &[ScopedGuard]) -> bool {
    let taken = outer.iter().map(|guard| match guard.kind() {
        Kind::Permits { take, .. } => u64::from(*take),
        _ => 0,
    });
    taken.sum::<u64>() + u64::from(take) <= u64::from(of)
}

#[cfg(test)]
mod tests;
