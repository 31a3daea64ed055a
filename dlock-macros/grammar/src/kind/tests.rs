//! Words about a lock's kind: which go together, and the messages for the others.
use super::{
    KEYS_MAX, KindError, OWNER_MAX_BYTES, PERMITS_MAX, TAKE_MAX, Word, check as all_wrong,
    check_keys, check_owner,
};
use Word::{AfterCrash, Fair, Keys, Lead, OncePer, Owner, Permits, Read, Reentrant, Take, Write};

/// The wrong arguments, each with its message.
#[track_caller]
fn check(words: &[Word], expected: &[(&str, &str)]) {
    let found = all_wrong(words);
    let found: Vec<_> = found
        .iter()
        .map(|error| (error.argument(), error.to_string()))
        .collect();
    let found: Vec<_> = found
        .iter()
        .map(|(argument, text)| (*argument, text.as_str()))
        .collect();
    assert_eq!(found, expected, "{words:?}");
}

#[test]
fn what_goes_together() {
    for words in [
        &[][..],
        &[Read],
        &[Write],
        &[Fair],
        &[Reentrant],
        &[Reentrant, Fair],
        &[Reentrant, Owner],
        &[Lead],
        &[Lead, Fair],
        &[OncePer],
        &[AfterCrash, Fair, OncePer],
        &[Permits(Some(1))],
        &[Permits(Some(PERMITS_MAX)), Take(Some(TAKE_MAX))],
        &[Permits(Some(2)), Take(Some(2))],
        &[Keys],
        &[Keys, Fair],
        &[Keys, Read],
        &[Write, Keys],
        // An unknown number is not compared.
        &[Permits(None), Take(Some(2))],
        &[Permits(Some(2)), Take(None)],
    ] {
        check(words, &[]);
    }
}

#[test]
fn two_kinds() {
    let text = |first, second| {
        format!("`{second}` and `{first}` are two kinds of lock, and a lock has one: remove either")
    };
    let kinds = [Read, Write, Permits(Some(1)), Reentrant, Lead];
    for first in kinds {
        for second in kinds.into_iter().filter(|second| *second != first) {
            let text = text(first.name(), second.name());
            check(&[first, second], &[(second.name(), &text)]);
        }
    }
    check(
        &[Write, Fair, Read, Reentrant],
        &[
            ("read", &text("write", "read")),
            ("reentrant", &text("write", "reentrant")),
            (
                "fair",
                "with `write` a lock is granted in order of arrival anyway, and `fair` is for exclusive locks: remove it",
            ),
        ],
    );
}

#[test]
fn fair_is_for_the_others() {
    for words in [
        &[Read, Fair][..],
        &[Fair, Write],
        &[Fair, Permits(Some(2)), Take(Some(2))],
        &[Reentrant, Owner, Fair],
    ] {
        let found = all_wrong(words);
        let is_fair = |error: &KindError| matches!(error, KindError::FairAnyway { .. });
        assert!(
            found.len() == 1 && found.iter().all(is_fair),
            "{words:?}: {found:?}"
        );
    }
}

#[test]
fn numbers() {
    check(
        &[Permits(Some(0)), Take(Some(1))],
        &[("permits", "permits 0 would let nobody in: give at least 1")],
    );
    check(
        &[Permits(Some(PERMITS_MAX + 1))],
        &[(
            "permits",
            "a lock has at most 1000000 permits: lower the number, or count in larger units",
        )],
    );
    check(
        &[Permits(Some(5)), Take(Some(0))],
        &[(
            "take",
            "take 0 would hold nothing: give at least 1, or leave `take` out to take one",
        )],
    );
    // Not also that it is more than five: one mistake gives one error.
    check(
        &[Permits(Some(5)), Take(Some(TAKE_MAX + 1))],
        &[(
            "take",
            "one holder takes at most 1000 permits: lower `take`, or count in larger units",
        )],
    );
    check(
        &[Take(Some(6)), Permits(Some(5))],
        &[(
            "take",
            "take 6 is more than the 5 permits that there are, so it would wait for ever: lower `take` or raise `permits`",
        )],
    );
}

#[test]
fn what_needs_another() {
    let take = "`take` says how many of the `permits` are taken at once, and this lock has none: add `permits`, or remove `take`";
    let owner = "`owner` says who may take the lock again, and this one can't be taken again: add `reentrant`, or remove `owner`";
    check(&[Take(Some(2))], &[("take", take)]);
    check(&[Read, Take(None)], &[("take", take)]);
    check(&[Owner], &[("owner", owner)]);
    check(&[Permits(Some(2)), Owner], &[("owner", owner)]);
    let after_crash = "`after_crash` says whether a job that crashed runs again within its period, and this lock has none: add `once_per`, or remove `after_crash`";
    check(&[Lead, AfterCrash], &[("after_crash", after_crash)]);
}

#[test]
fn once_per_is_for_an_exclusive_lock_of_one_key() {
    let text = |other: Word| {
        let other = other.name();
        format!(
            "`once_per` is for a job that one process runs under an exclusive lock of one key, and `{other}` asks for another lock: remove either"
        )
    };
    for other in [Read, Write, Permits(Some(2)), Reentrant, Lead, Keys] {
        check(&[other, OncePer], &[("once_per", &text(other))]);
        check(&[OncePer, AfterCrash, other], &[("once_per", &text(other))]);
    }
}

#[test]
fn many_keys() {
    let text =
        |kind| format!("`{kind}` with `keys` is not supported yet: remove it, or lock one `key`");
    check(
        &[Keys, Permits(Some(2)), Take(Some(2))],
        &[("permits", &text("permits"))],
    );
    check(
        &[Reentrant, Owner, Keys],
        &[("reentrant", &text("reentrant")), ("owner", &text("owner"))],
    );
}

#[test]
fn how_many_keys() {
    assert_eq!(check_keys(1), Ok(()));
    assert_eq!(check_keys(KEYS_MAX), Ok(()));
    assert_eq!(check_keys(0), Err(KindError::NoKeys));
    let text = "1001 keys are more than the 1000 that can be locked at once: lock what they have in common";
    assert_eq!(check_keys(1001).unwrap_err().to_string(), text);
}

#[test]
fn owners() {
    assert_eq!(check_owner("order 7|b"), Ok(()));
    assert_eq!(check_owner(&"x".repeat(OWNER_MAX_BYTES)), Ok(()));
    assert_eq!(check_owner(""), Err(KindError::NoOwner));
    let text = "the owner has 257 bytes, and at most 256 are allowed: hash the long part";
    let long = "x".repeat(OWNER_MAX_BYTES + 1);
    assert_eq!(check_owner(&long).unwrap_err().to_string(), text);
}
