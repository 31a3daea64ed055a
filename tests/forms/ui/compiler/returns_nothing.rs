//! A function that returns nothing.

use dlock_runtime::distributed_lock;

#[distributed_lock(key = "item:<id>")]
async fn purchase(id: u64) {
    let _ = id;
}

// Mended.
#[distributed_lock(key = "item:<id>", on_error = |error| eprintln!("{error}"))]
async fn mended(id: u64) {
    let _ = id;
}

fn main() {
    let _kept = (purchase(7), mended(7));
}
