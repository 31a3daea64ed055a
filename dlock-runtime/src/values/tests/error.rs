//! The error type: small, cheap to pass around, and each text says what to do.

use std::error::Error;
use std::time::Duration;

use crate::values::error::{LockError, LostCause, Reason, Refusal, UnavailableCause};
use crate::values::holder::Holder;
use crate::values::key::Key;

const CAUSES: [LostCause; 5] = [
    LostCause::Deadline,
    LostCause::Gone,
    LostCause::MaxHold,
    LostCause::MaxRenewals,
    LostCause::Watchdog,
];

const REFUSALS: [Refusal; 17] = [
    Refusal::ReadOnly,
    Refusal::OutOfMemory,
    Refusal::NoPermission,
    Refusal::Auth,
    Refusal::SentinelAuth,
    Refusal::WrongType,
    Refusal::Companion,
    Refusal::NoTtl,
    Refusal::Busy,
    Refusal::Loading,
    Refusal::Layout,
    Refusal::Misconfigured,
    Refusal::TooManyClients,
    Refusal::NotReplicated,
    Refusal::Cluster,
    Refusal::OpenTransaction,
    Refusal::Other,
];

fn refused(reason: Refusal) -> LockError {
    LockError::Refused {
        key: Some(key()),
        reason,
        source: Reason::new("THE SERVER'S WORDS"),
    }
}

fn lost(cause: LostCause, finished: bool) -> LockError {
    LockError::Lost {
        key: key(),
        cause,
        renewed: false,
        finished,
        source: None,
    }
}

/// As from a call of the guard.
fn undone() -> LockError {
    told(false, "NOTHING OF IT WAS DONE")
}

/// As from a call of the guard.
fn told(finished: bool, source: &str) -> LockError {
    LockError::Lost {
        key: key(),
        cause: LostCause::Gone,
        renewed: true,
        finished,
        source: Some(Reason::new(source)),
    }
}

fn busy(left: Duration) -> LockError {
    LockError::Busy {
        key: key(),
        waited: Duration::from_millis(1234),
        holder: Holder::Foreign,
        left,
    }
}

fn key() -> Key {
    Key::from("item:7").in_namespace("lock:").unwrap()
}

fn all() -> Vec<LockError> {
    let source = Reason::new("THE WIRE'S WORDS");
    let mut all = vec![
        LockError::NotInitialized,
        LockError::config("url: no scheme; give `redis://host:6379`"),
        LockError::invalid_key(key(), "the key is empty: name what is locked"),
        busy(Duration::ZERO),
        LockError::WouldDeadlock {
            key: key(),
            inversion: None,
            enclosing: Some(Reason::new("by shop::sell, x.rs:1; pass the lock down")),
        },
        LockError::WouldDeadlock {
            key: key(),
            inversion: Some(Reason::new("`a` (f, x.rs:1) then `b` (g, x.rs:2) here")),
            enclosing: None,
        },
        LockError::Unavailable {
            key: Some(key()),
            cause: UnavailableCause::Unreachable,
            server: Some(Reason::new("redis://a:1")),
            source: source.clone(),
        },
        LockError::Unavailable {
            key: None,
            cause: UnavailableCause::TooFewNodes,
            server: None,
            source,
        },
        LockError::Unavailable {
            key: Some(key()),
            cause: UnavailableCause::Login,
            server: None,
            source: Reason::new("THE PROVIDER'S WORDS"),
        },
        LockError::ShutDown,
        undone(),
    ];
    for cause in CAUSES {
        all.extend([lost(cause, false), lost(cause, true)]);
    }
    all.extend(REFUSALS.map(refused));
    all
}

#[test]
fn it_is_small_and_can_go_anywhere() {
    fn can_go_anywhere<T: Clone + Send + Sync + Error + 'static>() {}
    can_go_anywhere::<LockError>();
    assert!(
        size_of::<LockError>() <= 64,
        "{} bytes",
        size_of::<LockError>()
    );
}

