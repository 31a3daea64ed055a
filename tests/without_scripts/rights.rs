//! A user who may run no scripts, and a server that has none.

use dlock_harness::RedisServer;
use dlock_runtime::Refusal;
use dlock_tests::served::documented_plain_user;
use dlock_tests::{patient, refusal};

use crate::wire::everything;
use crate::{connect, plain};

/// A user without the right to scripts is told what to do, and then never asks for them.
#[tokio::test]
async fn who_may_run_no_script_is_told_of_this_way() {
    let server = RedisServer::start();
    documented_plain_user(&server).await;
    let url = format!("redis://plain:secret@{}", server.addr());
    let pool = connect(patient(&url)).await;
    let error = pool.lock("k").acquire().await.unwrap_err();
    assert_eq!(refusal(&error), Some(Refusal::NoPermission));
    let said = format!("{error:?}");
    assert!(said.contains("without_scripts"), "{said}");
    server.cmd(&["ACL", "LOG", "RESET"]).await;
    let (one, two) = (connect(plain(&url)).await, connect(plain(&url)).await);
    everything(&one, &two, &server).await.unwrap();
    assert_eq!(server.ask::<Vec<redis::Value>>(&["ACL", "LOG"]).await, []);

    let renamed = [
        "--rename-command",
        "EVAL",
        "",
        "--rename-command",
        "EVALSHA",
        "",
    ];
    let server = RedisServer::builder().args(renamed).start();
    let pool = connect(patient(server.url())).await;
    let error = pool.lock("k").try_acquire().await.unwrap_err();
    let said = format!("{error:?}");
    assert!(said.contains("without_scripts"), "{said}");
    let (one, two) = (
        connect(plain(server.url())).await,
        connect(plain(server.url())).await,
    );
    everything(&one, &two, &server).await.unwrap();
}
