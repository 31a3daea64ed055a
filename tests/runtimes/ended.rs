//! A runtime that ends in the middle of a poll, which then asks for a lock. What a runtime that is
//! dropped held or asked for is in `faults/unanswered`.

use std::future::pending;
use std::sync::mpsc;
use std::time::Duration;

use dlock_harness::wait::scaled;
use dlock_harness::{RedisServer, until_blocking};
use dlock_runtime::Config;
use dlock_tests::locks;

use crate::{multi_thread, warm_pool};

const CAP: Duration = Duration::from_secs(10);
const SOON: Duration = Duration::from_secs(3);

/// Reports when its task is gone.
struct Gone(mpsc::Sender<()>);

impl Drop for Gone {
    fn drop(&mut self) {
        let _ = self.0.send(());
    }
}

/// A worker thread is in the middle of a poll when the shutdown begins, and only then asks for the
/// lock: whatever that has to spawn is dropped at once. The poll has to end all the same, for a
/// runtime's drop waits for it.
#[test]
fn an_acquire_that_begins_while_its_runtime_ends_does_not_hold_it_up() {
    let runtime = multi_thread();
    let server = RedisServer::start();
    let config = Config::new(server.url()).connect_timeout(CAP);
    let pool = runtime.block_on(warm_pool(config));
    // The second thread notices the shutdown.
    let doomed = multi_thread();
    let (gone, is_gone) = mpsc::channel();
    let (in_poll, is_in_poll) = mpsc::channel();
    let asks = pool.clone();
    doomed.spawn(async move {
        let _gone = Gone(gone);
        in_poll.send(()).unwrap();
        until_blocking("what is spawned is dropped at once", CAP, || {
            tokio::spawn(pending::<()>()).is_finished()
        });
        let _guard = asks.lock("key").acquire().await;
        pending::<()>().await;
    });
    is_in_poll.recv().unwrap();
    doomed.shutdown_background();
    let ended = is_gone.recv_timeout(scaled(CAP));
    assert_eq!(ended, Ok(()), "the task is polled for ever");
    runtime.block_on(async {
        locks::until_none(&server, SOON).await;
        // And stays free: the next caller has it alone.
        let next = pool.lock("key").acquire().await.unwrap();
        next.release().await.unwrap();
    });
}
