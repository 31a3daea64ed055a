//! A lock is lost for one cause, and every caller is told the same one: a method that is answered
//! after the deadline says what `lost()` says.

use std::error::Error;
use std::sync::Arc;

use dlock_harness::{Action, Matcher};
use dlock_runtime::{Batch, LockError, LockGuard, LostCause};
use dlock_tests::patient;
use futures_util::future::BoxFuture;

use crate::lab::{CAP, ITEM, LONG, Lab, ON_SERVER};

type Call = fn(Arc<LockGuard>) -> BoxFuture<'static, Result<(), LockError>>;

/// Each method that asks the server, and what its error says about the operation.
const CALLS: [(&str, Call, &str); 4] = [
    (
        "extend",
        |it| Box::pin(async move { it.extend(LONG).await }),
        "the lease is not extended",
    ),
    (
        "verify",
        |it| Box::pin(async move { it.verify().await }),
        "nothing protects what comes after this",
    ),
    (
        "downgrade",
        |it| Box::pin(async move { it.downgrade().await }),
        "it is not a read lock",
    ),
    (
        "write",
        |it| Box::pin(async move { it.write(&Batch::new().set("data:{7}", "x")).await }),
        "nothing of the batch was written",
    ),
];

/// The command is under way when the lease ends; when it arrives the key is gone, as it should be
/// by then.
#[tokio::test]
async fn a_method_that_is_answered_after_the_deadline_says_what_lost_says() {
    for (name, call, what) in CALLS {
        let (error, told) = answered_after_the_end(call, false).await;
        assert_eq!(told, LostCause::Deadline, "{name}");
        check(name, &error, told, what);
    }
}

/// A method that is answered before the deadline is the first to know.
#[tokio::test]
async fn a_method_that_is_answered_before_the_deadline_tells_the_others() {
    for (name, call, what) in CALLS {
        let (error, told) = answered_after_the_end(call, true).await;
        assert_eq!(told, LostCause::Gone, "{name}");
        check(name, &error, told, what);
    }
}

async fn answered_after_the_end(call: Call, in_time: bool) -> (LockError, LostCause) {
    let lab = Lab::new();
    let pool = lab.pool_of(patient(lab.proxy.url())).await;
    let ttl = if in_time { LONG } else { CAP / 20 };
    let key = format!("{ITEM}:{{7}}");
    let guard = pool.lock(key).write().ttl(ttl).acquire().await.unwrap();
    let guard = Arc::new(guard);
    let held = lab.proxy.on(Matcher::any(), Action::Hold);
    let calling = tokio::spawn(call(guard.clone()));
    held.seen().await;
    lab.server
        .cmd(&["DEL", &format!("{ON_SERVER}:{{7}}")])
        .await;
    if !in_time {
        guard.lost().await;
    }
    lab.proxy.clear_triggers();
    lab.proxy.release_held();
    let error = calling.await.unwrap().unwrap_err();
    (error, guard.lost().await)
}

#[track_caller]
fn check(name: &str, error: &LockError, told: LostCause, what: &str) {
    match error {
        LockError::Lost {
            cause, finished, ..
        } => assert_eq!((*cause, *finished), (told, false), "{name}"),
        other => panic!("{name}: {other:?}"),
    }
    assert_eq!(error.source().unwrap().to_string(), what, "{name}");
    let text = error.to_string();
    assert!(
        !text.contains("the body was stopped"),
        "{name}: nobody stops the body of a guard: {text}"
    );
}
