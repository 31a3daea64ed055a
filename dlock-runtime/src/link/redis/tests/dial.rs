//! Names with several addresses, of which some lead nowhere: whatever dials finds the one that
//! answers, within `connect_timeout`, and else says what it tried.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Mutex;
use std::time::Duration;

use dlock_harness::watched::MASTER;
use dlock_harness::{Authority, Cluster, RedisServer, Watched};
use tokio::net::{TcpSocket, TcpStream};
use tokio::time::Instant;

use crate::driver::pool::LockPool;
use crate::link::redis::dial::tcp;
use crate::values::config::{Config, Host};
use crate::values::error::LockError;
use crate::values::finding::Concern;

/// The names of these tests, which no resolver knows.
static NAMES: Mutex<Vec<(String, Vec<SocketAddr>)>> = Mutex::new(Vec::new());

/// What stands for the resolver's answer about a name of these tests.
pub(crate) fn addresses_of(name: &str) -> Option<Vec<SocketAddr>> {
    let names = NAMES.lock().unwrap();
    let known = names.iter().find(|(known, _)| known == name)?;
    Some(known.1.clone())
}

fn name(name: &str, addresses: &[SocketAddr]) -> String {
    let mut names = NAMES.lock().unwrap();
    names.push((name.to_owned(), addresses.to_vec()));
    name.to_owned()
}

/// An address that swallows packets: its queue of connections is full, and nobody takes one.
struct BlackHole {
    address: SocketAddr,
    _waiting: Vec<TcpStream>,
    _listener: tokio::net::TcpListener,
}

impl BlackHole {
    async fn new() -> Self {
        let socket = TcpSocket::new_v4().unwrap();
        socket.bind((Ipv4Addr::LOCALHOST, 0).into()).unwrap();
        let listener = socket.listen(1).unwrap();
        let address = listener.local_addr().unwrap();
        let mut waiting = Vec::new();
        let short = Duration::from_millis(300);
        while let Ok(taken) = tokio::time::timeout(short, TcpStream::connect(address)).await {
            waiting.push(taken.unwrap());
            assert!(waiting.len() < 100, "it takes all");
        }
        Self {
            address,
            _waiting: waiting,
            _listener: listener,
        }
    }
}

/// An address that refuses connections.
async fn closed() -> SocketAddr {
    let listener = tokio::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0));
    listener.await.unwrap().local_addr().unwrap()
}

async fn dial(name: String, within: Duration) -> (Result<SocketAddr, String>, Duration) {
    let begun = Instant::now();
    let host = Host { name, port: 1 };
    let connected = tcp(&host, begun + within).await;
    let address = connected.map(|(address, _)| address);
    (address.map_err(|why| why.to_string()), begun.elapsed())
}

#[tokio::test]
async fn the_next_address_is_tried_beside_a_silent_one_and_after_a_failure() {
    let (hole, server) = (BlackHole::new().await, RedisServer::start());
    let (hole, dead, works) = (hole.address, closed().await, server.addr());
    let second = Duration::from_secs(1);
    for (which, addresses, at_least) in [
        ("only", vec![works], Duration::ZERO),
        ("silent", vec![hole, works], second / 4),
        ("dead", vec![dead, works], Duration::ZERO),
        ("silent-dead", vec![hole, dead, works], second / 4),
        ("dead-silent", vec![dead, hole, works], second / 4),
        ("twice", vec![hole, hole, works], second / 4),
        // More than have a quarter of a second each: all are tried all the same.
        (
            "many",
            [[hole, dead].repeat(5), vec![works]].concat(),
            second / 4,
        ),
    ] {
        let name = name(which, &addresses);
        let (peer, took) = dial(name, second).await;
        assert_eq!(peer, Ok(works), "{which}");
        assert!((at_least..second).contains(&took), "{which}: {took:?}");
    }
}

