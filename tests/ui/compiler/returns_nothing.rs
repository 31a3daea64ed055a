//! A function that returns nothing.

use dlock_runtime::distributed_lock;

#[distributed_lock(key = "item:<id>")]
async fn purchase(id: u64) {
    drop(id);
}

// Mended.
#[distributed_lock(key = "item:<id>", on_error = |error| drop(error))]
async fn mended(id: u64) {
    drop(id);
}

fn main() {
    let _kept = (purchase(7), mended(7));
}
