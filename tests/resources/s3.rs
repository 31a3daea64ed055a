//! A conditional put on an object store, by the page's own function.

use dlock_tests::Seeded;
use object_store::memory::InMemory;
use std::sync::Arc;

use crate::page;
use crate::slow_store::SlowStore;
use crate::story::in_memory;

include!("shown/s3.rs");

fn at() -> Path {
    Path::from("price-list")
}

async fn found(store: &InMemory) -> String {
    let object = store.get(&at()).await.unwrap().bytes().await.unwrap();
    let text = String::from_utf8(object.to_vec()).unwrap();
    text.split_once('\n').unwrap().1.to_owned()
}

#[test]
fn the_page_shows_what_is_tested_here() {
    assert!(page::text().contains(include_str!("shown/s3.rs")));
}

#[tokio::test]
async fn the_paused_holders_object_is_refused() {
    let (ann, bob) = in_memory().await;
    let (ann, bob, store) = (ann.get(), bob.get(), InMemory::new());
    assert!(publish(&store, &at(), "bob's", bob).await.unwrap());
    assert!(!publish(&store, &at(), "ann's", ann).await.unwrap());
    assert_eq!(found(&store).await, "bob's");
    assert!(publish(&store, &at(), "bob's second", bob).await.unwrap());
}

/// Ann reads and finds no higher fence; then bob writes, then she does. Only the condition of the
/// put can refuse her.
#[tokio::test]
async fn a_look_before_the_write_is_not_enough() {
    let (ann, bob) = in_memory().await;
    let store = InMemory::new();
    assert!(publish(&store, &at(), "old", ann.get()).await.unwrap());
    let seen = store.get(&at()).await.unwrap().meta;
    assert!(publish(&store, &at(), "bob's", bob.get()).await.unwrap());

    let (e_tag, version) = (seen.e_tag, seen.version);
    let late = || PutPayload::from(format!("{}\nann's", ann.get()));
    let conditional = PutMode::Update(UpdateVersion { e_tag, version });
    let refused = store.put_opts(&at(), late(), conditional.into()).await;
    assert!(matches!(refused, Err(Error::Precondition { .. })));
    assert_eq!(found(&store).await, "bob's");

    let plain = PutMode::Overwrite;
    store.put_opts(&at(), late(), plain.into()).await.unwrap();
    assert_eq!(found(&store).await, "ann's", "bob's object is lost");
}

#[tokio::test]
async fn an_object_that_says_no_fence_is_left_alone() {
    let store = InMemory::new();
    store.put(&at(), "somebody else's".into()).await.unwrap();
    assert!(!publish(&store, &at(), "mine", u64::MAX - 1).await.unwrap());
}

/// Four writers whose reads and puts interleave, with fences in random order: the written fences
/// only rise.
#[tokio::test]
async fn whatever_the_writers_order_the_fences_rise() {
    let store = Arc::new(SlowStore::default());
    let mut writers = tokio::task::JoinSet::new();
    for seed in 0..4 {
        let store = store.clone();
        writers.spawn(async move {
            let (mut random, mut highest) = (Seeded(seed), 0);
            for _ in 0..25 {
                let fence = random.between(1, 1000);
                highest = highest.max(fence);
                publish(&*store, &at(), "data", fence).await.unwrap();
            }
            highest
        });
    }
    let highest = writers.join_all().await.into_iter().max();
    let written = std::mem::take(&mut *store.written.lock().unwrap());
    let content = |load: PutPayload| {
        load.iter()
            .flat_map(|part| part.to_vec())
            .collect::<Vec<_>>()
    };
    let fences = written.into_iter().map(|load| fence_of(&content(load)));
    let fences: Vec<_> = fences.collect();
    assert!(fences.is_sorted(), "{fences:?}");
    assert_eq!(fences.last().copied(), highest);
}
