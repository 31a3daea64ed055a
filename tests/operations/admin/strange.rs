//! What others put at the names of locks is shown as theirs, and makes no call fail.

use dlock_runtime::{
    Eviction, HoldKind, Holder, HolderReport, LockError, LockKind, LockReport, Refusal,
};

use super::{Lab, held, keys, list, show};

/// An entry of this layout, of a process that there is not.
const FORGED: &str = "1|r|aa-bb-1||60000|0|0||%FF%|x|%00|y";

/// Commands that put something strange at `lock:<key>`, and what it is.
const STRANGE: &[(&str, &[&str], LockKind)] = &[
    (
        "hash",
        &["HSET", "lock:hash", "a", "b"],
        LockKind::OtherType,
    ),
    ("list", &["RPUSH", "lock:list", "a"], LockKind::OtherType),
    (
        "members",
        &["SADD", "lock:members", "a"],
        LockKind::OtherType,
    ),
    (
        "stream",
        &["XADD", "lock:stream", "*", "a", "b"],
        LockKind::OtherType,
    ),
    (
        "scores",
        &["ZADD", "lock:scores", "1", "a", "-inf", "b"],
        LockKind::OtherType,
    ),
    ("empty", &["SET", "lock:empty", ""], LockKind::Foreign),
    (
        "text",
        &["SET", "lock:text", "held\r\nby\x1b[31m ann"],
        LockKind::Foreign,
    ),
    ("cut", &["SET", "lock:cut", "1|x|aa"], LockKind::Foreign),
    ("reader", &["SET", "lock:reader", FORGED], LockKind::Foreign),
    (
        "layout",
        &["SET", "lock:layout", "2|x|aa|b"],
        LockKind::OtherLayout,
    ),
    (
        "kind",
        &["SET", "lock:kind", "1|z|aa|b"],
        LockKind::OtherLayout,
    ),
    (
        "set-layout",
        &["ZADD", "lock:set-layout", "inf", "2|#|rw"],
        LockKind::OtherLayout,
    ),
    (
        "set-kind",
        &["ZADD", "lock:set-kind", "inf", "1|#|zz", "9e15", "a"],
        LockKind::OtherLayout,
    ),
    (
        "junk",
        &[
            "ZADD",
            "lock:junk",
            "inf",
            "1|#|rw",
            "9e15",
            "junk",
            "9.1e15",
            FORGED,
        ],
        LockKind::ReadWrite,
    ),
    (
        "owner",
        &[
            "ZADD",
            "lock:owner",
            "inf",
            "1|#|o|%FF%00|99999999999999999999",
            "9e15",
            "junk",
        ],
        LockKind::Owner(String::new()),
    ),
];

fn is_kind(lock: &LockReport, expected: &LockKind) {
    match (lock.kind().unwrap(), expected) {
        (LockKind::Owner(_), LockKind::Owner(_)) => {}
        (kind, expected) => assert_eq!(kind, expected, "{}", lock.key()),
    }
}

#[tokio::test]
async fn at_a_locks_key() {
    let lab = Lab::new().await;
    let _ours = held(lab.here.lock("ours")).await;
    for (_, words, _) in STRANGE {
        lab.server.cmd(words).await;
    }
    let listed = list(&lab.admin, "*").await;
    assert_eq!(listed.len(), STRANGE.len() + 1, "{:?}", keys(&listed));
    for (key, _, kind) in STRANGE {
        let lock = show(&lab.admin, key).await;
        is_kind(&lock, kind);
        is_kind(listed.iter().find(|it| it.key() == *key).unwrap(), kind);
        let shown = format!("{lock:?} {}", lock.kind().unwrap());
        assert!(!shown.chars().any(char::is_control), "{shown}");
        match kind {
            LockKind::OtherType | LockKind::OtherLayout => assert_eq!(lock.holders(), []),
            _ => assert!(!lock.holders().is_empty()),
        }
    }
    let text = show(&lab.admin, "text").await;
    assert_eq!(text.holders()[0].holder(), &Holder::Foreign);
    assert_eq!(text.holders()[0].kind(), &HoldKind::Foreign);
    assert!(!text.kind().unwrap().is_dlocks());
    assert_eq!(
        show(&lab.admin, "ours").await.kind(),
        Some(&LockKind::Exclusive)
    );
}

