//! Records in which order nested locks are taken, and applies the pool's `lock_order` setting.
//!
//! `extras::lock_order` finds the inversions. Costs nothing with `Off`, a look at the scope without
//! an enclosing lock, and one mutex with one.

use std::sync::{Arc, PoisonError};

use super::core::Core;
use super::scope::{self, ScopedGuard};
use crate::client::spec::AcquireSpec;
use crate::extras::lock_order::Nesting;
use crate::observe;
use crate::values::class::LockSite;
use crate::values::error::{LockError, Reason};
use crate::values::lock_order::LockOrder;
use crate::values::wait::Wait;

/// Records that this lock is requested inside the held ones; logs an order that can deadlock, or
/// refuses it.
///
/// A call with `Wait::Once` never waits, so it can't deadlock and is not recorded; the lock that it
/// gets counts as held like any other.
pub(super) fn check(core: &Arc<Core>, spec: &AcquireSpec) -> Result<(), LockError> {
    let what_to_do = core.settings().lock_order;
    if what_to_do == LockOrder::Off || spec.wait == Wait::Once {
        return Ok(());
    }
    let enclosing = scope::held(core);
    if enclosing.is_empty() {
        return Ok(());
    }
    let wanted = LockSite::new(&spec.key, spec.site);
    let nesting = |guard: &ScopedGuard| Nesting {
        held: guard.lock_site(),
        wanted: wanted.clone(),
        keys: [guard.key().clone(), spec.key.clone()],
    };
    let nestings: Vec<_> = enclosing.iter().map(nesting).collect();
    let mut specs = (core.lock_orders().lock()).unwrap_or_else(PoisonError::into_inner);
    if what_to_do == LockOrder::Refuse {
        return match specs.note_unless_inverted(&nestings) {
            None => Ok(()),
            Some(inversion) => Err(LockError::WouldDeadlock {
                key: spec.key.clone(),
                inversion: Some(Reason::new(inversion)),
                enclosing: None,
            }),
        };
    }
    let inversions: Vec<_> = (nestings.iter())
        .filter_map(|nesting| specs.note(nesting))
        .collect();
    drop(specs); // a listener to events may take a lock itself
    for inversion in inversions {
        observe::lock_order(spec.key.parts(), &inversion);
    }
    Ok(())
}
