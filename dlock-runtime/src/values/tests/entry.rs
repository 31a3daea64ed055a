//! An entry on the server: written, read, and values that are none of ours.

use std::time::Duration;

use proptest::prelude::{ProptestConfig, any};
use proptest::test_runner::RngSeed;
use proptest::{prop_assert_eq, proptest};

use crate::values::entry::{
    Entry, Letter, is_other_layout, is_retired, letter_of, of_test, read, reader_form, retired,
};
use crate::values::kind::Kind;
use crate::values::ttl::Ttl;

fn ttl(millis: u64) -> Ttl {
    Ttl::new(Duration::from_millis(millis)).unwrap()
}

fn kinds() -> [(Kind, Letter, u32, u32, &'static str); 5] {
    let (of, take) = (7, 3);
    [
        (Kind::Exclusive, Letter::Exclusive, 1, 0, ""),
        (Kind::Read, Letter::Reader, 1, 0, ""),
        (Kind::Write, Letter::Writer, 1, 0, ""),
        (Kind::Permits { of, take }, Letter::Permits, take, of, ""),
        (Kind::Owned("me".into()), Letter::Owner, 1, 0, "me"),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { rng_seed: RngSeed::Fixed(7), failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn an_entry_is_read_as_it_was_written(
        token in "[^|]{1,20}", address in "[^|]{0,20}", lease in 10..86_400_000u64, description in ".{0,40}",
    ) {
        for (kind, letter, take, of, owner) in kinds() {
            let entry = of_test(&kind, &token, &address, ttl(lease), &description);
            let (token, address, description) = (&*token, &*address, &*description);
            let lease = Duration::from_millis(lease);
            let expected = Entry { once_per: None, letter, token, address, lease, take, of, owner, description };
            prop_assert_eq!(read(&entry), Some(expected));
        }
    }

    /// Any value: reading does not panic, and whatever is read is an entry.
    #[test]
    fn any_text_can_be_read(text in any::<String>(), fields in r"[rwpox]{0,2}\|t?\|[0-9|]{0,30}") {
        for text in [format!("1|{fields}"), text, fields] {
            let _ = (retired(&text), is_retired(&text), reader_form(&text));
            if let Some(entry) = read(&text) {
                prop_assert_eq!((letter_of(&text), is_other_layout(&text)), (Some(entry.letter), false));
                prop_assert_eq!((entry.lease.is_zero(), entry.take), (false, entry.take.max(1)));
            }
        }
    }
}

#[test]
fn what_is_no_entry_of_ours_is_not_read() {
    for entry in [
        "",
        "1|r",
        "1|r|t|a|900|0|0|", // a field is missing
        "r|t|a|900|0|0||",  // the layout is
        "2|r|t|a|900|0|0||",
        "1|s|t|a|900|0|0||", // a future kind
        "1|R|t|a|900|0|0||",
        "1|rw|t|a|900|0|0||",
        "1|r||a|900|0|0||",               // no token
        "1|r|t|a|0|0|0||",                // no lease
        "1|r|t|a||0|0||",                 // nor here
        "1|r|t|a|+900|0|0||",             // a sign
        "1|r|t|a|9e2|0|0||",              // Lua would take it for a number
        "1|r|t|a|1000000000000000|0|0||", // one digit too many
        "1|r|t|a|900||0||",
        "1|p|t|a|900|0|2||",       // takes nothing
        "1|p|t|a|900|3|2||",       // more than there are
        "1|p|t|a|900|1001|2000||", // more than can be taken at once
        "1|p|t|a|900|1|4294967296||",
    ] {
        assert_eq!(read(entry), None, "{entry:?}");
    }
    assert!(read("1|p|t|a|900|1000|1000||").is_some());
    let longest = read("1|r|t||999999999999999|0|0||").unwrap();
    assert_eq!(longest.lease, Duration::from_millis(999_999_999_999_999));
}

#[test]
fn an_entry_is_told_by_its_layout_and_its_kind() {
    for (value, expected) in [
        ("1|x|t", Some(Letter::Exclusive)),
        ("1|r|t", Some(Letter::Reader)),
        ("1|w|", Some(Letter::Writer)),
        ("1|p|t", Some(Letter::Permits)),
        ("1|o|t", Some(Letter::Owner)),
        ("2|r|t", None),
        ("01|r|t", None),
        ("r|t", None),
        ("1|rw|t", None),
        ("1|r", None),
        ("1||r", None),
        ("report", None),
        ("", None),
    ] {
        assert_eq!(letter_of(value), expected, "{value:?}");
    }
}

/// Its rules are not known, so it is refused: neither misread nor taken for a program without
/// dlock.
#[test]
fn a_number_in_front_of_what_is_not_read_is_another_layout() {
    for (value, expected) in [
        ("2|x|t|a|900|0|0||", true),
        ("2|", true),
        ("0|x|t", true),
        ("11|x|t", true),
        ("01|x|t", true),
        ("99999999999999999999999|x", true),
        ("1|s|t|a|900|0|0||", true), // a future kind
        ("1|z|", true),
        ("1|token|host|12|f|5", false),
        ("1|S|t", false),
        ("1|s", false),
        ("1|", false),
        ("1|x|t|host|12|f|5", false), // not written by dlock
        ("x|t", false),
        ("1", false),
        ("|x|t", false),
        (" 2|x", false),
        ("node:2|3", false),
        ("", false),
    ] {
        assert_eq!(is_other_layout(value), expected, "{value:?}");
    }
}

/// The fields that a later version of this layout appends: they are accepted, and stay whatever
/// becomes of the entry.
#[test]
fn unknown_fields_are_kept() {
    for (kind, ..) in kinds() {
        let ours = of_test(&kind, "t", "a", ttl(900), "host|1|f|0");
        let more = format!("{ours}|new|9");
        let (before, after) = (read(&ours).unwrap(), read(&more).unwrap());
        assert_eq!(after.description, "host|1|f|0|new|9");
        let description = before.description;
        assert_eq!(
            Entry {
                description,
                ..after
            },
            before
        );
        if !matches!(kind, Kind::Owned(_)) {
            assert_eq!(retired(&more), retired(&ours) + "|new|9");
        }
        let reads = reader_form(&ours).map(|it| it + "|new|9");
        assert_eq!(reader_form(&more), reads);
    }
}

/// It counts as before, and matches no token.
#[test]
fn what_is_kept_is_an_entry_of_nobody() {
    for (kind, ..) in kinds() {
        let entry = of_test(&kind, "t", "a", ttl(900), "host|1|f|0");
        let kept = retired(&entry);
        assert!(is_retired(&kept) && !is_retired(&entry), "{kept}");
        let (before, after) = (read(&entry).unwrap(), read(&kept).unwrap());
        if matches!(kind, Kind::Owned(_)) {
            assert_eq!((after.token, after.owner), ("-", before.owner));
            let other = of_test(&kind, "u", "b", ttl(70), "other|2|g|1");
            assert_eq!(retired(&other), kept, "one for all of them");
            continue;
        }
        assert_eq!(after.token, "-t");
        assert_eq!(
            Entry {
                token: "t",
                ..after
            },
            before
        );
    }
}

#[test]
fn only_a_writer_has_the_form_of_a_reader() {
    assert_eq!(reader_form("1|w|t|a").as_deref(), Some("1|r|t|a"));
    for entry in [
        "1|r|t|a", "1|p|t|a", "1|o|t|a", "1|x|t|a", "w|t|a", "1|w", "1|ww|t|a",
    ] {
        assert_eq!(reader_form(entry), None, "{entry}");
    }
}