/// So that `anyhow` and the like can chain it: "{error}: {source}".
#[test]
fn a_text_is_one_line_without_an_end_and_does_not_repeat_its_source() {
    for error in all() {
        let text = error.to_string();
        let first = text.chars().next().unwrap();
        assert!(first.is_lowercase() || first == '"', "{text}");
        assert!(!text.ends_with(['.', '!', ' ', ':', ';']), "{text}");
        assert!(!text.contains('\n') && !text.contains("  "), "{text}");
        if let Some(source) = error.source() {
            assert!(!text.contains(&source.to_string()), "{text}");
        }
    }
}

#[test]
fn a_servers_words_are_the_source() {
    assert_eq!(
        refused(Refusal::Other).source().unwrap().to_string(),
        "THE SERVER'S WORDS"
    );
}

/// What `unwrap` and a failing `main` print: nothing may be left out or said twice.
#[test]
fn debug_is_the_variant_the_text_and_its_source_in_one_line() {
    for (error, says) in [
        (
            LockError::NotInitialized,
            "NotInitialized: dlock has no pool yet: call `dlock_runtime::init(",
        ),
        (
            busy(Duration::ZERO),
            "Busy: item:7 is busy: held by a program that does not use dlock (waited 1s)",
        ),
        (
            refused(Refusal::Misconfigured),
            "Refused: the server refused (item:7): it can't persist or replicate writes; see its log: THE SERVER'S WORDS",
        ),
    ] {
        assert!(format!("{error:?}").starts_with(says), "{error:?}");
    }
    for error in all() {
        let (debug, text) = (format!("{error:?}"), error.to_string());
        let (variant, rest) = debug.split_once(": ").unwrap();
        assert!(variant.chars().all(char::is_alphanumeric), "{debug}");
        let source = error.source().map(|source| format!(": {source}"));
        assert_eq!(rest, text + &source.unwrap_or_default());
        assert!(!debug.contains('\n'), "{debug}");
    }
}

#[test]
fn a_text_names_its_key() {
    for error in all() {
        assert_eq!(
            error.to_string().contains("item:7"),
            error.key().is_some(),
            "{error}"
        );
        let is_stored = error
            .to_string()
            .contains("(item:7, stored as lock:item:7)");
        assert_eq!(error.to_string().contains("lock:"), is_stored, "{error}");
    }
}

#[test]
fn a_refusal_says_what_to_do() {
    for (reason, says) in [
        (Refusal::ReadOnly, "the master's address"),
        (Refusal::OutOfMemory, "raise `maxmemory`"),
        (
            Refusal::NoPermission,
            "the documentation of the crate `dlock-runtime` lists those that dlock needs",
        ),
        (Refusal::Auth, "check the URL's credentials"),
        (Refusal::SentinelAuth, "`sentinel_pass`"),
        (Refusal::WrongType, "choose another key or namespace"),
        (Refusal::Companion, "see the source for which"),
        (Refusal::NoTtl, "`repair_missing_ttl`"),
        (Refusal::Busy, "`SCRIPT KILL`"),
        (Refusal::Loading, "a longer `wait`"),
        (Refusal::Layout, "one version in the whole fleet"),
        (Refusal::Misconfigured, "see its log"),
        (Refusal::TooManyClients, "raise it"),
        (Refusal::NotReplicated, "bring them back"),
        (Refusal::Cluster, "write `redis+cluster://`"),
        (Refusal::OpenTransaction, "end it first"),
    ] {
        let said = refused(reason).to_string();
        assert!(said.contains(says), "{said}");
    }
}

