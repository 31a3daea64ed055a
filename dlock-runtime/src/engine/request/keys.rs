//! What a request is about: one key, or several, which are taken all or none.

use std::sync::Arc;

use dlock_grammar::kind::check_keys;

use crate::engine::acquire;
use crate::engine::core::Core;
use crate::engine::guard::LockGuard;
use crate::engine::order::Order;
use crate::engine::several;
use crate::values::error::LockError;
use crate::values::key::Key;

/// The keys of one request.
#[derive(Debug)]
pub(crate) enum Keys {
    One(Key),
    /// In any order, perhaps several times.
    All(Vec<Key>),
}

/// The locks to take, all checked.
#[derive(Debug)]
pub(crate) enum Orders {
    One(Arc<Order>),
    /// In the order of their names, each once.
    All(Vec<Arc<Order>>),
}

impl Keys {
    /// What is wrong with how many there are.
    pub(super) fn check(&self) -> Result<(), String> {
        match self {
            Keys::One(_) => Ok(()),
            Keys::All(keys) => check_keys(keys.len()).map_err(|why| why.to_string()),
        }
    }

    /// The order for each key.
    pub(super) fn orders(
        self,
        order: impl Fn(Key) -> Result<Order, LockError>,
    ) -> Result<Orders, LockError> {
        let order = |key: Key| order(key).map(Arc::new);
        let keys = match self {
            Keys::One(key) => return order(key).map(Orders::One),
            Keys::All(keys) => keys,
        };
        let orders = keys.into_iter().map(order);
        let mut orders: Vec<_> = orders.collect::<Result<_, LockError>>()?;
        orders.sort_by(|one, other| one.name.cmp(&other.name));
        orders.dedup_by(|one, other| one.name == other.name);
        Ok(Orders::All(orders))
    }
}

impl Orders {
    pub(crate) async fn acquire(&self, core: &Arc<Core>) -> Result<LockGuard, LockError> {
        match self {
            Orders::One(order) => acquire::acquire(core, order).await,
            // Boxed, so that what waits for one key stays small.
            Orders::All(orders) => Box::pin(several::acquire(core, orders)).await,
        }
    }
}
