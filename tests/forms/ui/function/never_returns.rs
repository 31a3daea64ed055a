//! A function that never returns.

use dlock_runtime::{LockError, distributed_lock};

#[distributed_lock(key = "loop")]
async fn serve() -> ! {
    std::future::pending().await
}

// Mended.
#[distributed_lock(key = "loop")]
async fn mended() -> Result<(), LockError> {
    std::future::pending().await
}

fn main() {
    let _kept = (async { serve().await }, mended());
}
