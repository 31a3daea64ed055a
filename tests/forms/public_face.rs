//! What the public types can be relied on for: they can be sent to other threads, shared, printed,
//! copied and compared.

use std::fmt::Debug;
use std::hash::Hash;

use dlock_runtime::{
    Batch, Concern, Config, Drained, Fence, Finding, Holder, Key, LockError, LockGuard, LockHandle,
    LockOrder, LockPool, LockRequest, LostCause, MemoryValue, Process, Reason, Refusal, Release,
    Released, Wait,
};

fn shared<T: Debug + Send + Sync + Unpin + 'static>() {}
fn cloned<T: Clone>() {}
fn compared<T: Copy + Eq + Hash>() {}
fn is_error<T: std::error::Error>() {}

#[test]
fn all_of_them_go_anywhere_and_are_printed() {
    shared::<(Batch, Config, Drained, Fence, Holder, Key)>();
    shared::<(LockError, LockGuard, LockHandle, LockOrder, LockPool)>();
    shared::<(LockRequest, LostCause, MemoryValue, Process, Reason)>();
    shared::<(Refusal, Release, Released, Wait)>();
    shared::<(Concern, Finding)>();
    is_error::<LockError>();
    is_error::<Reason>();
}

#[test]
fn values_are_cloned_and_compared() {
    cloned::<(Batch, Config, Holder, Key, LockError, LockHandle)>();
    cloned::<(Finding, LockPool, MemoryValue, Process, Reason)>();
    compared::<(Concern, Fence, LostCause, Refusal)>();
    compared::<(LockOrder, Release, Wait)>();
}
