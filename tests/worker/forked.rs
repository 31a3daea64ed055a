//! What a forked child finds of its parent's pools and guards. It prints the result of each call;
//! the test that started it checks them.

use std::fmt::Debug;
use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use dlock_fork::{Side, end, fork};
use dlock_runtime::{Batch, LockError, LockGuard, LockPool, distributed_lock};
use dlock_tests::patient;
use futures_util::FutureExt;
use tokio::runtime::{Builder, Runtime};

use crate::settings::Settings;

#[distributed_lock(key = "annotated")]
async fn annotated() -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(key = "annotated", pool = "other")]
async fn annotated_elsewhere() -> Result<(), LockError> {
    Ok(())
}

/// What a parent has when it forks.
struct Inherited {
    pool: LockPool,
    held: LockGuard,
    written: LockGuard,
    released: LockGuard,
    several: LockGuard,
    dropped: LockGuard,
}

impl Inherited {
    async fn new(url: &str) -> Self {
        let pool = dlock_runtime::init(patient(url)).await.unwrap();
        let other = dlock_runtime::init_named("other", patient(url));
        other.await.unwrap();
        let guard = async |key: &str| pool.lock(key).ttl(Duration::from_secs(60)).acquire().await;
        Self {
            held: guard("held").await.unwrap(),
            written: pool.lock("written").write().acquire().await.unwrap(),
            released: guard("released").await.unwrap(),
            several: pool.lock_all(["a", "b"]).acquire().await.unwrap(),
            dropped: guard("dropped").await.unwrap(),
            pool,
        }
    }
}

/// Forks outside the runtime, which goes on in the parent; the child makes every call in a runtime
/// of its own.
pub(crate) fn beside_a_runtime(settings: &Settings) {
    let runtime = Runtime::new().unwrap();
    let inherited = runtime.block_on(Inherited::new(&settings.url));
    mark(settings.text("mark"), "child begins");
    match fork().unwrap() {
        Side::Child => {
            Builder::new_current_thread()
                .enable_all()
                .build()
                .unwrap()
                .block_on(use_all(inherited, &settings.url));
            end();
        }
        Side::Parent(child) => assert!(child.wait(), "the child ended as it should"),
    }
    mark(settings.text("mark"), "child ended");
    runtime.block_on(go_on(inherited));
}

/// Forks again and again, while other threads take locks of the same pool: a mutex that is locked
/// at the time of the fork stays locked in the child for ever.
pub(crate) fn while_others_lock(settings: &Settings) {
    let runtime = Runtime::new().unwrap();
    let inherited = runtime.block_on(Inherited::new(&settings.url));
    let ends = Arc::new(AtomicBool::new(false));
    for number in 0..8 {
        let (pool, ends) = (inherited.pool.clone(), ends.clone());
        runtime.spawn(async move {
            while !ends.load(Ordering::Relaxed) {
                let request = pool.lock(format!("busy:{}", number % 4));
                drop(request.acquire().await);
            }
        });
    }
    let mut inherited = Some(inherited);
    for _ in 0..settings.number("times") {
        match fork().unwrap() {
            Side::Child => {
                let runtime = Builder::new_current_thread().enable_all().build().unwrap();
                runtime.block_on(use_all(inherited.take().unwrap(), &settings.url));
                end();
            }
            Side::Parent(child) => assert!(child.wait(), "the child ended as it should"),
        }
        println!("parent again");
    }
    ends.store(true, Ordering::Relaxed);
    runtime.block_on(go_on(inherited.unwrap()));
}

/// Forks inside a single-threaded runtime, which then runs in the child as well, with all tasks of
/// the pool.
pub(crate) fn inside_a_runtime(settings: &Settings, fork: fn() -> io::Result<Side>) {
    let often = Duration::from_millis(100);
    let config = patient(&settings.url).health_check_interval(often);
    let runtime = Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let pool = LockPool::connect(config).await.unwrap();
        let held = pool.lock("held").ttl(Duration::from_secs(60));
        let held = held.acquire().await.unwrap();
        mark(settings.text("mark"), "child begins");
        match fork().unwrap() {
            Side::Child => {
                tokio::time::sleep(often * 4).await; // an idle connection is checked by then
                println!("child held {}", held.is_held());
                drop((held, pool));
                tokio::time::sleep(often).await;
                end();
            }
            Side::Parent(child) => assert!(child.wait(), "the child ended as it should"),
        }
        mark(settings.text("mark"), "child ended");
        held.verify().await.unwrap();
        println!("parent released {:?}", held.release().await);
    });
}

