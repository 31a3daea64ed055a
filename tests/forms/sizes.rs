//! The future of a locked function: `Send` when its body is, and at most 512 bytes larger than without the lock.

use std::rc::Rc;

use dlock_runtime::{LockError, distributed_lock};
use tokio::task::yield_now;

/// What the lock may add.
const MOST: usize = 512;

const KIB: usize = 1024;

fn is_send<T: Send>(value: T) -> T {
    value
}

/// The same function without and with its lock, and a test of their sizes.
macro_rules! sizes {
    ($name:ident, [$($attribute:tt)*], ($($arg:ident: $ty:ty = $value:expr),*), $body:block) => {
        mod $name {
            use super::*;

            async fn plain($($arg: $ty),*) -> Result<usize, LockError> $body

            #[distributed_lock($($attribute)*)]
            async fn locked($($arg: $ty),*) -> Result<usize, LockError> $body

            #[tokio::test]
            async fn is_little_larger_and_send() {
                let (plain, locked) = (is_send(plain($($value),*)), is_send(locked($($value),*)));
                let (without, with) = (size_of_val(&plain), size_of_val(&locked));
                println!("{}: {without} bytes without the lock, {with} with it", stringify!($name));
                assert!(with <= without + MOST, "{without} → {with}");
                let same = (plain.await.unwrap(), crate::on_memory(locked).await.unwrap());
                assert_eq!(same.0, same.1);
            }
        }
    };
}

sizes!(nothing, [key = "k"], (), { Ok(0) });

sizes!(one_await, [key = "k"], (), {
    yield_now().await;
    Ok(0)
});

sizes!(every_option, [key = "k:<id>", ttl = "10s", wait = "1s", renew, on_lost = "finish", crate = ::dlock_runtime], (id: usize = 1), {
    yield_now().await;
    Ok(id)
});

sizes!(a_kib_in_a_local, [key = "k"], (), {
    let local = std::hint::black_box([1_u8; KIB]);
    yield_now().await;
    Ok(local.len())
});

sizes!(a_kib_in_an_argument, [key = "k"], (argument: [u8; KIB] = [1; KIB]), {
    yield_now().await;
    Ok(argument.len())
});

sizes!(a_kib_in_both, [key = "k"], (argument: [u8; KIB] = [1; KIB]), {
    let local = std::hint::black_box([1_u8; KIB]);
    yield_now().await;
    Ok(local.len() + argument.len())
});

sizes!(many_arguments, [key = "<a>:<b>"], (a: u64 = 1, b: u64 = 2, c: String = String::new(), d: Vec<u8> = vec![1]), {
    yield_now().await;
    Ok(c.len() + d.len() + usize::try_from(a + b).unwrap())
});

sizes!(a_pool_expression, [key = "k", pool = pool], (pool: dlock_runtime::LockPool = crate::memory().await), {
    yield_now().await;
    Ok(format!("{pool:?}").len())
});

/// What is returned is kept until the release is done: in the body's place, not beside it.
mod a_kib_returned {
    use super::*;

    async fn plain() -> Result<[u8; KIB], LockError> {
        let local = std::hint::black_box([1_u8; KIB]);
        yield_now().await;
        Ok(local)
    }

    #[distributed_lock(key = "k")]
    async fn locked() -> Result<[u8; KIB], LockError> {
        let local = std::hint::black_box([1_u8; KIB]);
        yield_now().await;
        Ok(local)
    }

    #[test]
    fn is_little_larger() {
        let (without, with) = (size_of_val(&plain()), size_of_val(&locked()));
        println!("a_kib_returned: {without} bytes without the lock, {with} with it");
        assert!(with <= without + MOST, "{without} → {with}");
    }
}

/// A limit: an `async fn` that awaits anything keeps its arguments twice (rust-lang/rust#62958), and a locked one awaits its lock. So a
/// body without any await is compared with one that has one.
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

#[distributed_lock(key = "k")]
async fn not_send() -> Result<usize, LockError> {
    let local = Rc::new(7);
    yield_now().await;
    Ok(*local)
}

/// The lock asks for no `Send`: what cannot be spawned before still runs where it is. (That it is not `Send` is in `ui/not_send.rs`.)
#[tokio::test]
async fn a_body_that_is_not_send_runs() {
    assert_eq!(crate::on_memory(not_send()).await.unwrap(), 7);
}
