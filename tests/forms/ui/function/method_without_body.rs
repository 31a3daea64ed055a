//! A method of a trait that has no body.

use dlock_runtime::{LockError, distributed_lock};

trait Shop {
    #[distributed_lock(key = "item:<id>")]
    async fn purchase(&self, id: u64) -> Result<u64, LockError>;
}

// Mended.
struct Corner;

impl Corner {
    #[distributed_lock(key = "item:<id>")]
    async fn mended(&self, id: u64) -> Result<u64, LockError> {
        Ok(id)
    }
}

impl Shop for Corner {
    async fn purchase(&self, id: u64) -> Result<u64, LockError> {
        self.mended(id).await
    }
}

fn main() {
    let _kept = Corner.purchase(7);
}
