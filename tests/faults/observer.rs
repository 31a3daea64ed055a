//! A thread with a runtime of its own, which watches and disturbs while the test's executor is
//! blocked.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use dlock_harness::wait::pause;

use crate::lab::{Lab, ON_SERVER};

/// Watches the item's key until it is told to stop.
pub(crate) struct Onlooker {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<usize>,
}

impl Onlooker {
    /// Disturbs, then checks that the key still has its first value, again and again.
    pub(crate) fn start(lab: &Arc<Lab>, disturb: impl AsyncFn(&Lab) + Send + 'static) -> Self {
        let (stop, lab) = (Arc::new(AtomicBool::new(false)), lab.clone());
        let stopped = stop.clone();
        let thread = thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build();
            runtime.unwrap().block_on(async {
                let first = lab.value(ON_SERVER).await;
                assert!(first.is_some(), "the lock is held when the onlooker starts");
                let mut looks = 0;
                while !stopped.load(Ordering::SeqCst) {
                    disturb(&lab).await;
                    assert_eq!(lab.value(ON_SERVER).await, first, "the lock changed hands");
                    looks += 1;
                    pause(Duration::from_millis(10)).await;
                }
                looks
            })
        });
        Self { stop, thread }
    }

    /// Fails if the lock was ever gone or another holder's.
    pub(crate) fn end(self) {
        self.stop.store(true, Ordering::SeqCst);
        let looks = self.thread.join().expect("the lock was held all the time");
        assert!(looks > 10, "looked only {looks} times");
    }
}
