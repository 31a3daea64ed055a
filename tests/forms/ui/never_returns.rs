//! A function that never returns.

use dlock_runtime::distributed_lock;

#[distributed_lock(key = "loop")]
async fn serve() -> ! {
    std::future::pending().await
}

fn main() {
    let _kept = serve();
}
