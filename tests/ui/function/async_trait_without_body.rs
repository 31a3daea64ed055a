//! `#[async_trait]` on a trait whose method has no body.

use dlock_runtime::{LockError, distributed_lock};

#[async_trait::async_trait]
trait Shop {
    #[distributed_lock(key = "item:<id>")]
    async fn purchase(&self, id: u64) -> Result<u64, LockError>;
}

struct Corner;

// Mended.
#[async_trait::async_trait]
impl Shop for Corner {
    #[distributed_lock(key = "item:<id>")]
    async fn purchase(&self, id: u64) -> Result<u64, LockError> {
        Ok(id)
    }
}

fn main() {
    let _kept = Corner.purchase(7);
}
