//! What a request says about the kind ends up in the spec; everything that does not go together is
//! in one error.

use std::fmt;
use std::sync::Arc;

use crate::client::spec::AcquireSpec;
use crate::driver::request::LockRequest;
use crate::values::kind::Kind;
use crate::{LockError, LockPool};

async fn spec(set: impl FnOnce(LockRequest) -> LockRequest) -> Result<Arc<AcquireSpec>, LockError> {
    let pool = LockPool::connect("memory://").await.unwrap();
    let (_, spec) = set(pool.lock("k")).spec()?;
    Ok(spec)
}

#[track_caller]
fn check(spec: Result<Arc<AcquireSpec>, LockError>, kind: &Kind, fair: bool, reentrant: bool) {
    let spec = spec.unwrap();
    assert_eq!((&spec.kind, spec.reentrant), (kind, reentrant));
    // Fair locks, and kinds with many holders at once, need a queue entry of their own at the
    // server.
    assert_eq!(!spec.queue_key.is_for_all(), fair || kind.is_shared());
}

#[tokio::test]
async fn each_kind() {
    let permits = |of, take| Kind::Permits { of, take };
    check(spec(|it| it).await, &Kind::Exclusive, false, false);
    check(spec(LockRequest::fair).await, &Kind::Exclusive, true, false);
    check(spec(LockRequest::read).await, &Kind::Read, false, false);
    check(spec(LockRequest::write).await, &Kind::Write, false, false);
    check(spec(|it| it.permits(5)).await, &permits(5, 1), false, false);
    check(
        spec(|it| it.take(2).permits(5)).await,
        &permits(5, 2),
        false,
        false,
    );
    check(
        spec(|it| it.reentrant().fair()).await,
        &Kind::Exclusive,
        true,
        true,
    );
    check(
        spec(|it| it.reentrant().owner("order 7")).await,
        &Kind::Owned("order%207".into()),
        false,
        true,
    );
}

/// As for every setting of a request; and a word that was corrected is not an error.
#[tokio::test]
async fn the_last_of_several_counts() {
    let set = |it: LockRequest| it.permits(0).take(2).permits(9).read();
    let said = spec(set).await.unwrap_err().to_string();
    assert!(said.ends_with("remove either"), "{said}");
    assert!(!said.contains("permits 0"), "{said}");
    let set = |it: LockRequest| it.owner("").reentrant().owner(7);
    check(spec(set).await, &Kind::Owned("7".into()), false, true);
}

/// An entry has its fields between bars, and other programs read it.
#[tokio::test]
async fn an_owner_can_forge_nothing() {
    let forged = "me|9|host|1|f|0\n%7C";
    let spec = spec(|it| it.reentrant().owner(forged)).await.unwrap();
    let Kind::Owned(owner) = &spec.kind else {
        panic!("{:?}", spec.kind);
    };
    assert_eq!(&**owner, "me%7C9%7Chost%7C1%7Cf%7C0%0A%257C");
}

#[tokio::test]
async fn everything_that_is_wrong_is_in_one_error() {
    let set = |it: LockRequest| {
        it.read()
            .write()
            .permits(0)
            .take(2000)
            .owner("")
            .fair()
            .max_renewals(4)
    };
    let LockError::Config { why: said, .. } = spec(set).await.unwrap_err() else {
        panic!("another kind of error");
    };
    let said = said.to_string();
    let parts: Vec<_> = said.split("; ").collect();
    let begin = [
        "max_renewals counts",
        "`write` and `read`",
        "`permits` and `read`",
        "permits 0",
        "one holder takes at most 1000",
        "`owner` says who",
        "with `read` a lock",
        "the owner is empty",
    ];
    assert_eq!(parts.len(), begin.len(), "{said}");
    for (part, begin) in parts.iter().zip(begin) {
        assert!(part.starts_with(begin), "{part}, not {begin}");
    }
}

struct Fails;

impl fmt::Display for Fails {
    fn fmt(&self, _: &mut fmt::Formatter<'_>) -> fmt::Result {
        Err(fmt::Error)
    }
}

#[tokio::test]
async fn an_owner_has_a_text() {
    let long = "x".repeat(257);
    let owned = async |owner: &dyn fmt::Display| {
        let refused = spec(|it| it.reentrant().owner(owner)).await;
        refused.unwrap_err().to_string()
    };
    for (said, expected) in [
        (owned(&"").await, "the owner is empty"),
        (owned(&long).await, "the owner has 257 bytes"),
        (owned(&Fails).await, "the `Display` of the owner failed"),
    ] {
        assert!(said.contains(expected), "{said}");
    }
}
