//! The value at a key: written and read back, foreign and unknown ones; no output shows a token.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use proptest::prelude::{ProptestConfig, any};
use proptest::test_runner::RngSeed;
use proptest::{prop_assert, prop_assert_eq, proptest};

use crate::values::about::{About, WrittenName};
use crate::values::entry;
use crate::values::holder::{Holder, Process, Reading, read, token_in};
use crate::values::kind::Kind;
use crate::values::shown::{NAME_AT_MOST, shown};
use crate::values::token::{Token, TokenSource};
use crate::values::ttl::Ttl;

fn process(value: &str) -> Process {
    match read(value) {
        Reading::Holder(Holder::Process(process)) => process,
        other => panic!("{value:?}: {other:?}"),
    }
}

/// Of a pool of its own.
fn fresh() -> Token {
    TokenSource::new().unwrap().draw()
}

/// The value of an exclusive lock.
fn write(token: Token, about: &About<'_>) -> String {
    let lease = Ttl::new(Duration::from_secs(30)).unwrap();
    entry::write(&Kind::Exclusive, token, "run;channel", (lease, None), about).to_string()
}

/// Of this process.
fn about<'a>(host: &'a WrittenName, function: &'a str, since: SystemTime) -> About<'a> {
    About {
        host,
        pid: fresh().pid(),
        function,
        since,
    }
}

fn at(millis: u64) -> SystemTime {
    UNIX_EPOCH + Duration::from_millis(millis)
}

proptest! {
    #![proptest_config(ProptestConfig { rng_seed: RngSeed::Fixed(7), failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_value_is_read_as_it_was_written(
        host in any::<String>(),
        function in any::<String>(),
        since in 0..4_000_000_000_000u64,
    ) {
        let token = fresh();
        let value = write(token, &about(&WrittenName::of(&host), &function, at(since)));
        prop_assert!(value.starts_with("1|x|"));
        prop_assert!(value.bytes().all(|byte| byte.is_ascii_graphic()), "{value:?}");
        let process = process(&value);
        prop_assert_eq!(process.host(), &*shown(&host, NAME_AT_MOST));
        prop_assert_eq!(process.function(), &*shown(&function, NAME_AT_MOST));
        prop_assert_eq!((process.pid(), process.since()), (std::process::id(), at(since)));
        prop_assert!(process.is_this_process());
    }

    /// Any foreign value: reading does not panic, and it is no process unless every field fits.
    #[test]
    fn any_text_can_be_read(value in any::<String>(), fields in "[0-9a-f|%]{0,20}") {
        let _ = read(&value);
        let _ = read(&format!("1|x|t||5|0|0||{fields}"));
    }
}

/// Names of all kinds: a fully qualified host, one of Kubernetes, an empty one, and what no host
/// should be called.
#[test]
fn odd_host_names_survive() {
    for host in [
        "web-3",
        "a.b.example.com",
        "",
        " ",
        "a|b",
        "50%",
        "%41",
        "büro",
        "日本",
    ] {
        let value = write(
            Token::of_test(1),
            &about(&WrittenName::of(host), "shop::purchase", at(1)),
        );
        assert_eq!(process(&value).host(), host);
    }
}

#[test]
fn what_is_not_written_by_dlock_is_foreign() {
    for value in [
        "",
        "b0c1d2e3",
        "1",
        "1|",
        "1|token|host|12|f|5",
        "1|x|",
        "1|x|t||5|0|0||host|12|f",
        "1|x|t||0|0|0||host|12|f|5", // no lease
        "1|x|t||5|0|0||host|not a pid|f|5",
        "1|x|t||5|0|0||host|-1|f|5",
        "1|x|t||5|0|0||host|4294967296|f|5",
        "1|x|t||5|0|0||host|12|f|not a time",
        "1|x|t||5|0|0||host|12|f|99999999999999999999",
        "1|x|t||5|0|0||%G0|12|f|5",
        "1|x|t||5|0|0||%4|12|f|5",
        "1|x|t||5|0|0||%FF|12|f|5",
        "x|token|host|12|f|5",
        "|token|host|12|f|5",
        " 2|token",
        "node:2|3",
    ] {
        assert_eq!(read(value), Reading::Holder(Holder::Foreign), "{value:?}");
    }
}

