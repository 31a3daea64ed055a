//! A body that is not `Send`: the compiler names what makes the future not `Send`.

use dlock_runtime::{LockError, distributed_lock};

#[distributed_lock(key = "item:<id>")]
async fn purchase(id: u64) -> Result<u64, LockError> {
    let shared = std::rc::Rc::new(id);
    std::future::ready(()).await;
    Ok(*shared)
}

fn is_send(_: impl Send) {}

fn main() {
    is_send(purchase(7));
}
