//! Start, stop, restart and kill of servers, and the record of a monitor.

use std::path::Path;
use std::time::Duration;

use redis::Value;

use super::launch::Process;
use super::{Builder, RedisServer, port};
use crate::proxy::Proxy;
use crate::wait::until;

const CAP: Duration = Duration::from_secs(10);

fn ok() -> Value {
    Value::Okay
}

#[test]
fn it_starts_without_a_runtime_and_leaves_nothing() {
    let server = RedisServer::start();
    let process = format!("/proc/{}", server.pid());
    let directory = server.directory.path().to_owned();
    assert!(Path::new(&process).exists());
    assert!(directory.exists());
    drop(server);
    assert!(!Path::new(&process).exists());
    assert!(!directory.exists());
}

#[tokio::test]
async fn it_answers() {
    let server = RedisServer::start();
    assert_eq!(server.cmd(&["SET", "b", "1", "PX", "5000"]).await, ok());
    assert_eq!(server.cmd(&["SET", "a", "1"]).await, ok());
    assert_eq!(server.keys().await, ["a", "b"]);
    assert_eq!(server.pttl("a").await, -1);
    assert_eq!(server.pttl("c").await, -2);
    let left = server.pttl("b").await;
    assert!((1..=5000).contains(&left), "{left}");
    assert!(server.try_cmd(&["NOSUCH"]).await.is_err());
    assert_eq!(server.cmd(&["DEBUG", "SLEEP", "0"]).await, ok());
}

#[tokio::test]
async fn a_server_that_persists_comes_back_with_its_data() {
    let always = ["--appendonly", "yes", "--appendfsync", "always"];
    let server = RedisServer::builder().args(always).start();
    server.cmd(&["SET", "a", "1"]).await;
    server.kill9();
    server.restart();
    assert_eq!(server.keys().await, ["a"]);
}

#[tokio::test]
async fn commandstats_counts_calls() {
    let server = RedisServer::start();
    assert_eq!(server.commandstats("SET").await, 0);
    server.cmd(&["SET", "a", "1"]).await;
    let script = "redis.call('SET', KEYS[1], 2)";
    server.cmd(&["EVAL", script, "1", "a"]).await;
    assert_eq!(server.commandstats("SET").await, 2);
    assert_eq!(server.commandstats("eval").await, 1);
    server.cmd(&["SCRIPT", "FLUSH"]).await;
    let command = if RedisServer::is_redis_6() {
        "script"
    } else {
        "script|flush"
    };
    assert_eq!(server.commandstats(command).await, 1);
}

