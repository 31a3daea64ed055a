//! The shop's database, in memory so that the example needs none. Each method stands for one
//! transaction.
//!
//! A handler may be dropped at any `await`. There is none in here, so a method runs completely or
//! not at all.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard, PoisonError};

use dlock_runtime::Fence;
use serde::{Deserialize, Serialize};

use crate::error::ShopError;

/// An item of the shop.
#[derive(Clone, Serialize)]
pub(crate) struct Item {
    pub(crate) id: u64,
    pub(crate) cents: u64,
    pub(crate) left: u32,
    /// The highest fencing token that has written; a column of the row.
    #[serde(skip)]
    fence: Option<Fence>,
}

/// A buyer's order. The client chooses `id`: an order that is sent again is answered again and not
/// carried out again.
#[derive(Deserialize)]
pub(crate) struct Order {
    pub(crate) id: String,
    pub(crate) buyer: String,
}

/// The answer to an order.
#[derive(Clone, PartialEq, Eq, Serialize)]
pub(crate) struct Receipt {
    order: String,
    buyer: String,
    item: u64,
    cents: u64,
}

/// The tables, behind the database's own lock, which is unrelated to the distributed one.
#[derive(Default)]
pub(crate) struct Store(Mutex<Tables>);

#[derive(Default)]
struct Tables {
    items: BTreeMap<u64, Item>,
    /// By order.
    receipts: BTreeMap<String, Receipt>,
    bonuses: BTreeSet<String>,
}

impl Store {
    pub(crate) fn stock(&self, id: u64, cents: u64, left: u32) {
        let item = Item {
            id,
            cents,
            left,
            fence: None,
        };
        self.tables().items.insert(id, item);
    }

    pub(crate) fn item(&self, id: u64) -> Result<Item, ShopError> {
        let item = self.tables().items.get(&id).cloned();
        item.ok_or(ShopError::NoSuchItem)
    }

    /// The receipt of this order, if it was carried out.
    pub(crate) fn receipt(&self, id: u64, order: &Order) -> Result<Option<Receipt>, ShopError> {
        self.tables().receipt(id, order)
    }

    /// Takes one item from the stock and writes the receipt; in SQL, an `INSERT` with a unique
    /// order and `UPDATE item SET left = left - 1, fence = $2 WHERE id = $1 AND left > 0 AND fence
    /// <= $2`, in one transaction.
    pub(crate) fn sell(&self, id: u64, order: &Order, fence: Fence) -> Result<Receipt, ShopError> {
        let mut tables = self.tables();
        if let Some(receipt) = tables.receipt(id, order)? {
            return Ok(receipt);
        }
        let item = tables.items.get_mut(&id).ok_or(ShopError::NoSuchItem)?;
        if item.fence.is_some_and(|highest| fence < highest) {
            return Err(ShopError::Overtaken);
        }
        item.left = item.left.checked_sub(1).ok_or(ShopError::SoldOut)?;
        item.fence = Some(fence);
        let receipt = Receipt {
            order: order.id.clone(),
            buyer: order.buyer.clone(),
            item: id,
            cents: item.cents,
        };
        tables.receipts.insert(order.id.clone(), receipt.clone());
        Ok(receipt)
    }

    pub(crate) fn bonus_was_paid(&self, buyer: &str) -> bool {
        self.tables().bonuses.contains(buyer)
    }

    /// Needs no fencing token: writing it twice has the same result.
    pub(crate) fn record_bonus(&self, buyer: &str) {
        self.tables().bonuses.insert(buyer.to_owned());
    }

    fn tables(&self) -> MutexGuard<'_, Tables> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Tables {
    /// Guessing an order's id does not give another buyer's receipt.
    fn receipt(&self, id: u64, order: &Order) -> Result<Option<Receipt>, ShopError> {
        match self.receipts.get(&order.id) {
            Some(receipt) if receipt.item != id || receipt.buyer != order.buyer => {
                Err(ShopError::OrderReused)
            }
            receipt => Ok(receipt.cloned()),
        }
    }
}
