//! The program itself is told to stop while a purchase runs: it answers that purchase, takes no
//! other, and leaves no lock.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use dlock_harness::{Action, Child, Matcher, Proxy, RedisServer, until};
use dlock_runtime::LockPool;
use rustix::process::{Pid, Signal, kill_process};
use tokio::net::TcpStream;
use tokio::task::JoinHandle;

use crate::lab::{Answer, Bank, CAP, SOON, client, order};

#[tokio::test]
async fn sigterm_drains() {
    drains(Signal::TERM, "SIGTERM").await;
}

#[tokio::test]
async fn sigint_drains() {
    drains(Signal::INT, "SIGINT").await;
}

async fn drains(signal: Signal, name: &str) {
    let (redis, bank) = (RedisServer::start(), Bank::start().await);
    bank.close();
    let url = [("DLOCK_URL", redis.url()), ("SHOP_BANK_URL", bank.url())];
    let mut shop = Child::spawn(program(), ["--listen", "127.0.0.1:0"], url);
    let address = address_of(&mut shop).await;
    let is_there = async |key: &str| redis.keys().await.iter().any(|other| other == key);

    // Ann holds her lock, and Bob waits for one that another instance holds.
    let other = LockPool::connect(redis.url()).await.unwrap();
    let held = other.lock("item:8").acquire().await.unwrap();
    let (ann, bob) = (buy(address, 7, "ann"), buy(address, 8, "bob"));
    bank.until_inside(1).await;
    assert!(is_there("lock:item:7").await);
    until("bob stands in the queue", SOON, async || {
        is_there("lock:@w:{lock:item:8}").await
    })
    .await;

    tell(&shop, signal);
    shop.expect_line(name, CAP).await;
    until_closed(address).await;
    held.release().await.unwrap();
    bank.open();

    let (ann, bob) = (ann.await.unwrap(), bob.await.unwrap());
    assert_eq!(ann.status, 200, "{ann:?}");
    // His request came before the signal: he gets the lock, or is busy after his two seconds; never
    // `ShutDown`.
    assert!([200, 409].contains(&bob.status), "{bob:?}");
    shop.expect_line("stopped; no lock is left held", CAP).await;
    assert!(shop.wait(CAP).await.success());
    assert!(!is_there("lock:item:7").await && !is_there("lock:item:8").await);
}

/// With a release in the background the answer does not wait for it, so the end of the program has
/// to.
#[tokio::test]
async fn it_ends_no_sooner_than_its_releases() {
    let (redis, bank) = (RedisServer::start(), Bank::start().await);
    let wire = Proxy::start(redis.addr());
    bank.close();
    let settings = [
        ("DLOCK_URL", wire.url()),
        ("DLOCK_RELEASE", "background".to_owned()),
        ("SHOP_BANK_URL", bank.url()),
    ];
    let mut shop = Child::spawn(program(), ["--listen", "127.0.0.1:0"], settings);
    let address = address_of(&mut shop).await;
    let is_held = async || redis.keys().await.iter().any(|key| key == "lock:item:7");

    let ann = buy(address, 7, "ann");
    bank.until_inside(1).await;
    // From here on the server gets none of her releases. They are lost unless the program is still
    // there to repeat them.
    let about_hers = Matcher::script().containing("lock:item:7").every();
    let lost = wire.on(about_hers, Action::CutBefore);
    bank.open();
    let ann = ann.await.unwrap();
    assert_eq!(ann.status, 200, "{ann:?}");
    // The pauses between attempts double: the next ones are longer than the end of a process takes.
    until("its release is tried again", SOON, async || {
        lost.fired() >= 5
    })
    .await;

    tell(&shop, Signal::TERM);
    shop.expect_line("SIGTERM", CAP).await;
    until_closed(address).await;
    let before = lost.fired();
    until("the release is still tried", SOON, async || {
        lost.fired() >= before + 2
    })
    .await;
    assert!(is_held().await);
    let said = shop.lines().join("\n");
    assert!(!said.contains("stopped"), "{said}");

    wire.clear_triggers();
    shop.expect_line("stopped; no lock is left held", CAP).await;
    assert!(shop.wait(CAP).await.success());
    assert!(!is_held().await);
}

/// After a second signal the program does not wait for the bank.
#[tokio::test]
async fn a_second_signal_ends_it_at_once() {
    let bank = Bank::start().await;
    bank.close();
    let url = [
        ("DLOCK_URL", "memory://".to_owned()),
        ("SHOP_BANK_URL", bank.url()),
    ];
    let mut shop = Child::spawn(program(), ["--listen", "127.0.0.1:0"], url);
    let address = address_of(&mut shop).await;
    let request = client().post(format!("http://{address}/items/7/purchases"));
    let request = request.header("content-type", "application/json");
    let ann = tokio::spawn(request.body(order("ann")).send());
    bank.until_inside(1).await;

    tell(&shop, Signal::TERM);
    shop.expect_line("SIGTERM", CAP).await;
    tell(&shop, Signal::INT);
    assert!(!shop.wait(CAP).await.success());
    assert!(ann.await.unwrap().is_err(), "cut off");
}

#[tokio::test]
async fn a_wrong_setting_ends_it_before_it_listens() {
    let wrong = [("DLOCK_URL", "http://localhost")];
    let mut shop = Child::spawn(program(), ["--listen", "127.0.0.1:0"], wrong);
    assert!(!shop.wait(CAP).await.success());
    assert_eq!(shop.lines(), [""; 0]);
}

async fn address_of(shop: &mut Child) -> SocketAddr {
    let address = shop.expect_line("listening on ", CAP).await;
    address.parse().unwrap()
}

fn buy(shop: SocketAddr, item: u64, buyer: &str) -> JoinHandle<Answer> {
    let request = client().post(format!("http://{shop}/items/{item}/purchases"));
    let request = request.header("content-type", "application/json");
    tokio::spawn(Answer::of(request.body(order(buyer))))
}

fn tell(shop: &Child, signal: Signal) {
    let pid = Pid::from_raw(shop.pid().try_into().unwrap()).unwrap();
    kill_process(pid, signal).unwrap();
}

async fn until_closed(shop: SocketAddr) {
    until("new connections are refused", SOON, async || {
        TcpStream::connect(shop).await.is_err()
    })
    .await;
}

/// `cargo test` also builds the examples, unless it is told to build one test only.
fn program() -> PathBuf {
    let tests = std::env::current_exe().unwrap();
    let target = tests.parent().and_then(Path::parent).unwrap();
    let program = target
        .join("examples/web_handler")
        .with_extension(std::env::consts::EXE_EXTENSION);
    let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("web_handler");
    let newest = std::fs::read_dir(sources).unwrap();
    let newest = newest.map(|entry| entry.unwrap()).filter(|entry| {
        let name = entry.file_name();
        Path::new(&name).extension().is_some_and(|end| end == "rs")
    });
    let newest = newest.map(|entry| modified(&entry.path())).max().flatten();
    assert!(
        modified(&program) >= newest,
        "{} is missing or older than its source: cargo build -p dlock-examples --example web_handler",
        program.display()
    );
    program
}

fn modified(file: &Path) -> Option<SystemTime> {
    std::fs::metadata(file).ok()?.modified().ok()
}