#[tokio::test]
async fn password_and_unix_socket() {
    let server = RedisServer::builder()
        .password("secret")
        .unix_socket()
        .args(["--maxmemory", "7mb"])
        .start();
    let monitor = server.monitor();
    assert_eq!(server.cmd(&["SET", "a", "1"]).await, ok());
    assert!(monitor.settled().await.join("\n").contains(r#""SET" "a""#));

    let url = server.unix_url().unwrap();
    let client = redis::Client::open(url).unwrap();
    let mut connection = client.get_multiplexed_async_connection().await.unwrap();
    let a: String = redis::cmd("GET")
        .arg("a")
        .query_async(&mut connection)
        .await
        .unwrap();
    assert_eq!(a, "1");

    let config: Vec<String> = server.ask(&["CONFIG", "GET", "maxmemory"]).await;
    assert_eq!(config, ["maxmemory", "7340032"]);
    assert!(RedisServer::start().unix_url().is_none());
}

#[tokio::test]
async fn a_stopped_server_executes_later() {
    let server = RedisServer::start();
    let mut connection = server.connect().await;
    server.stop_signal();
    let sent = tokio::spawn(async move {
        redis::cmd("SET")
            .arg("a")
            .arg(1)
            .query_async::<Value>(&mut connection)
            .await
    });
    tokio::task::yield_now().await;
    assert!(!sent.is_finished());
    server.cont();
    assert_eq!(sent.await.unwrap().unwrap(), ok());
}

#[tokio::test]
async fn a_restarted_server_is_empty_and_has_its_port() {
    let server = RedisServer::start();
    let (addr, pid) = (server.addr(), server.pid());
    server.cmd(&["SET", "a", "1"]).await;
    server.kill9();
    assert!(std::net::TcpStream::connect(addr).is_err());
    server.restart_empty();
    assert_eq!(server.addr(), addr);
    assert_ne!(server.pid(), pid);
    assert!(server.keys().await.is_empty());
    server.cmd(&["SET", "a", "1"]).await;
    server.stop_signal();
    server.restart_empty();
    assert!(server.keys().await.is_empty());
}

#[test]
fn a_taken_port_is_noticed() {
    let (_taken, claim) = port::listener();
    let directory = tempfile::tempdir().unwrap();
    assert!(Process::start(&Builder::default(), claim.port, directory.path()).is_err());
}

/// Otherwise a test of an outage would now and then reach a server that another test has just
/// started.
#[test]
fn the_port_of_a_killed_server_is_left_alone() {
    let server = RedisServer::start();
    server.kill9();
    assert!(port::Claim::on(server.port()).is_none());
    server.restart_empty();
    assert!(port::Claim::on(server.port()).is_none());
}

/// A pool that outlives its test's server by a few seconds would reach the server of the next one.
#[test]
fn the_port_of_a_server_or_proxy_that_has_gone_is_left_alone_for_a_while() {
    let server = RedisServer::start();
    let proxy = Proxy::start(server.addr());
    let ports = [server.port(), proxy.addr().port()];
    drop((server, proxy));
    for port in ports {
        assert!(port::Claim::on(port).is_none());
    }
}

#[test]
fn another_server_on_the_port_is_not_mistaken_for_ours() {
    let other = RedisServer::start();
    let directory = tempfile::tempdir().unwrap();
    let port = other.port();
    assert!(Process::start(&Builder::default(), port, directory.path()).is_err());
}

#[test]
#[should_panic(expected = "redis-server ended with")]
fn a_bad_option_is_told() {
    let _ = RedisServer::builder()
        .args(["--no-such-option", "1"])
        .start();
}

#[tokio::test]
async fn a_monitor_records_in_order() {
    let server = RedisServer::start();
    let monitor = server.monitor();
    let mut connection = server.connect().await;
    for word in ["one", "two"] {
        let said: String = redis::cmd("ECHO")
            .arg(word)
            .query_async(&mut connection)
            .await
            .unwrap();
        assert_eq!(said, word);
    }
    let settled = monitor.settled().await;
    let echoes: Vec<_> = settled
        .iter()
        .filter(|line| line.contains("ECHO"))
        .collect();
    assert_eq!(echoes.len(), 2, "{settled:#?}");
    assert!(echoes[0].ends_with(r#""ECHO" "one""#), "{echoes:?}");
    assert_eq!(monitor.lines(), settled);
}

#[tokio::test]
async fn a_monitor_waits_for_what_is_to_come() {
    let server = RedisServer::start();
    let monitor = server.monitor();
    let (line, _) = tokio::join!(
        monitor.wait_for("\"late\"", CAP),
        server.cmd(&["GET", "late"])
    );
    assert!(line.ends_with(r#""GET" "late""#), "{line}");
}

#[tokio::test]
async fn a_dropped_monitor_is_gone() {
    let server = RedisServer::start();
    let monitors = async || {
        let clients: String = server.ask(&["CLIENT", "LIST"]).await;
        clients.matches("cmd=monitor").count()
    };
    let monitor = server.monitor();
    assert_eq!(monitors().await, 1);
    drop(monitor);
    until("the monitor has gone", CAP, async || monitors().await == 0).await;
}

#[test]
fn many_start_at_once() {
    let starts: Vec<_> = (0..8)
        .map(|_| std::thread::spawn(RedisServer::start))
        .collect();
    let servers: Vec<_> = starts.into_iter().map(|it| it.join().unwrap()).collect();
    let mut ports: Vec<_> = servers.iter().map(RedisServer::port).collect();
    ports.sort_unstable();
    ports.dedup();
    assert_eq!(ports.len(), servers.len());
}
