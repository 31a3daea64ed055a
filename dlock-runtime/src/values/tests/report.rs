//! A report can be made of whatever stands at a lock's keys, and shows none of it as it is.

use std::time::Duration;

use proptest::collection::vec;
use proptest::prelude::{Just, ProptestConfig, Strategy, any, prop_oneof};
use proptest::test_runner::RngSeed;
use proptest::{prop_assert, proptest};

use crate::values::report::{Fingerprint, HolderSearch, Stored, StoredLock, StoredSet};

const TIME: u64 = 1_700_000_000_000_000;

/// Entries, their parts, and anything else.
fn member() -> impl Strategy<Value = Vec<u8>> {
    let entry = r"[0-2]\|[xrwpoz]\|-?canary-token-[0-9]\|[^|]{0,4}\|[0-9]{1,3}\|[0-3]\|[0-3]\|[a%]{0,3}\|[h%0-9]{0,4}\|[0-9]{1,3}\|f\|[0-9]{1,20}(#[0-9])?";
    let meta = r"1\|#\|(rw|p|o\|[a%]{0,3}\|[0-9]{0,21}|zz)";
    prop_oneof![
        4 => entry.prop_map(String::into_bytes),
        2 => meta.prop_map(String::into_bytes),
        1 => vec(any::<u8>(), 0..12),
        1 => Just(b"canary".to_vec()),
    ]
}

fn members() -> impl Strategy<Value = Vec<(Vec<u8>, u64)>> {
    let score = prop_oneof![Just(0), Just(u64::MAX), TIME - 5..TIME + 5];
    vec((member(), score), 0..6)
}

fn lock(which: u8, members: Vec<(Vec<u8>, u64)>, last: Vec<u8>, count: usize) -> StoredLock {
    let left = (count > 0).then_some(Duration::from_secs(5));
    match which {
        0 => StoredLock::Nothing,
        1 => StoredLock::OtherType,
        2 | 3 => StoredLock::Value { value: last, left },
        _ => StoredLock::Set(StoredSet {
            members,
            last,
            count,
            left,
        }),
    }
}

fn stored(lock: StoredLock, queue: Vec<(Vec<u8>, u64)>, queue_len: usize) -> Stored {
    let silent = queue.iter().take(2).map(|(entry, _)| entry.clone());
    Stored {
        time: TIME,
        silent: silent.collect(),
        lock,
        queue,
        queue_len,
        last_epoch: Some(u64::MAX),
        kept_by: None,
    }
}

proptest! {
    #![proptest_config(ProptestConfig { rng_seed: RngSeed::Fixed(7), failure_persistence: None, cases: 3000, ..ProptestConfig::default() })]

    #[test]
    fn of_whatever_stands_there(
        which in 0..8_u8, held in members(), last in member(), count in 0..9_usize, queue in members(), queue_len in 0..9_usize,
    ) {
        let stored = stored(lock(which, held, last, count), queue, queue_len);
        let unknown: Fingerprint = "0123456789abcdef".parse().unwrap();
        prop_assert!(!matches!(stored.find(unknown), HolderSearch::Holder(_)));
        let Some(report) = stored.report("item:7") else {
            return Ok(());
        };
        let shown = format!("{report:?}");
        prop_assert!(!shown.contains("canary-token"), "{}", shown);
        prop_assert!(!shown.chars().any(char::is_control), "{}", shown);
        for holder in report.holders() {
            let found = stored.find(holder.fingerprint());
            prop_assert!(matches!(found, HolderSearch::Holder(_) | HolderSearch::Strange(..)));
        }
    }
}

/// By another program: `printf %s 'The quick …' | sha1sum`.
#[test]
fn a_fingerprint_is_the_beginning_of_a_sha1() {
    let of = Fingerprint::of(b"The quick brown fox jumps over the lazy dog");
    assert_eq!(of.to_string(), "2fd4e1c67a2d28fc");
    assert_eq!(format!("{of:?}"), "2fd4e1c67a2d28fc");
    assert_eq!("2FD4E1C67A2D28FC".parse::<Fingerprint>().unwrap(), of);
    let wrong = [
        "",
        "2fd4",
        "2fd4e1c67a2d28fcc",
        "+fd4e1c67a2d28fc",
        "2fd4e1c67a2d28fé",
    ];
    for text in wrong {
        let error = text.parse::<Fingerprint>().unwrap_err().to_string();
        assert!(error.contains("16 hexadecimal digits"), "{error}");
    }
}
