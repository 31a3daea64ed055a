//! A user's type without `Display`.

use dlock_runtime::{LockError, distributed_lock};

struct Order {
    id: u64,
}

#[distributed_lock(key = "order:<order>")]
async fn purchase(order: Order) -> Result<u64, LockError> {
    Ok(order.id)
}

// Mended.
#[distributed_lock(key = "order:<order.id>")]
async fn mended(order: Order) -> Result<u64, LockError> {
    Ok(order.id)
}

fn main() {
    let _kept = (purchase(Order { id: 7 }), mended(Order { id: 7 }));
}