#[tokio::test]
async fn an_error_names_what_was_tried() {
    let (hole, dead) = (BlackHole::new().await, closed().await);
    let hole = hole.address;
    let within = Duration::from_millis(800);
    for (which, addresses, says) in [
        ("none", vec![], vec!["none:1", "no address"]),
        (
            "refused",
            vec![dead],
            vec![&*format!("{dead}: "), "refused"],
        ),
        (
            "neither",
            vec![hole, dead],
            vec![
                &*format!("{dead}: "),
                &*format!("{hole}: no answer in time"),
            ],
        ),
    ] {
        let (error, took) = dial(name(which, &addresses), within).await;
        let error = error.unwrap_err();
        assert!(says.iter().all(|it| error.contains(it)), "{error}");
        assert!(took < within, "{which}: {took:?}");
    }
    let url = format!("redis://{}", name("at-init", &[hole, dead]));
    let error = LockPool::connect(Config::new(url)).await.unwrap_err();
    assert!(matches!(error, LockError::Unavailable { .. }), "{error:?}");
    let text = format!("{error:?}");
    assert!(text.contains(&hole.to_string()), "{text}");
    assert!(text.contains(&dead.to_string()), "{text}");
}

/// A server, sentinels, nodes of a quorum and of a cluster, with TLS and without.
#[tokio::test]
async fn whatever_dials_finds_the_address_that_answers() {
    let hole = BlackHole::new().await;
    let behind = |which: &str, server: SocketAddr| name(which, &[hole.address, server]);
    let server = RedisServer::start();
    let mut urls = vec![format!("redis://{}", behind("plain", server.addr()))];

    let authority = Authority::new();
    let identity = authority.issue("server", &["tls"]);
    let with_tls = RedisServer::builder()
        .tls(&authority, &identity, false)
        .start();
    let (at, ca) = (with_tls.tls_addr().unwrap(), authority.file());
    urls.push(format!(
        "rediss://{}?tls_ca={}",
        behind("tls", at),
        ca.display()
    ));

    let watched = Watched::start_steady().await;
    let sentinels = watched.sentinels.iter().zip(["s1", "s2", "s3"]);
    let sentinels = sentinels.map(|(it, name)| behind(name, it.addr()));
    let sentinels = sentinels.collect::<Vec<_>>().join(",");
    urls.push(format!("redis+sentinel://{sentinels}/{MASTER}"));

    let nodes = [(); 3].map(|()| RedisServer::start());
    let named = nodes.iter().zip(["n1", "n2", "n3"]);
    let named = named.map(|(it, name)| behind(name, it.addr()));
    urls.push(format!("redlock://{}", named.collect::<Vec<_>>().join(",")));

    let cluster = Cluster::start(3).await;
    urls.push(format!(
        "redis+cluster://{}",
        behind("c1", cluster.nodes[0].addr())
    ));

    for url in urls {
        let mut config = Config::new(&*url).connect_timeout(Duration::from_secs(2));
        if url.starts_with("redlock") {
            config = config.max_ttl(Duration::from_secs(1));
        }
        let pool = LockPool::connect(config).await;
        let pool = pool.unwrap_or_else(|error| panic!("{url}: {error:?}"));
        pool.ping()
            .await
            .unwrap_or_else(|error| panic!("{url}: {error:?}"));
    }
}

/// Another program may have the addresses in another order, and then both hold one lock.
#[tokio::test]
async fn init_and_check_say_that_a_name_leads_to_two_servers() {
    let (hole, servers) = (
        BlackHole::new().await,
        [(); 2].map(|()| RedisServer::start()),
    );
    let [one, other] = servers.each_ref().map(RedisServer::addr);
    let (hole, dead) = (hole.address, closed().await);
    for (which, addresses, leads_to) in [
        ("to-one", vec![one], None),
        ("to-one-and-none", vec![one, dead, hole], None),
        ("to-two", vec![one, dead, hole, other], Some([one, other])),
        (
            "to-two-behind-a-silent-one",
            vec![hole, one, other],
            Some([one, other]),
        ),
    ] {
        let url = format!("redis://{}", name(which, &addresses));
        let pool = LockPool::connect(Config::new(url)).await.unwrap();
        for _ in 0..2 {
            let findings = pool.check().await.unwrap();
            let found = findings.iter().find(|it| it.concern() == Concern::Address);
            let said = found.map(ToString::to_string).unwrap_or_default();
            let named = |at: [SocketAddr; 2]| at.iter().all(|it| said.contains(&it.to_string()));
            assert_eq!(found.is_some(), leads_to.is_some(), "{which}: {said}");
            assert!(leads_to.is_none_or(named), "{which}: {said}");
        }
    }
}