/// Of each version, as the server says it to a command and to a script's.
#[test]
fn a_missing_right_is_named_as_the_server_names_it() {
    for (words, named) in [
        (
            "NOPERM: this user has no permissions to run the 'get' command or its subcommand",
            "lacks a right (to run `get`); the",
        ),
        (
            "the master, h:1: NOPERM: User key has no permissions to run the 'client|list' command",
            "lacks a right (to run `client|list`); the",
        ),
        (
            "ERR ACL failure in script: User worker has no permissions to run the 'pexpire' command script: f_1, on @user_script:1.",
            "lacks a right (to run `pexpire`); the",
        ),
        (
            "ERR The user executing the script can't run this command or subcommand script: f_1, on @user_script:1. (GET, SET)",
            "lacks a right (to run `get`, `set`); the",
        ),
        (
            "ERR The user executing the script can't run this command or subcommand script: f_1, on @user_script:1.",
            "lacks a right; the",
        ),
        (
            "NOPERM: this user has no permissions to access one of the keys used as arguments",
            "lacks a right (for a key); the",
        ),
        (
            "ERR ACL failure in script: No permissions to access a key script: f_1",
            "lacks a right (for a key); the",
        ),
        (
            "NOPERM: this user has no permissions to access one of the channels used as arguments",
            "lacks a right (for a channel); the",
        ),
        ("type `ACL SETUSER dlock +info`", "lacks a right; the"),
        (
            "permission denied for schema dlock (42501)",
            "lacks a right (for the schema dlock); the",
        ),
        (
            "the role lacks DELETE on \"dlock\".lock: GRANT it",
            "lacks a right (DELETE on \"dlock\".lock); the",
        ),
        (
            "permission denied for table lock (42501): the transaction's role needs UPDATE (epoch) on the table",
            "lacks a right (UPDATE (epoch) on the table); the",
        ),
    ] {
        let error = LockError::Refused {
            key: Some(key()),
            reason: Refusal::NoPermission,
            source: Reason::new(words),
        };
        assert!(error.to_string().contains(named), "{error}");
    }
}

/// An error may refer only to documentation that every user of the crate has, and that says the
/// same as the page for operators.
#[test]
fn the_rights_stand_in_the_documentation_of_the_crate() {
    let page = include_str!("../../../../docs/operate/server.md");
    let mut lines = page.lines();
    let rights = lines.find(|line| line.starts_with("ACL SETUSER dlock on "));
    let expected = format!("//! {}", rights.unwrap());
    let documentation = include_str!("../../lib.rs");
    let found = documentation.lines().any(|line| line == expected);
    assert!(
        found && documentation.contains("//! # Rights\n"),
        "{expected}"
    );
}

#[test]
fn others_say_what_to_do() {
    for (error, says) in [
        (LockError::NotInitialized, "call `dlock_runtime::init("),
        (
            LockError::WouldDeadlock {
                key: key(),
                inversion: None,
                enclosing: Some(Reason::new("by shop::sell, x.rs:1; pass the lock down")),
            },
            "already held around this call by shop::sell, x.rs:1; pass the lock down",
        ),
        (
            LockError::WouldDeadlock {
                key: key(),
                inversion: Some(Reason::new("`a` then `b` here")),
                enclosing: None,
            },
            "take locks in one order everywhere: `a` then `b` here",
        ),
        (
            lost(LostCause::Deadline, false),
            "its `ttl` is too short for the body, so raise it or add `renew`",
        ),
        (
            LockError::Lost {
                key: key(),
                cause: LostCause::Deadline,
                renewed: true,
                finished: false,
                source: None,
            },
            "although it was renewed: the server could not be reached in time",
        ),
        (
            LockError::Lost {
                key: key(),
                cause: LostCause::TooFewNodes,
                renewed: true,
                finished: false,
                source: None,
            },
            "was lost (its lease ran out although it was renewed: too few of its nodes had it",
        ),
        (
            LockError::Unavailable {
                key: Some(key()),
                cause: UnavailableCause::TooFewNodes,
                server: None,
                source: Reason::new("a votes in 3 s"),
            },
            "too few nodes vote (item:7): wait for those that do not vote yet",
        ),
        (
            LockError::Unavailable {
                key: Some(key()),
                cause: UnavailableCause::Login,
                server: None,
                source: Reason::new("WRONGPASS"),
            },
            "the login at redis failed (item:7): check the user and the password that the provider",
        ),
        (
            LockError::Unavailable {
                key: Some(key()),
                cause: UnavailableCause::Unsettled,
                server: None,
                source: Reason::new("stands at the key"),
            },
            "an earlier attempt of this process is not settled (item:7): ask again",
        ),
        (
            LockError::Unavailable {
                key: None,
                cause: UnavailableCause::Unreachable,
                server: Some(Reason::new("redis://a:1/0")),
                source: Reason::new("refused"),
            },
            "and the network (redis://a:1/0); nothing is retried in the background: make this call again, or use `Config::lazy`",
        ),
        (lost(LostCause::Deadline, true), "its value was dropped"),
        (lost(LostCause::Gone, false), "the body was stopped"),
        (undone(), "what was done before that stands"),
        // A strict release; a guard of `acquire` has no body.
        (told(true, "NOT FOUND"), "its body, if it had one"),
        (
            lost(LostCause::MaxHold, false),
            "its `max_hold` allows; raise",
        ),
        (
            lost(LostCause::MaxRenewals, false),
            "its `max_renewals` were used up; raise",
        ),
        (
            busy(Duration::ZERO),
            "held by a program that does not use dlock (waited 1s)",
        ),
    ] {
        let said = error.to_string();
        assert!(said.contains(says), "{said}");
    }
}