/// What dlock does not know it does not delete.
#[tokio::test]
async fn is_evicted_only_if_it_is_a_lock() {
    let lab = Lab::new().await;
    let wrong = "0123456789abcdef".parse().unwrap();
    for (key, words, kind) in STRANGE {
        lab.server.cmd(words).await;
        let holders = show(&lab.admin, key).await.holders().to_vec();
        let holder = holders.first().map_or(wrong, HolderReport::fingerprint);
        let done = lab.admin.evict(*key, holder).await;
        let refused = match &done {
            Err(LockError::Refused { reason, .. }) => Some(*reason),
            _ => None,
        };
        match (*key, kind) {
            (_, LockKind::OtherType) => assert_eq!(refused, Some(Refusal::WrongType), "{key}"),
            (_, LockKind::OtherLayout) | ("reader" | "junk" | "owner", _) => {
                assert_eq!(refused, Some(Refusal::Layout), "{key}");
            }
            _ => assert!(matches!(done.unwrap(), Eviction::Done(_)), "{key}"),
        }
    }
    let left = lab.server.keys().await;
    assert_eq!(left.len(), STRANGE.len() - 3, "{left:?}");
}

#[tokio::test]
async fn bytes_that_are_no_text() {
    let lab = Lab::new().await;
    let set = "redis.call('SET', 'lock:bytes', '\\255\\254') redis.call('SET', 'lock:\\255', 'a') \
        redis.call('ZADD', 'lock:set', 'inf', '1|#|rw', '9e15', '\\255', '9e15', '1|r|a\\255-b||1|0|0||h|1|f|0')";
    lab.server.cmd(&["EVAL", set, "0"]).await;
    assert_eq!(keys(&list(&lab.admin, "*").await), ["bytes", "set"]);
    let set = show(&lab.admin, "set").await;
    assert_eq!(set.holder_count(), 2);
    for key in ["bytes", "set"] {
        let holder = show(&lab.admin, key).await.holders()[0].fingerprint();
        let refused = lab.admin.evict(key, holder).await.unwrap_err();
        assert!(matches!(
            refused,
            LockError::Refused {
                reason: Refusal::Layout,
                ..
            }
        ));
    }
}

#[tokio::test]
async fn in_the_queue_and_the_counter() {
    let lab = Lab::new().await;
    let _guard = held(lab.here.lock("a")).await;
    let queue = [
        "ZADD",
        "lock:@w:{lock:a}",
        "-inf",
        "junk",
        "inf",
        FORGED,
        "5",
        "1|x|a-b",
    ];
    lab.server.cmd(&queue).await;
    lab.server.cmd(&["SET", "lock:@a:{lock:a}", "a text"]).await;
    lab.server.cmd(&["SET", "lock:@fence", "no number"]).await;
    let lock = show(&lab.admin, "a").await;
    assert_eq!(lock.waiter_count(), 3);
    assert_eq!(lock.waiters()[0].kind(), &HoldKind::Foreign);

    lab.server.cmd(&["SET", "lock:@w:{lock:b}", "a text"]).await;
    let _guard = lab.here.lock("b").ttl(super::LONG).acquire().await;
    if let Some(lock) = lab.admin.show("b").await.unwrap() {
        assert_eq!(lock.waiter_count(), 0);
    }
}

/// A lapsed holder whose key nobody has tidied does not count.
#[tokio::test]
async fn holders_whose_lease_is_over() {
    let lab = Lab::new().await;
    let over = "1|r|aa-bb-1||60000|0|0||h|1|f|0";
    lab.server
        .cmd(&["ZADD", "lock:a", "inf", "1|#|rw", "5", over])
        .await;
    assert_eq!(lab.admin.show("a").await.unwrap(), None);
    assert_eq!(keys(&list(&lab.admin, "*").await), [""; 0]);
    let holder = "0123456789abcdef".parse().unwrap();
    assert_eq!(lab.admin.evict("a", holder).await.unwrap(), Eviction::Free);
    lab.server.cmd(&["ZADD", "lock:a", "9e15", FORGED]).await;
    assert_eq!(show(&lab.admin, "a").await.holder_count(), 1);
}
