//! The future of a locked function: `Send` when its body is, and at most 512 bytes larger than
//! without the lock.

#[macro_use]
mod cases;

use std::rc::Rc;

use dlock_runtime::{LockError, LockPool, distributed_lock};
use tokio::task::yield_now;

/// The bytes that the lock may add.
const MOST: usize = 512;

const KIB: usize = 1024;

fn is_send<T: Send>(value: T) -> T {
    value
}

async fn memory() -> Result<LockPool, LockError> {
    Ok(crate::memory().await)
}

/// A test for the sizes of each case.
macro_rules! tests {
    ($($name:ident: [$($attribute:tt)*], ($($arg:ident: $ty:ty = $value:expr),*) -> $returned:ty, $body:block;)*) => { $(
        mod $name {
            use super::*;

            async fn plain($($arg: $ty),*) -> Result<$returned, LockError> $body

            #[distributed_lock($($attribute)*)]
            async fn locked($($arg: $ty),*) -> Result<$returned, LockError> $body

            #[tokio::test]
            async fn is_little_larger_and_send() -> Result<(), LockError> {
                let (plain, locked) = (is_send(plain($($value),*)), is_send(locked($($value),*)));
                let (without, with) = (size_of_val(&plain), size_of_val(&locked));
                println!("{}: {without} bytes without the lock, {with} with it", stringify!($name));
                assert!(with <= without + MOST, "{without} → {with}");
                assert_eq!(plain.await?, crate::on_memory(locked).await?);
                Ok(())
            }
        }
    )* };
}

for_all_cases!(tests);

/// A limit: an `async fn` that awaits anything keeps its arguments twice (rust-lang/rust#62958),
/// and a locked one awaits its lock. So a body without an await is compared with one that has one.
mod a_kib_in_an_argument_and_no_await {
    use super::*;

    #[allow(
        clippy::large_types_passed_by_value,
        reason = "a large argument is the point"
    )]
    async fn plain(argument: [u8; KIB]) -> usize {
        yield_now().await;
        argument.len()
    }

    #[allow(
        clippy::large_types_passed_by_value,
        reason = "a large argument is the point"
    )]
    #[distributed_lock(key = "k", on_error = |_| 0)]
    async fn locked(argument: [u8; KIB]) -> usize {
        argument.len()
    }

    #[test]
    fn is_little_larger_than_with_an_await() {
        let (without, with) = (
            size_of_val(&plain([1; KIB])),
            size_of_val(&locked([1; KIB])),
        );
        println!(
            "a_kib_in_an_argument_and_no_await: {without} bytes with an await and no lock, {with} with the lock"
        );
        assert!(with <= without + MOST, "{without} → {with}");
    }
}

/// A term's body is on the heap.
mod a_kib_in_a_leader {
    use super::*;

    #[distributed_lock(key = "k", lead)]
    async fn nothing() -> Result<usize, LockError> {
        yield_now().await;
        Ok(KIB)
    }

    #[distributed_lock(key = "k", lead)]
    async fn leads() -> Result<usize, LockError> {
        let local = std::hint::black_box([1_u8; KIB]);
        yield_now().await;
        Ok(local.len())
    }

    #[tokio::test]
    async fn is_no_larger_and_send() -> Result<(), LockError> {
        let (nothing, leads) = (is_send(nothing()), is_send(leads()));
        let (without, with) = (size_of_val(&nothing), size_of_val(&leads));
        println!("a_kib_in_a_leader: {with} bytes, and {without} without it");
        assert_eq!(with, without);
        assert_eq!(crate::on_memory(leads).await?, KIB);
        Ok(())
    }
}

#[distributed_lock(key = "k")]
async fn not_send() -> Result<usize, LockError> {
    let local = Rc::new(7);
    yield_now().await;
    Ok(*local)
}

/// The lock does not require `Send`: a function that can't be spawned still runs where it is.
/// (`tests/ui/compiler/not_send.rs` shows that it is not `Send`.)
#[tokio::test]
async fn a_body_that_is_not_send_runs() {
    assert_eq!(crate::on_memory(not_send()).await.unwrap(), 7);
}
