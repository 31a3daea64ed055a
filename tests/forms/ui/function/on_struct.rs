//! A type.

use dlock_runtime::{LockError, distributed_lock};

#[distributed_lock(key = "item:<id>")]
struct Item {
    id: u64,
}

impl Item {
    fn sold(self) -> Result<u64, LockError> {
        Ok(self.id)
    }
}

// Mended.
#[distributed_lock(key = "item:<id>")]
async fn mended(id: u64) -> Result<u64, LockError> {
    Ok(id)
}

fn main() {
    let _kept = (Item { id: 7 }.sold().is_ok(), mended(7));
}
