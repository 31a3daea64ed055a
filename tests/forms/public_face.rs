//! What the public types can be relied on for: they can be sent to other threads, shared, printed,
//! copied and compared.

use std::fmt::Debug;
use std::hash::Hash;

use dlock_runtime::{
    Admin, Batch, Change, Concern, Config, Drained, Eviction, Fence, Finding, Fingerprint,
    HoldKind, Holder, HolderReport, Key, LastRun, Listing, LockChange, LockError, LockGuard,
    LockHandle, LockKind, LockOrder, LockPool, LockReport, LockRequest, LostCause, MemoryValue,
    Notice, Process, Reason, Records, Refusal, Release, Released, Wait, WaiterReport, Watch,
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
    shared::<(Admin, Listing, Watch, LockReport, HolderReport)>();
    shared::<(WaiterReport, LockKind, HoldKind, Fingerprint)>();
    shared::<(Eviction, Change, LockChange, LastRun, Records)>();
    is_error::<LockError>();
    is_error::<Reason>();
}

#[test]
fn values_are_cloned_and_compared() {
    cloned::<(Batch, Config, Holder, Key, LockError, LockHandle)>();
    cloned::<(Finding, LockPool, MemoryValue, Process, Reason)>();
    cloned::<(Admin, LockReport, HolderReport, WaiterReport)>();
    cloned::<(LockKind, HoldKind, LockChange, LastRun)>();
    compared::<(Fingerprint, Eviction, Notice, Change)>();
    compared::<(Concern, Fence, LostCause, Refusal)>();
    compared::<(LockOrder, Release, Wait)>();
}
