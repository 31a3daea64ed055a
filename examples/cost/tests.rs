//! Pins the claim "the wrapper allocates only its key" as numbers.

use super::allocations::{self, Count, Counts, LARGE};

/// The engine boxes the future that acquires, before it does anything else, so that the annotated
/// function's future stays small. `LockRequest::run` does the same.
const BOXED_ACQUIRE: u64 = 1;

/// A call by hand makes the holder's name from file and line; the attribute has the name in a
/// static.
const NAME_BY_HAND: u64 = 2;

async fn counts() -> Counts {
    allocations::count().await.unwrap()
}

#[tokio::test]
async fn calling_allocates_nothing_before_the_first_poll() {
    assert_eq!(counts().await.unpolled, Count::default());
}

/// The text, allocated once in full, and the handle that shares it.
#[tokio::test]
async fn a_key_is_a_text_and_a_handle() {
    assert_eq!(counts().await.key.allocations, 2);
}

/// Boxing the body, or a second copy of the key, would show here.
#[tokio::test]
async fn the_wrapper_allocates_its_key_alone() {
    let counts = counts().await;
    let wrapper = counts.before_the_engine.allocations - BOXED_ACQUIRE;
    assert_eq!(wrapper, counts.key.allocations);
}

/// The whole call, with the `match` that returns the body's value.
#[tokio::test]
async fn a_call_allocates_as_by_hand_but_for_the_name() {
    let counts = counts().await;
    let (annotated, by_hand) = (counts.annotated.allocations, counts.by_hand.allocations);
    assert_eq!(annotated + NAME_BY_HAND, by_hand);
}

/// The body is in the caller's future, not on the heap.
#[tokio::test]
async fn what_the_body_holds_is_not_allocated() {
    let counts = counts().await;
    let (small, large) = (counts.annotated, counts.large);
    assert_eq!(small.allocations, large.allocations);
    let on_the_heap = small.bytes + u64::try_from(LARGE).unwrap();
    assert!(large.bytes < on_the_heap, "{small:?}, {large:?}");
}