#[test]
fn a_number_that_is_not_ours_in_front_is_another_layout() {
    for value in [
        "2|",
        "2|whatever",
        "1|s|t||5|0|0||host|12|f|5",
        "0|x",
        "11|x",
        "01|x",
        "99999999999999999999999|x",
    ] {
        assert_eq!(read(value), Reading::UnknownLayout, "{value:?}");
    }
}

#[test]
fn a_token_of_elsewhere_is_another_process() {
    let value = write(
        Token::of_test(1),
        &about(&WrittenName::of("host"), "f", at(1)),
    );
    assert!(!process(&value).is_this_process());
    let ours = write(fresh(), &about(&WrittenName::of("host"), "f", at(1)));
    assert!(process(&ours).is_this_process());
}

/// The value that the server keeps when its holder is done before `min_hold` is over: with a dash
/// before the token, so that no command takes it for the holder's.
fn retired(value: &str) -> String {
    value.replacen("1|x|", "1|x|-", 1)
}

#[test]
fn a_kept_key_still_tells_who_held_it() {
    for (token, here) in [(fresh(), true), (Token::of_test(1), false)] {
        let value = write(
            token,
            &about(&WrittenName::of("web-3"), "shop::purchase", at(1)),
        );
        let (held, kept) = (process(&value), process(&retired(&value)));
        assert!(kept.has_ended() && !held.has_ended());
        assert_eq!((kept.host(), kept.function()), ("web-3", "shop::purchase"));
        assert_eq!((kept.pid(), kept.since()), (std::process::id(), at(1)));
        assert_eq!(kept.is_this_process(), here);
        let said = Holder::Process(kept).to_string();
        let whose = if here { "this process" } else { "process" };
        let begins = format!("nobody, but kept for the `min_hold` of shop::purchase of {whose}");
        assert!(said.starts_with(&begins), "{said}");
    }
}

#[test]
fn a_token_is_read_from_what_its_pool_wrote_and_holds() {
    let source = TokenSource::new().unwrap();
    let token = source.draw();
    let value = write(
        token,
        &about(&WrittenName::of("web-3"), "shop::purchase", at(1)),
    );
    let recognized = |value: &str| token_in(value).and_then(|wire| source.recognize(wire));
    assert_eq!(recognized(&value), Some(token));
    let elsewhere = write(
        Token::of_test(1),
        &about(&WrittenName::of("web-3"), "shop::purchase", at(1)),
    );
    let wire = token.to_wire();
    let parts: Vec<&str> = wire.split('-').collect();
    let [instance, pool, number] = parts[..] else {
        panic!("{wire}")
    };
    let with = |token: String| format!("1|x|{token}||5|0|0||web-3|1|f|1");
    for other in [
        elsewhere,
        retired(&value),
        value.replacen('1', "2", 1),
        wire.clone(),
        format!("1|x|{wire}"),
        with(instance.to_owned()),
        with(format!("{instance}-{number}")),
        with(format!("{instance}-{pool}-")),
        with(format!("{instance}-{pool}-{number}-1")),
        with(format!("{instance}-{pool}-g")),
        with(format!("{instance}-{pool}-11111111111111111")),
        String::new(),
    ] {
        assert_eq!(recognized(&other), None, "{other:?}");
    }
}

/// Another text for the same token would be another value at the server.
#[test]
fn a_token_is_recognized_in_its_own_spelling_only() {
    let source = TokenSource::new().unwrap();
    let mut tokens = (0..11).map(|_| source.draw());
    let wire = tokens.nth(10).unwrap().to_wire();
    assert!(wire.ends_with("-b"), "{wire}");
    assert!(source.recognize(&wire).is_some());
    let (before, _) = wire.rsplit_once('-').unwrap();
    let (instance, pool) = before.split_once('-').unwrap();
    for other in [
        format!("{before}-B"),
        format!("{before}-0b"),
        format!("{before}-+b"),
        format!("{instance}-0{pool}-b"),
        format!("0{instance}-{pool}-b"),
        format!("{}-{pool}-b", instance.to_uppercase()),
    ] {
        let is_same = other == wire; // an instance of digits alone
        assert_eq!(source.recognize(&other).is_some(), is_same, "{other}");
    }
}

