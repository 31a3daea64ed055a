//! The live pools of this process on one server whose namespaces nest, such as `lock:` and
//! `lock:shop:`.
//!
//! `shop:7` of the outer pool and `7` of the inner one are the same lock, but each pool has its own
//! queue and fence counter for it. So the outer pool refuses such a key while the inner one lives.
//! Pools of other processes can't be seen here.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use crate::values::config::{Address, Settings};
use crate::values::error::LockError;
use crate::values::key::Key;
use crate::values::process::PerProcess;

static POOLS: PerProcess<Mutex<Vec<Weak<Neighbour>>>> = PerProcess::new(Mutex::new(Vec::new()));

/// A pool as other pools see it, for as long as it lives.
#[derive(Debug)]
pub(super) struct Neighbour {
    /// The address as configured: one server under two names is not noticed.
    server: String,
    namespace: String,
    /// Set once there was a pool whose namespace begins with this one's. While it is unset, `check`
    /// looks nothing up.
    may_have_inner: AtomicBool,
}

impl Neighbour {
    /// `None` for a server that no other pool can reach.
    pub(super) fn enter(settings: &Settings) -> Option<Arc<Self>> {
        if matches!(settings.address, Address::Memory) {
            return None;
        }
        let new = Arc::new(Self {
            server: settings.address.to_string(),
            namespace: settings.namespace.clone(),
            may_have_inner: AtomicBool::new(false),
        });
        let mut pools = all();
        pools.retain(|it| it.strong_count() > 0);
        for other in pools.iter().filter_map(Weak::upgrade) {
            for (outer, inner) in [(&new, &other), (&other, &new)] {
                if inner.is_inside(outer) {
                    outer.may_have_inner.store(true, Ordering::Release);
                }
            }
        }
        pools.push(Arc::downgrade(&new));
        Some(new)
    }

    /// Checks that no live pool inside this one's namespace owns the key.
    ///
    /// # Errors
    /// [`LockError::InvalidKey`], which names that pool's namespace.
    pub(super) fn check(&self, key: &Key) -> Result<(), LockError> {
        if !self.may_have_inner.load(Ordering::Acquire) {
            return Ok(());
        }
        let pools = all();
        let living = pools.iter().filter_map(Weak::upgrade);
        let mut inner = living.filter(|it| it.is_inside(self)).peekable();
        if inner.peek().is_none() {
            self.may_have_inner.store(false, Ordering::Release);
        }
        match inner.find(|it| key.as_str().starts_with(&it.namespace)) {
            None => Ok(()),
            Some(inner) => Err(LockError::invalid_key(
                key.clone(),
                format_args!(
                    "it lies in the namespace {:?} of another pool of this process, where it has another queue and other fences: lock it through that pool, or give the pools namespaces of which neither begins the other",
                    inner.namespace
                ),
            )),
        }
    }

    fn is_inside(&self, outer: &Self) -> bool {
        self.server == outer.server
            && self.namespace.len() > outer.namespace.len()
            && self.namespace.starts_with(&outer.namespace)
    }
}

fn all() -> MutexGuard<'static, Vec<Weak<Neighbour>>> {
    POOLS.ours().lock().unwrap_or_else(PoisonError::into_inner)
}
