//! When the values of a body are dropped, by the rules of the edition in which this file is
//! compiled: the same body with and without a lock.

#![allow(
    tail_expr_drop_order,
    if_let_rescope,
    clippy::redundant_else,
    unreachable_pub,
    reason = "what they warn of is the point; and not every crate that has this file exports it"
)]

use std::sync::{Arc, Mutex};

use crate::dlock::{self, LockError};

/// What was dropped, in order.
pub type Log = Arc<Mutex<Vec<&'static str>>>;

struct Noisy(&'static str, Log);

impl Noisy {
    fn value(&self) -> usize {
        self.0.len()
    }
}

impl Drop for Noisy {
    fn drop(&mut self) {
        if let Ok(mut log) = self.1.lock() {
            log.push(self.0);
        }
    }
}

macro_rules! plain_and_locked {
    ($($function:tt)*) => {
        /// Without a lock.
        ///
        /// # Errors
        /// Never.
        pub async fn plain $($function)*

        /// With one.
        ///
        /// # Errors
        /// As the lock fails.
        #[dlock::distributed_lock(crate = crate::dlock, key = "drops")]
        pub async fn locked $($function)*
    };
}

plain_and_locked! {
    (log: &Log) -> Result<usize, LockError> {
        let _first = Noisy("first local", log.clone());
        let _second = Noisy("second local", log.clone());
        if let 0 = Noisy("scrutinee", log.clone()).value() {
            return Ok(0);
        } else {
            Noisy("else", log.clone()).value();
        }
        Ok(Noisy("temporary of the tail", log.clone()).value())
    }
}