/// Any client can see the beginning of a token in a value, and guess the next number.
#[test]
fn a_number_that_is_not_drawn_yet_is_nobodys() {
    let source = TokenSource::new().unwrap();
    let first = source.draw().to_wire();
    let (before, number) = first.rsplit_once('-').unwrap();
    assert_eq!(number, "1");
    for number in ["0", "2", "3", "ffffffffffffffff"] {
        assert_eq!(source.recognize(&format!("{before}-{number}")), None);
    }
    let second = source.draw();
    assert_eq!(source.recognize(&format!("{before}-2")), Some(second));
}

#[test]
fn a_token_is_that_of_its_own_pool_only() {
    let (ours, other) = (TokenSource::new().unwrap(), TokenSource::new().unwrap());
    let (mine, theirs) = (ours.draw(), other.draw());
    assert_ne!(mine.to_wire(), theirs.to_wire());
    assert_eq!(ours.recognize(&mine.to_wire()), Some(mine));
    assert_eq!(ours.recognize(&theirs.to_wire()), None);
    for wire in [
        Token::of_test(1).to_wire(),
        String::new(),
        "-".into(),
        "--".into(),
    ] {
        assert_eq!(ours.recognize(&wire), None);
    }
}

#[test]
fn a_holder_says_who_and_where() {
    let elsewhere = read(&write(
        Token::of_test(1),
        &about(&WrittenName::of("web-3"), "shop::purchase", at(1)),
    ));
    let here = read(&write(
        fresh(),
        &about(&WrittenName::of("web-3"), "shop::purchase", at(1)),
    ));
    let said = [elsewhere, here].map(|reading| match reading {
        Reading::Holder(holder) => holder.to_string(),
        Reading::UnknownLayout => panic!("not a holder"),
    });
    assert_eq!(
        said[0],
        format!("shop::purchase of process {} on web-3", std::process::id())
    );
    assert_eq!(said[1], "shop::purchase of this process");
    assert_eq!(
        Holder::Foreign.to_string(),
        "a program that does not use dlock"
    );
    assert_eq!(
        Holder::WaitingWriter.to_string(),
        "nobody, but a writer has waited for it"
    );
}

#[test]
fn no_output_shows_a_token() {
    let source = TokenSource::new().unwrap();
    let token = source.draw();
    let secret = token.to_wire();
    let (instance, sequence) = secret.split_once('-').unwrap();
    assert_eq!(instance.len(), 16, "64 bits, and as many of the pool");
    let value = write(token, &about(&WrittenName::of("host"), "f", at(1)));
    let mut all = vec![format!("{token:?}"), format!("{source:?}")];
    for value in [retired(&value), value] {
        let reading = read(&value);
        all.extend([format!("{reading:?}"), format!("{reading:#?}")]);
        if let Reading::Holder(holder) = reading {
            all.push(holder.to_string());
        }
    }
    assert_eq!(all.len(), 8);
    for shown in all {
        assert!(!shown.contains(instance), "{shown}");
        assert!(!shown.contains(&format!("-{sequence}")), "{shown}");
    }
}

#[test]
fn tokens_are_never_the_same() {
    let (one, two) = (fresh(), fresh());
    assert_ne!(one.to_wire(), two.to_wire());
    assert_ne!(one.scatter(), two.scatter());
}

/// A clone of this process (a snapshot that is restored twice) has the same instance, and counts on
/// as it does.
#[test]
fn a_pool_is_told_from_others_by_chance_and_not_by_counting() {
    let number = |_| {
        let wire = TokenSource::new().unwrap().draw().to_wire();
        u64::from_str_radix(wire.split('-').nth(1).unwrap(), 16).unwrap()
    };
    let mut pools: Vec<u64> = (0..8).map(number).collect();
    pools.sort_unstable();
    for pair in pools.windows(2) {
        assert!(pair[1] - pair[0] > 1 << 24, "{pools:?}");
    }
}
