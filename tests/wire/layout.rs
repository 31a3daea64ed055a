//! The value at a lock's key, `1|x|token|address|lease|0|0||host|pid|function|since`, says who
//! holds the lock and at which address that attempt is reached. Its token is never shown.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use dlock_harness::{Child, RedisServer};
use dlock_runtime::{Holder, LockError, LockPool, Process, distributed_lock};
use dlock_tests::patient;

use crate::connect;

const CAP: Duration = Duration::from_secs(20);

async fn value(server: &RedisServer, key: &str) -> Vec<String> {
    let value: String = server.ask(&["GET", key]).await;
    value.split('|').map(str::to_owned).collect()
}

async fn process(pool: &LockPool, key: &str) -> Process {
    match pool.holder(key).await.unwrap() {
        Some(Holder::Process(process)) => process,
        other => panic!("{other:?}"),
    }
}

#[distributed_lock(key = "order:<id>")]
async fn ship(id: u64, server: &RedisServer, pool: &LockPool) -> Result<(), LockError> {
    let fields = value(server, "lock:order:7").await;
    let [
        layout,
        kind,
        token,
        address,
        lease,
        take,
        of,
        owner,
        host,
        pid,
        function,
        since,
    ] = &fields[..]
    else {
        panic!("{fields:?}");
    };
    assert_eq!((id, &**layout, &**kind), (7, "1", "x"));
    assert_eq!(
        (&**lease, &**take, &**of, &**owner),
        ("30000", "0", "0", "")
    );
    let (run_id, channel) = address.split_once(';').unwrap();
    let info: String = server.ask(&["INFO", "server"]).await;
    assert!(info.contains(&format!("run_id:{run_id}")), "{info}");
    let heard: Vec<String> = server.ask(&["PUBSUB", "CHANNELS"]).await;
    assert!(heard.iter().any(|it| it == channel), "{heard:?}");
    let parts: Vec<&str> = token.split('-').collect();
    let [instance, number, sequence] = parts[..] else {
        panic!("instance, pool and sequence")
    };
    assert_eq!(instance.len(), 16);
    assert!(
        [instance, number, sequence]
            .iter()
            .all(|it| u64::from_str_radix(it, 16).is_ok())
    );
    assert_eq!(host, "web%203%7Cblue");
    assert_eq!(pid, &std::process::id().to_string());
    assert_eq!(function, "wire::layout::ship");
    let since = Duration::from_millis(since.parse().unwrap());
    let ago = UNIX_EPOCH + since;
    let ago = SystemTime::now().duration_since(ago).unwrap();
    assert!(ago < CAP, "since {ago:?} ago");

    let holder = process(pool, "order:7").await;
    assert_eq!(holder.host(), "web 3|blue");
    assert_eq!(holder.pid(), std::process::id());
    assert_eq!(holder.function(), "wire::layout::ship");
    assert_eq!(holder.since(), UNIX_EPOCH + since);
    assert!(holder.is_this_process());
    Ok(())
}

#[tokio::test]
async fn an_annotated_functions_value_names_it() {
    let server = RedisServer::start();
    let config = patient(server.url()).holder_name("web 3|blue");
    let pool = LockPool::connect(config).await.unwrap();
    pool.scope(ship(7, &server, &pool)).await.unwrap();
}

#[tokio::test]
async fn a_request_is_named_by_its_place_in_the_code() {
    let server = RedisServer::start();
    let pool = connect(server.url()).await;
    let (request, line) = (pool.lock("key"), line!());
    let guard = request.acquire().await.unwrap();
    let place = format!("{}:{line}", file!());
    assert_eq!(process(&pool, "key").await.function(), place);
    assert_eq!(value(&server, "lock:key").await[10], place);
    guard.release().await.unwrap();
    assert_eq!(pool.holder("key").await.unwrap(), None);
}

/// Two attempts never share a token, and no text about a holder contains any part of it.
#[tokio::test]
async fn no_text_shows_a_token() {
    let server = RedisServer::start();
    let pool = connect(server.url()).await;
    let mut tokens = Vec::new();
    for _ in 0..3 {
        let guard = pool.lock("key").acquire().await.unwrap();
        let token = value(&server, "lock:key").await.swap_remove(2);
        let (instance, _) = token.split_once('-').unwrap();
        let holder = pool.holder("key").await.unwrap().unwrap();
        let busy = pool.lock("key").wait(Duration::from_millis(1)).acquire();
        let busy = busy.await.unwrap_err();
        assert!(busy.is_busy(), "{busy:?}");
        let texts =
            format!("{holder} {holder:?} {holder:#?} {busy} {busy:?} {busy:#?} {guard:?} {pool:?}");
        assert!(!texts.contains(instance), "{texts}");
        guard.release().await.unwrap();
        assert!(!tokens.contains(&token), "{token} twice");
        tokens.push(token);
    }
}

#[tokio::test]
async fn another_process_is_told_from_this_one() {
    const NO_ENVS: [(&str, &str); 0] = [];
    let server = RedisServer::start();
    let arguments = ["hold", &server.url(), "ttl_ms=30000"];
    let mut worker = Child::spawn(env!("CARGO_BIN_EXE_worker"), arguments, NO_ENVS);
    worker.expect_line("held ", CAP).await;
    let pool = connect(server.url()).await;
    let holder = process(&pool, "counter").await;
    assert_eq!(holder.pid(), worker.pid());
    assert!(!holder.is_this_process());
    let busy = pool
        .lock("counter")
        .wait(Duration::from_millis(1))
        .acquire();
    let text = busy.await.unwrap_err().to_string();
    assert!(
        text.contains(&format!("process {}", worker.pid())),
        "{text}"
    );
}
