//! An entry as it stands on the server: written, read, and what is none of ours.

use std::time::Duration;

use proptest::prelude::{ProptestConfig, any};
use proptest::test_runner::RngSeed;
use proptest::{prop_assert_eq, proptest};

use crate::values::entry::{
    Entry, Letter, is_entry, is_retired, read, reader_form, retired, without_token, write,
};
use crate::values::kind::Kind;
use crate::values::ttl::Ttl;

fn ttl(millis: u64) -> Ttl {
    Ttl::new(Duration::from_millis(millis)).unwrap()
}

fn kinds() -> [(Kind, Letter, u32, u32, &'static str); 4] {
    let (of, take) = (7, 3);
    [
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
            let entry = write(&kind, &token, &address, ttl(lease), &description).unwrap();
            let (token, address, description) = (&*token, &*address, &*description);
            let lease = Duration::from_millis(lease);
            let expected = Entry { letter, token, address, lease, take, of, owner, description };
            prop_assert_eq!(read(&entry), Some(expected));
        }
    }

    /// Whatever stands there: read without a panic, and what is read is an entry.
    #[test]
    fn any_text_can_be_read(text in any::<String>(), fields in r"[rwpox]{0,2}\|t?\|[0-9|]{0,30}") {
        for text in [text, fields] {
            let _ = (without_token(&text), retired(&text), is_retired(&text), reader_form(&text));
            if let Some(entry) = read(&text) {
                prop_assert_eq!((is_entry(&text), entry.lease.is_zero(), entry.take), (true, false, entry.take.max(1)));
            }
        }
    }
}

#[test]
fn what_is_no_entry_of_ours_is_not_read() {
    for entry in [
        "",
        "r",
        "r|t|a|900|0|0|", // a field is missing
        "x|t|a|900|0|0||",
        "R|t|a|900|0|0||",
        "rw|t|a|900|0|0||",
        "r||a|900|0|0||",               // no token
        "r|t|a|0|0|0||",                // no lease
        "r|t|a||0|0||",                 // nor here
        "r|t|a|+900|0|0||",             // a sign
        "r|t|a|9e2|0|0||",              // Lua would take it for a number
        "r|t|a|1000000000000000|0|0||", // one digit too many
        "r|t|a|900||0||",
        "p|t|a|900|0|2||",       // takes nothing
        "p|t|a|900|3|2||",       // more than there are
        "p|t|a|900|1001|2000||", // more than can be taken at once
        "p|t|a|900|1|4294967296||",
    ] {
        assert_eq!(read(entry), None, "{entry:?}");
    }
    assert!(read("p|t|a|900|1000|1000||").is_some());
    let longest = read("r|t||999999999999999|0|0||").unwrap();
    assert_eq!(longest.lease, Duration::from_millis(999_999_999_999_999));
}

#[test]
fn an_entry_is_told_by_its_letter_and_a_bar() {
    for (value, expected) in [
        ("r|t", true),
        ("w|", true),
        ("p|t", true),
        ("o|t", true),
        ("1|t", false),
        ("x|t", false),
        ("rw|t", false),
        ("report", false),
        ("r", false),
        ("", false),
    ] {
        assert_eq!(is_entry(value), expected, "{value:?}");
    }
}

/// It counts as before, and no token is its own.
#[test]
fn what_is_kept_is_an_entry_of_nobody() {
    for (kind, ..) in kinds() {
        let entry = write(&kind, "t", "a", ttl(900), "host|1|f|0").unwrap();
        let kept = retired(&entry);
        assert!(is_retired(&kept) && !is_retired(&entry), "{kept}");
        let (before, after) = (read(&entry).unwrap(), read(&kept).unwrap());
        if matches!(kind, Kind::Owned(_)) {
            assert_eq!((after.token, after.owner), ("-", before.owner));
            let other = write(&kind, "u", "b", ttl(70), "other|2|g|1").unwrap();
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
fn others_are_told_no_token() {
    for (kind, ..) in kinds() {
        let entry = write(&kind, "secret", "a", ttl(900), "host|1|f|0").unwrap();
        let told = without_token(&entry);
        assert_eq!(told, entry.replacen("secret", "-", 1));
    }
    for place in ["x|a|900|1|secret", "rw|secret|a", "secret", ""] {
        assert_eq!(without_token(place), "x|", "{place:?}");
    }
}

#[test]
fn only_a_writer_has_the_form_of_a_reader() {
    assert_eq!(reader_form("w|t|a").as_deref(), Some("r|t|a"));
    for entry in ["r|t|a", "p|t|a", "o|t|a", "w", "ww|t|a"] {
        assert_eq!(reader_form(entry), None, "{entry}");
    }
}