#[test]
fn only_busy_is_busy_and_only_lost_is_lost() {
    for error in all() {
        assert_eq!(
            error.is_busy(),
            matches!(error, LockError::Busy { .. }),
            "{error}"
        );
        assert_eq!(
            error.is_lost(),
            matches!(error, LockError::Lost { .. }),
            "{error}"
        );
    }
}

#[test]
fn what_may_pass_says_when_to_come_back() {
    let (second, five) = (Some(Duration::from_secs(1)), Some(Duration::from_secs(5)));
    assert_eq!(busy(Duration::from_millis(20)).retry_after(), second);
    assert_eq!(busy(Duration::from_millis(4_001)).retry_after(), five);
    assert_eq!(busy(Duration::from_secs(5)).retry_after(), five);
    assert_eq!(LockError::ShutDown.retry_after(), second);
    assert_eq!(LockError::NotInitialized.retry_after(), None);
    for reason in REFUSALS {
        let passes = matches!(
            reason,
            Refusal::Busy | Refusal::Loading | Refusal::TooManyClients | Refusal::NotReplicated
        );
        assert_eq!(
            refused(reason).retry_after().is_some(),
            passes,
            "{reason:?}"
        );
    }
}

/// 409 and 503 may be tried again, 400 and 500 not without a change.
#[test]
fn a_status_says_whose_turn_it_is() {
    for error in all() {
        let status = error.http_status();
        let expected = match &error {
            LockError::Busy { .. } => 409,
            LockError::InvalidKey { .. } => 400,
            LockError::Lost { .. } => 503,
            _ if error.retry_after().is_some() => 503,
            _ => 500,
        };
        assert_eq!(status, expected, "{error}");
        assert_eq!(error.retry_after().is_some(), [409, 503].contains(&status));
    }
}

#[cfg(feature = "axum")]
#[test]
fn a_response_has_the_status_and_the_error_beside_it() {
    use axum_core::response::IntoResponse as _;
    for error in all() {
        let status = error.http_status();
        let after = error.retry_after().filter(|_| !error.is_lost());
        let response = error.into_response();
        assert_eq!(response.status().as_u16(), status);
        let header = response.headers().get("retry-after");
        let header = header.map(|it| it.to_str().unwrap().to_owned());
        assert_eq!(header, after.map(|it| it.as_secs().to_string()));
        assert!(response.extensions().get::<LockError>().is_some());
    }
}
