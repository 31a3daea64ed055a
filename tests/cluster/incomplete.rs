//! A runtime without timers or I/O: a `Config` error that says `enable_all`, never a panic, and no harm
//! to others.

use dlock_harness::Cluster;
use dlock_runtime::{LockError, LockPool};
use tokio::runtime::{Builder, Runtime};

use crate::config;

fn says_so<T>(answer: Result<T, LockError>) {
    let error = answer.map(|_| ()).unwrap_err();
    assert!(matches!(error, LockError::Config { .. }), "{error:?}");
    assert!(error.to_string().contains("enable_all"), "{error}");
}

#[test]
fn a_cluster_without_a_whole_runtime_is_a_config_error() {
    let whole = || Builder::new_multi_thread().enable_all().build().unwrap();
    let cluster = whole().block_on(Cluster::start(3));
    let incomplete: [Runtime; 3] = [
        Builder::new_current_thread().build().unwrap(),
        Builder::new_multi_thread().enable_io().build().unwrap(),
        Builder::new_current_thread().enable_time().build().unwrap(),
    ];
    for runtime in incomplete {
        says_so(runtime.block_on(LockPool::connect(config(&cluster))));
        let lazy = runtime.block_on(LockPool::connect(config(&cluster).lazy()));
        let pool = lazy.unwrap();
        says_so(runtime.block_on(pool.lock("k").acquire()));
        says_so(runtime.block_on(pool.lock("k").try_acquire()));
        says_so(runtime.block_on(pool.ping()));
        says_so(runtime.block_on(pool.holder("k")));
        let guard = whole().block_on(pool.lock("k").acquire()).unwrap();
        says_so(runtime.block_on(guard.verify()));
        assert!(guard.is_held());
        let _ = runtime.block_on(guard.release()).unwrap();
    }
}
