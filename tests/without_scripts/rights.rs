//! A user who may run no scripts, and a server that has none.

use dlock_harness::RedisServer;
use dlock_runtime::Refusal;
use dlock_tests::served::documented_plain_user;
use dlock_tests::{patient, refusal};

use crate::wire::everything;
use crate::{connect, plain};

/// `wire::rights` shows that this way then asks for nothing that the user may not do.
#[tokio::test]
async fn who_may_run_no_script_is_told_of_this_way() {
    let here = RedisServer::start();
    documented_plain_user(&here).await;
    let args = ["EVAL", "EVALSHA"].map(|it| ["--rename-command", it, ""]);
    let without = RedisServer::builder().args(args.concat()).start();
    for (server, user, reason) in [
        (&here, "plain:secret@", Refusal::NoPermission),
        (&without, "", Refusal::Other),
    ] {
        let url = format!("redis://{user}{}", server.addr());
        let pool = connect(patient(&url)).await;
        let error = pool.lock("k").try_acquire().await.unwrap_err();
        let said = format!("{error:?}");
        assert!(said.contains("without_scripts"), "{said}");
        assert_eq!(refusal(&error), Some(reason), "{said}");
        let (one, two) = (connect(plain(&url)).await, connect(plain(&url)).await);
        everything(&one, &two, server).await.unwrap();
    }
}
