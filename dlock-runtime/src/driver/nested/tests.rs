//! The error of a nested call that would wait for itself names the outer lock, and only advice that
//! helps.

use crate::driver::pool::LockPool;
use crate::driver::request::LockRequest;
use crate::values::error::LockError;

type Acquire = fn(LockRequest) -> LockRequest;

async fn told(outer: Acquire, inner: Acquire) -> String {
    let pool = LockPool::connect("memory://").await.unwrap();
    let acquire = |how: Acquire| how(pool.lock("k"));
    let outer = acquire(outer);
    let error = outer.run(async |_| acquire(inner).acquire().await.unwrap_err());
    let error = error.await.unwrap();
    let deadlock = matches!(
        &error,
        LockError::WouldDeadlock {
            inversion: None,
            enclosing: Some(_),
            ..
        }
    );
    assert!(deadlock, "{error:?}");
    error.to_string()
}

#[tokio::test]
async fn it_names_who_holds_the_key_and_what_helps() {
    let cases: [(Acquire, Acquire, &str); 7] = [
        (
            |it| it,
            |it| it,
            "pass the lock down, or say `reentrant` here",
        ),
        (
            |it| it,
            LockRequest::of_candidate,
            "campaign after that body has ended",
        ),
        (LockRequest::read, LockRequest::write, "take `write` there"),
        (
            LockRequest::write,
            LockRequest::write,
            "or take `read` here",
        ),
        (
            |it| it.reentrant().owner("a"),
            |it| it.reentrant().owner("b"),
            "the same `owner` at both",
        ),
        (
            |it| it.permits(2),
            |it| it.permits(2).take(2),
            "raise `permits`",
        ),
        (
            |it| it.reentrant(),
            |it| it,
            "pass the lock down, or say `reentrant` here",
        ),
    ];
    for (outer, inner, helps) in cases {
        let said = told(outer, inner).await;
        let by = format!("is already held around this call by {}:", file!());
        assert!(said.contains(&by) && said.contains(helps), "{said}");
        assert!(
            said.contains(", so waiting for it would never end; "),
            "{said}"
        );
        assert_eq!(said.contains("reentrant"), helps.contains("reentrant"));
        if helps.contains("reentrant") {
            assert!(
                !said.contains("`write`") && !said.contains("owner"),
                "{said}"
            );
        }
    }
}
