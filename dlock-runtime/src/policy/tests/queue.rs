//! A place in the queue as it stands on the server: written, read, and what is none of ours.

use proptest::prelude::{ProptestConfig, any};
use proptest::test_runner::RngSeed;
use proptest::{prop_assert, prop_assert_eq, proptest};

use super::{ms, ttl};
use crate::policy::commands::Claim;
use crate::policy::queue::{Entry, Place, longest_stay, read, stay, write};

proptest! {
    #![proptest_config(ProptestConfig { rng_seed: RngSeed::Fixed(7), failure_persistence: None, ..ProptestConfig::default() })]

    /// The value may hold bars: it is what is left.
    #[test]
    fn a_place_is_read_as_it_was_written(address in "[^|]{0,20}", lease in 10..86_400_000u64, value in ".{1,40}") {
        let entry = write(&Place::new(&*address, ttl(lease)), &value);
        prop_assert_eq!(&entry, &format!("x|{address}|{lease}|{value}"), "the scripts read the same");
        let expected = Entry { address: &address, lease: ms(lease), value: &value };
        prop_assert_eq!(read(&entry), Some(expected));
    }

    /// Whatever stands there: read without a panic, and never for a lease that a script would read otherwise.
    #[test]
    fn any_text_can_be_read(entry in any::<String>(), fields in r"[a-z]{0,2}\|[+ -]?[0-9]{0,17}\|[a-z|]{0,3}") {
        let _ = read(&entry);
        let entry = format!("x|{fields}");
        if let Some(it) = read(&entry) {
            let lease = entry.split('|').nth(2).unwrap_or_default();
            prop_assert!(!lease.is_empty() && lease.len() <= 15);
            prop_assert!(lease.bytes().all(|digit| digit.is_ascii_digit()));
            prop_assert!(!it.lease.is_zero() && !it.value.is_empty());
        }
    }
}

#[test]
fn what_is_no_place_of_ours_is_not_read() {
    for entry in [
        "",
        "x",
        "x|",
        "x|ch",
        "x|ch|900",
        "x|ch|900|",       // no value
        "x|ch|0|1|t|h",    // no lease
        "x|ch||1|t|h",     // nor here
        "x|ch|-900|1|t|h", // a sign
        "x|ch|+900|1|t|h", // the same
        "x|ch|9e2|1|t|h",  // Lua would take it for a number
        "x|ch|0x10|1|t|h", // this too
        "x|ch| 900|1|t|h", // and this
        "x|ch|9.5|1|t|h",
        "x|ch|٩|1|t|h",                // a digit, elsewhere
        "x|ch|1000000000000000|1|t|h", // one digit too many
        "r|ch|900|1|t|h",              // a kind to come
        "X|ch|900|1|t|h",
        "xx|ch|900|1|t|h",
        " x|ch|900|1|t|h",
    ] {
        assert_eq!(read(entry), None, "{entry:?}");
    }
}

#[test]
fn a_place_may_have_no_address_and_the_longest_lease_that_can_be_read() {
    let polled = read("x||999999999999999|v").unwrap();
    assert_eq!((polled.address, polled.value), ("", "v"));
    assert_eq!(polled.lease, ms(999_999_999_999_999));
    assert_eq!(read("x||007|v").map(|it| it.lease), Some(ms(7)));
}

/// A second more than the lease, or than a place can live, be granted and lapse.
#[test]
fn what_a_token_leaves_behind_has_an_end() {
    for (lease, longest) in [(10, 7500), (6500, 7500), (6501, 7501), (30_000, 31_000)] {
        assert_eq!(longest_stay(ms(lease)), ms(longest));
        let mut claim = Claim {
            key: "k".into(),
            value: "v".into(),
            place: Some(Place::new("ch", ttl(lease))),
        };
        assert_eq!(stay(&claim), ms(longest));
        claim.place = None;
        assert_eq!(stay(&claim), ms(7500), "a claim, at most");
    }
}
