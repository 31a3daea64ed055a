//! TLS to the nodes of a cluster, which speak nothing else.

use std::time::Duration;

use dlock_harness::server::Builder;
use dlock_harness::{Authority, Cluster, RedisServer, until};
use dlock_runtime::{LockError, LockPool, Refusal, Wait};
use dlock_tests::{patient, refusal};

use crate::{CAP, key_at};

const NAMES: [&str; 2] = ["127.0.0.1", "localhost"];

/// A node whose certificate has these names.
fn node(authority: &Authority, nth: usize, names: &[&str]) -> Builder {
    let identity = authority.issue(&format!("node-{nth}"), names);
    RedisServer::builder()
        .tls(authority, &identity, false)
        .unix_socket()
        .args(["--tls-cluster", "yes", "--tls-replication", "yes"])
}

async fn cluster(authority: &Authority) -> Cluster {
    Cluster::start_as(3, |nth| node(authority, nth, &NAMES)).await
}

/// The certificates are refused, and the error says these words.
fn refuses(error: &LockError, words: &str) {
    let said = format!("{error:?}");
    assert_eq!(refusal(error), Some(Refusal::Certificate), "{said}");
    assert!(said.contains(words), "{said}");
}

#[tokio::test]
async fn locks_move_and_are_handed_on_over_tls() {
    let authority = Authority::new();
    let cluster = cluster(&authority).await;
    assert!(cluster.url().starts_with("rediss+cluster://127.0.0.1:"));
    let url = || patient(cluster.url());
    let pools = [
        LockPool::connect(url()).await.unwrap(),
        LockPool::connect(url()).await.unwrap(),
    ];
    let request = |pool: &LockPool, key: &str| {
        let request = pool.lock(key).ttl(Duration::from_secs(2)).renew();
        request.wait(Wait::Forever)
    };
    for at in 0..3 {
        let key = key_at(&cluster, at).await;
        let held = request(&pools[0], &key).acquire().await.unwrap();
        let waiter = tokio::spawn(request(&pools[1], &key).acquire());
        until("it waits", CAP, async || {
            pools[1].status().unwrap().waiting == 1
        })
        .await;
        let (slot, to) = (cluster.slot(&format!("lock:{key}")).await, (at + 1) % 3);
        cluster.migrate(slot, to, async || {}).await;
        // Both are sent on: no pool has asked since who serves the slot.
        held.verify().await.unwrap();
        held.release().await.unwrap();
        let next = waiter.await.unwrap().unwrap();
        let name = format!("lock:{key}");
        let exists: u64 = cluster.nodes[to].ask(&["EXISTS", &name]).await;
        assert_eq!(exists, 1);
        next.release().await.unwrap();
        cluster.migrate(slot, at, async || {}).await; // so that the next node is asked for its own
    }
    let plain = cluster.nodes[0].addr();
    assert!(std::net::TcpStream::connect(plain).is_err(), "TLS only");
}

#[tokio::test]
async fn what_is_wrong_with_tls_is_said() {
    let (authority, other) = (Authority::new(), Authority::new());
    let cluster = cluster(&authority).await;
    let url = cluster.url();
    let (nodes, _) = url.split_once('?').unwrap();
    let connect = async |config| LockPool::connect(config).await.map(drop).unwrap_err();
    let wrong_ca = patient(nodes).tls_ca(other.file());
    refuses(&connect(wrong_ca).await, "give the CA's certificate");
    let plain = nodes.replacen("rediss", "redis", 1);
    let error = connect(patient(plain)).await;
    let said = format!("{error:?}");
    assert!(
        said.contains("speaks TLS; write `rediss` in place of"),
        "{said}"
    );
}

/// The second node's certificate does not name the address that the cluster announces. Only its
/// locks are away, and the error says what to do; a name that all certificates have is enough.
#[tokio::test]
async fn a_node_whose_certificate_has_another_name_is_named() {
    let authority = Authority::new();
    let cluster = Cluster::start_as(3, |nth| match nth {
        1 => node(&authority, nth, &["locks.example", "localhost"]),
        _ => node(
            &authority,
            nth,
            &["127.0.0.1", "localhost", "locks.example"],
        ),
    })
    .await;
    let url = cluster.url();
    let (first, others) = url.split_once(',').unwrap();
    let (_, options) = others.split_once('?').unwrap();
    let pool = LockPool::connect(patient(format!("{first}?{options}"))).await;
    let (pool, wait) = (pool.unwrap(), Duration::from_millis(300));
    for at in 0..3 {
        let key = key_at(&cluster, at).await;
        let taken = pool.lock(&*key).wait(wait).acquire().await;
        match taken {
            Ok(guard) if at != 1 => drop(guard.release().await.unwrap()),
            Err(error) if at == 1 => {
                refuses(&error, "give it as `tls_server_name`");
                refuses(&error, "cluster-announce-hostname");
                let port = cluster.nodes[1].tls_addr().unwrap().port();
                refuses(&error, &format!("127.0.0.1:{port}"));
            }
            other => panic!("{at}: {other:?}"),
        }
    }
    let named = patient(cluster.url()).tls_server_name("locks.example");
    let pool = LockPool::connect(named).await.unwrap();
    let key = key_at(&cluster, 1).await;
    let guard = pool.lock(&*key).acquire().await.unwrap();
    guard.release().await.unwrap();
    // Or the cluster announces a name that the certificate has.
    for (name, value) in [
        ("cluster-announce-hostname", "localhost"),
        ("cluster-preferred-endpoint-type", "hostname"),
    ] {
        for node in &cluster.nodes {
            node.cmd(&["CONFIG", "SET", name, value]).await;
        }
    }
    let pool = LockPool::connect(patient(cluster.url())).await.unwrap();
    until("the nodes know its name", CAP, async || {
        let taken = pool.lock(&*key).wait(wait).acquire().await;
        taken.is_ok()
    })
    .await;
}
