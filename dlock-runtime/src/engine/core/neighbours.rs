//! The live pools of this process at one server whose namespaces nest, such as `lock:` and
//! `lock:shop:`.
//!
//! `shop:7` of the outer and `7` of the inner one are one lock, each with a queue and a counter of
//! its own. So the outer pool refuses such a key while it knows of the inner one. What other
//! processes have can't be known.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use crate::values::config::{Address, Settings};
use crate::values::error::LockError;
use crate::values::key::Key;
use crate::values::process::PerProcess;

static POOLS: PerProcess<Mutex<Vec<Weak<Neighbour>>>> = PerProcess::new(Mutex::new(Vec::new()));

/// A pool as others see it, for as long as it lives.
#[derive(Debug)]
pub(super) struct Neighbour {
    /// As it was named: one server under two names is not noticed.
    server: String,
    namespace: String,
    /// There was a pool whose namespace begins with this one's. Else nothing is looked up.
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

    /// Whether the key is none of a live pool inside this one's namespace.
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
