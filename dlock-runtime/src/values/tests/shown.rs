//! Text from outside is printed on one line, visibly, and at a bounded length.

use std::borrow::Cow;
use std::error::Error;
use std::fmt::Write as _;
use std::time::Duration;

use dlock_grammar::visible::is_visible;
use proptest::prelude::{ProptestConfig, any};
use proptest::test_runner::RngSeed;
use proptest::{prop_assert, prop_assert_eq, proptest};

use crate::link::command_error::CommandError;
use crate::values::entry::There;
use crate::values::error::{LockError, LostCause, Reason, Refusal};
use crate::values::holder::{Holder, Reading, read};
use crate::values::key::Key;
use crate::values::shown::{NAME_AT_MOST, TEXT_AT_MOST, shown};

/// One character of each family.
const HOSTILE: &str = "a\nb\r\t\0\u{1b}[31m\u{7f}\u{85}\u{9b}\u{ad}\u{61c}\u{200b}\u{200f}\u{2028}\u{2029}\u{202e}\u{2066}\u{2069}\u{3164}\u{feff}\u{fffb}\u{e0041}";

#[track_caller]
fn is_fit(text: &str) {
    let hidden = text.chars().find(|c| !is_visible(*c));
    assert!(hidden.is_none(), "{hidden:?} in {text:?}");
    assert!(text.len() <= 4 * TEXT_AT_MOST, "{} bytes", text.len());
}

#[test]
fn what_nobody_sees_is_written_as_in_rust() {
    for (text, expected) in [
        (
            "shop::purchase of büro, 日本 ❤\u{fe0f} %41 |",
            "shop::purchase of büro, 日本 ❤\u{fe0f} %41 |",
        ),
        ("a\nb\tc", r"a\nb\tc"),
        ("\u{1b}[31m", r"\u{1b}[31m"),
        (
            "a\u{85}\u{2028}\u{202e}\u{feff}",
            r"a\u{85}\u{2028}\u{202e}\u{feff}",
        ),
    ] {
        assert_eq!(shown(text, NAME_AT_MOST), expected);
    }
    assert!(matches!(shown("web-3", 5), Cow::Borrowed("web-3")));
}

#[test]
fn what_is_cut_off_is_counted() {
    let long = "x".repeat(300_000);
    let cut = shown(&long, NAME_AT_MOST);
    assert_eq!(cut, format!("{}… (299785 more bytes)", "x".repeat(215)));
    let wide = "日".repeat(100);
    assert_eq!(
        shown(&wide, NAME_AT_MOST),
        format!("{}… (87 more bytes)", "日".repeat(71))
    );
    assert_eq!(shown(&"x".repeat(255), NAME_AT_MOST).len(), 255);
}

proptest! {
    #![proptest_config(ProptestConfig { rng_seed: RngSeed::Fixed(7), failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_text_is_fit_to_be_printed(text in any::<String>(), times in 1..40_usize, at_most in 60..300_usize) {
        let text = text.repeat(times);
        let once = shown(&text, at_most);
        prop_assert!(once.chars().all(is_visible), "{once:?}");
        prop_assert!(once.len() <= at_most, "{} of {at_most}", once.len());
        prop_assert_eq!(shown(&once, at_most), &*once, "again");
    }
}

fn escaped(text: &str) -> String {
    text.bytes().fold(String::new(), |mut out, byte| {
        let _ = write!(out, "%{byte:02X}");
        out
    })
}

/// A process description whose names are hostile, and long.
fn planted() -> Vec<Holder> {
    let names = [HOSTILE.to_owned(), HOSTILE.repeat(9_000)];
    let values = names.into_iter().flat_map(|name| {
        let name = escaped(&name);
        [
            format!("1|x|{name}||1|0|0||{name}|1|{name}|1"),
            format!("1|r|t|c|1|0|0||{name}|1|{name}|1"),
            HOSTILE.to_owned(),
        ]
    });
    let holders = values.map(|value| match read(&value) {
        Reading::Holder(holder) => holder,
        Reading::UnknownLayout => panic!("{value}"),
    });
    holders.collect()
}

#[test]
fn no_holder_shows_what_nobody_sees() {
    for holder in planted() {
        is_fit(&format!("{holder} {holder:?}"));
        if let Holder::Process(process) = &holder {
            is_fit(process.host());
            is_fit(process.function());
            assert!(process.host().len() <= NAME_AT_MOST);
        }
    }
}

#[test]
fn no_kind_shows_what_nobody_sees() {
    let long = HOSTILE.repeat(9_000);
    for owner in [HOSTILE, &long] {
        for there in [
            format!("1|#|o|{owner}|1"),
            format!("1|#|p|{owner}"),
            format!("1|#|{owner}"),
            format!("1|o|-|c|1|0|0|{owner}|h|1|f|1"),
            owner.to_owned(),
        ] {
            is_fit(&There::read(&there).to_string());
        }
    }
}

/// Every variant that carries a text of the server's, in every form in which an error is read.
#[test]
fn no_error_shows_what_nobody_sees() {
    let text = || Reason::new(HOSTILE.repeat(9_000));
    let key = || Key::from(HOSTILE);
    let mut errors = vec![
        LockError::Config { why: text() },
        LockError::invalid_key(key(), HOSTILE),
        LockError::WouldDeadlock {
            key: key(),
            inversion: Some(text()),
            enclosing: None,
        },
        LockError::WouldDeadlock {
            key: key(),
            inversion: None,
            enclosing: Some(text()),
        },
        LockError::Lost {
            key: key(),
            cause: LostCause::Gone,
            renewed: true,
            finished: false,
            source: Some(text()),
        },
        CommandError::Unclear(text()).into_error(Some(&key())),
        CommandError::Refused(Refusal::Other, text()).into_error(Some(&key())),
    ];
    errors.extend(planted().into_iter().map(|holder| LockError::Busy {
        key: key(),
        waited: Duration::ZERO,
        holder,
        left: Duration::ZERO,
    }));
    for error in &errors {
        is_fit(&format!("{error} {error:?}"));
        let source = error.source().map(|it| format!("{it} {it:?}"));
        is_fit(&source.unwrap_or_default());
    }
}