/// Forks while a command of the parent is under way, whose answer arrives while the child runs.
pub(crate) fn while_a_command_is_under_way(settings: &Settings) {
    let runtime = Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let pool = LockPool::connect(patient(&settings.url)).await.unwrap();
        let held = pool.lock("held").ttl(Duration::from_secs(60));
        let held = held.acquire().await.unwrap();
        tell(settings.text("mark"), "CLIENT PAUSE 300 ALL");
        let mut ping = Box::pin(pool.ping());
        assert!((&mut ping).now_or_never().is_none());
        tokio::time::sleep(Duration::from_millis(20)).await; // the connection's task sends it
        match fork().unwrap() {
            Side::Child => {
                tokio::time::sleep(Duration::from_secs(1)).await;
                end();
            }
            Side::Parent(child) => assert!(child.wait(), "the child ended as it should"),
        }
        held.verify().await.unwrap();
        ping.await.unwrap();
        println!("parent released {:?}", held.release().await);
    });
}

/// Writes a line into the record of the server at this address, by a connection of its own.
fn mark(addr: &str, what: &str) {
    tell(addr, &format!("ECHO {what:?}"));
}

fn tell(addr: &str, command: &str) {
    let mut stream = TcpStream::connect(addr).unwrap();
    stream
        .write_all(format!("{command}\r\n").as_bytes())
        .unwrap();
    assert!(stream.read(&mut [0; 64]).unwrap() > 0);
}

/// What the parent does when its child has ended.
async fn go_on(inherited: Inherited) {
    let Inherited { pool, held, .. } = &inherited;
    assert!(held.is_held());
    for guard in [&inherited.held, &inherited.written, &inherited.several] {
        guard.verify().await.unwrap();
    }
    held.extend(Duration::from_secs(90)).await.unwrap();
    annotated().await.unwrap();
    annotated_elsewhere().await.unwrap();
    drop(pool.lock("again").acquire().await.unwrap());
    println!("parent released {:?}", inherited.held.release().await);
    println!("parent released {:?}", inherited.released.release().await);
}

/// What the child does: every call that a program could make.
async fn use_all(inherited: Inherited, url: &str) {
    let Inherited { pool, held, .. } = &inherited;
    let lost = held.lost();
    say("acquire", pool.lock("x").acquire().await);
    say("try_acquire", pool.lock("x").try_acquire().await);
    say("run", pool.lock("x").run(async |_| ()).await);
    say("lock_all", pool.lock_all(["x", "y"]).acquire().await);
    say("ping", pool.ping().await);
    say("holder", pool.holder("held").await);
    say("global", dlock_runtime::pool());
    say("named", dlock_runtime::named("other"));
    say("attribute", annotated().await);
    say("attribute, named", annotated_elsewhere().await);
    say("attribute, scoped", pool.scope(annotated()).await);
    println!("child shutdown {:?}", pool.shutdown().await);
    println!("child shutdown {:?}", dlock_runtime::shutdown().await);

    println!("child held {}", held.is_held());
    println!("child remaining {:?}", held.remaining());
    println!("child lost {:?}", lost.now_or_never());
    let closing = pool
        .closing()
        .now_or_never()
        .and(held.closing().now_or_never());
    println!("child closing {closing:?}");
    let own = dlock_runtime::closing().now_or_never();
    println!("child own closing {own:?}");
    say("verify", held.verify().await);
    say("extend", held.extend(Duration::from_secs(1)).await);
    let batch = Batch::new().set("{lock:held}data", "x");
    say("write", held.write(&batch).await);
    say("downgrade", inherited.written.downgrade().await);
    say("release", inherited.released.release().await);
    say("release of several", inherited.several.release().await);
    drop((inherited.held, inherited.written, inherited.dropped));
    drop(inherited.pool);

    let pool = dlock_runtime::init(patient(url)).await.unwrap();
    dlock_runtime::init_named("other", patient(url))
        .await
        .unwrap();
    annotated().await.unwrap();
    annotated_elsewhere().await.unwrap();
    for key in ["held", "dropped", "released", "a"] {
        let free = pool.lock(key).try_acquire().await.unwrap().is_some();
        println!("child own free {free}");
    }
    let mine = pool.lock("mine").renew().acquire().await.unwrap();
    println!("child own {:?}", mine.release().await);
    assert!(dlock_runtime::shutdown().await.is_complete());
}

/// Prints only the variant, and for a loss its cause.
fn say<T: Debug>(call: &str, outcome: Result<T, LockError>) {
    let outcome = match outcome {
        Ok(value) => format!("Ok({value:?})"),
        Err(LockError::Lost { cause, .. }) => format!("Lost({cause:?})"),
        Err(LockError::Config { why, .. })
            if why.to_string().contains("connect after the fork") =>
        {
            "Config".to_owned()
        }
        Err(other) => format!("{other:?}"),
    };
    println!("child {call}: {outcome}");
}
