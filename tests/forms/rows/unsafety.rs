//! `unsafe` functions, which the lints of the workspace forbid: free, without an `unsafe` block,
//! and under `#[async_trait]`.

use async_trait::async_trait;
use dlock_runtime::{LockError, distributed_lock};

use super::{held, memory};

/// A pointer that may go to another thread.
struct Pointer(*const u8);

// SAFETY: the pointer is read while the caller waits.
unsafe impl Send for Pointer {}

/// Reads through a pointer that must be valid until the future is done.
#[distributed_lock(key = "pointer:<id>")]
async unsafe fn read(pointer: Pointer, id: u8) -> Result<(u8, String), LockError> {
    // A limit: from 2021 on the body's `async` block would capture only the field, and `*const u8`
    // is not `Send`.
    let pointer = pointer;
    // SAFETY: the caller keeps it valid.
    let value = unsafe { *pointer.0 };
    Ok((value, held()))
}

/// Without an `unsafe` block, as is usual until 2021.
#[allow(unsafe_op_in_unsafe_fn, reason = "code of older editions has it")]
#[distributed_lock(key = "implicit")]
async unsafe fn read_without_a_block(pointer: Pointer) -> Result<(u8, String), LockError> {
    Ok((*pointer.0, held()))
}

#[async_trait]
trait Dynamic {
    async unsafe fn dynamic(&self, id: u8) -> Result<String, LockError>;

    #[distributed_lock(key = "provided:<id>")]
    async fn provided(&self, id: u8) -> Result<String, LockError> {
        Ok(held())
    }
}

struct Shop;

#[async_trait]
impl Dynamic for Shop {
    #[distributed_lock(key = "dynamic:<id>")]
    async unsafe fn dynamic(&self, id: u8) -> Result<String, LockError> {
        Ok(held())
    }
}

pub(super) async fn rows() {
    let byte: &'static u8 = &9;
    // SAFETY: the byte lives for ever.
    let call = unsafe { read(Pointer(byte), 9) };
    let pool = memory().await;
    let task = tokio::spawn(async move { pool.scope(call).await });
    ok!(async { task.await.unwrap() }, (9, "pointer:9"));
    // SAFETY: the byte lives for ever.
    ok!(
        unsafe { read_without_a_block(Pointer(byte)) },
        (9, "implicit")
    );
    // SAFETY: the method does nothing unsafe.
    ok!(unsafe { Shop.dynamic(7) }, "dynamic:7");
    ok!(Shop.provided(7), "provided:7");
}
