//! TLS that can't be: each side's certificate, the files, the ports. Each error says which, and
//! what to do; no plain byte of a password leaves before the server has shown who it is.

use std::time::Duration;

use dlock_harness::wait::scaled;
use dlock_harness::{Authority, Identity, RedisServer, until_blocking};
use dlock_runtime::{Config, LockError, LockPool, Refusal};
use tokio::net::TcpStream;

use crate::lab::{
    answers_no, connecting_fails, fails_at_once, misconfigured, nothing_left, patient, refused,
    unavailable,
};

const CERTIFICATE: &str = "a certificate is missing or not accepted";
const CAP: Duration = Duration::from_secs(20);
const NAMES: [&str; 2] = ["127.0.0.1", "localhost"];

/// A server with TLS whose certificate is good.
fn server(authority: &Authority) -> (RedisServer, Identity) {
    let identity = authority.issue("server", &NAMES);
    let server = RedisServer::builder()
        .tls(authority, &identity, false)
        .start();
    (server, identity)
}

fn url(server: &RedisServer) -> String {
    server.tls_url().unwrap()
}

/// The URL of the server's port with TLS, without options.
fn bare(server: &RedisServer) -> String {
    format!("rediss://{}", server.tls_addr().unwrap())
}

#[track_caller]
fn says(error: &LockError, what: &str) {
    let text = format!("{error:?}");
    assert!(text.contains(what), "{text}");
}

#[track_caller]
fn certificate(error: &LockError, what: &str) {
    refused(error, Refusal::Certificate, CERTIFICATE);
    says(error, what);
}

#[tokio::test]
async fn a_certificate_of_an_authority_that_nobody_trusts() {
    let (ours, theirs) = (Authority::new(), Authority::new());
    let (server, _) = server(&ours);
    let url = format!("{}?tls_ca={}", bare(&server), theirs.file().display());
    let error = answers_no(&url).await;
    certificate(&error, "give the CA's certificate as `tls_ca`");
    let pool = LockPool::connect(patient(&url).lazy()).await.unwrap();
    certificate(&fails_at_once(&pool).await, "signed it");
    // The system's CAs do not know it either.
    let error = LockPool::connect(patient(bare(&server))).await.unwrap_err();
    assert!(
        matches!(
            error,
            LockError::Refused {
                reason: Refusal::Certificate,
                ..
            }
        ) || error.to_string().contains("install `ca-certificates`"),
        "{error:?}"
    );
    nothing_left(&server).await;
}

#[tokio::test]
async fn a_certificate_that_has_expired_or_is_not_valid_yet() {
    let authority = Authority::new();
    for (years, advice) in [
        (2000..2020, "renew it at the server"),
        (2080..2090, "check the clocks of both machines"),
    ] {
        let identity = authority.issue_in("server", &NAMES, years);
        let server = RedisServer::builder()
            .tls(&authority, &identity, false)
            .start();
        certificate(&answers_no(url(&server)).await, advice);
    }
}

#[tokio::test]
async fn a_certificate_of_another_name_and_the_name_that_is_given() {
    let authority = Authority::new();
    let identity = authority.issue("server", &["redis.internal"]);
    let server = RedisServer::builder()
        .tls(&authority, &identity, false)
        .start();
    let error = answers_no(url(&server)).await;
    certificate(&error, "give it as `tls_server_name`");
    says(&error, "redis.internal");

    let named = format!("{}&tls_server_name=redis.internal", url(&server));
    LockPool::connect(patient(named)).await.unwrap();
    let config = patient(url(&server)).tls_server_name("redis.internal");
    LockPool::connect(config).await.unwrap();
    let config = patient(url(&server)).tls_server_name("no name");
    misconfigured(
        &LockPool::connect(config).await.unwrap_err(),
        "tls_server_name, or the host: it is neither",
    );
}

#[tokio::test]
async fn a_server_that_demands_a_certificate() {
    let (authority, stranger) = (Authority::new(), Authority::new());
    let identity = authority.issue("server", &NAMES);
    let client = authority.issue("client", &["dlock"]);
    for protocols in ["TLSv1.2", "TLSv1.3"] {
        let server = RedisServer::builder()
            .tls(&authority, &identity, true)
            .args(["--tls-protocols", protocols])
            .start();
        certificate(
            &answers_no(url(&server)).await,
            "demands a certificate of this program",
        );
        let known = patient(url(&server)).tls_identity(&client.certificate, &client.key);
        LockPool::connect(known).await.unwrap();
        let unknown = stranger.issue("client", &["dlock"]);
        let unknown = patient(url(&server)).tls_identity(unknown.certificate, unknown.key);
        certificate(
            &LockPool::connect(unknown).await.unwrap_err(),
            "does not accept this program's certificate",
        );
        let expired = authority.issue_in("expired", &["dlock"], 2000..2020);
        let expired = patient(url(&server)).tls_identity(expired.certificate, expired.key);
        certificate(
            &LockPool::connect(expired).await.unwrap_err(),
            "does not accept this program's certificate",
        );
        nothing_left(&server).await;
    }
}

#[tokio::test]
async fn a_plain_port() {
    let (authority, says_so) = (Authority::new(), "for a plain port, write `redis`");
    let server = RedisServer::builder().password("open-sesame").start();
    // A handshake has random bytes: a server takes some for the end of a line, and answers at once,
    // or waits for one.
    for _ in 0..6 {
        let ca = authority.file();
        let url = format!(
            "rediss://:open-sesame@{}?tls_ca={}",
            server.addr(),
            ca.display()
        );
        let error = connecting_fails(url).await;
        refused(&error, Refusal::Tls, "check the URL's scheme and port");
        says(&error, says_so);
    }
}

#[tokio::test]
async fn a_port_with_tls_that_is_spoken_to_in_plain() {
    let authority = Authority::new();
    let (server, _) = server(&authority);
    let addr = server.tls_addr().unwrap();
    for url in [
        format!("redis://{addr}"),
        format!("redis://user:open-sesame@{addr}/3"),
        format!("redis://:open-sesame@{addr}?protocol=resp2"),
    ] {
        let error = connecting_fails(url).await;
        refused(&error, Refusal::Tls, "check the URL's scheme and port");
        says(&error, "write `rediss` in place of `redis`");
    }
}

/// A server that is stopped looks like a plain port that waits for the end of a line. Only an
/// answer tells them apart.
#[tokio::test]
async fn a_server_with_tls_that_does_not_answer_is_unavailable() {
    let authority = Authority::new();
    let (server, _) = server(&authority);
    let url = url(&server);
    server.stop_signal();
    unavailable(&connecting_fails(&url).await);
    server.cont();
    server.kill9();
    unavailable(&connecting_fails(&url).await);
    server.restart_empty();
    LockPool::connect(patient(&url)).await.unwrap();
}

/// A program that opens its connections itself has its reasons: nothing goes around that.
#[tokio::test]
async fn a_silent_server_behind_a_connector_is_not_asked_directly() {
    let authority = Authority::new();
    let (server, _) = server(&authority);
    let plain = RedisServer::start();
    let before = plain.ask::<String>(&["INFO", "stats"]).await;
    let tunnel = server.tls_addr().unwrap();
    server.stop_signal();
    let url = format!(
        "rediss://{}?tls_ca={}",
        plain.addr(),
        authority.file().display()
    );
    let config = Config::new(url).connector(move |_, _| TcpStream::connect(tunnel));
    unavailable(&LockPool::connect(config).await.unwrap_err());
    let received = |info: &str| {
        let mut lines = info.lines();
        let line = lines.find_map(|line| line.strip_prefix("total_connections_received:"));
        line.unwrap().parse::<u64>().unwrap()
    };
    let after = plain.ask::<String>(&["INFO", "stats"]).await;
    assert_eq!(
        received(&after),
        received(&before) + 1,
        "this question's own"
    );
}

#[tokio::test]
async fn files_that_are_missing_or_are_something_else() {
    let authority = Authority::new();
    let (server, identity) = server(&authority);
    let other = authority.issue("other", &["dlock"]);
    let empty = authority.write("empty.pem", "");
    let text = authority.write("text.pem", "canary of a file's content");
    let broken = authority.write(
        "broken.pem",
        "-----BEGIN CERTIFICATE-----\ncanary/of/a/file\n-----END PRIVATE KEY-----\n",
    );
    let no_der = authority.write(
        "no-der.pem",
        "-----BEGIN CERTIFICATE-----\nY2FuYXJ5\n-----END CERTIFICATE-----\n",
    );
    let missing = authority.directory().join("missing.pem");
    let folder = authority.directory().to_owned();
    for (ca, problem) in [
        (&missing, "tls_ca: can't read"),
        (&folder, "tls_ca: can't read"),
        (&empty, "tls_ca: no certificate in PEM in"),
        (&text, "tls_ca: no certificate in PEM in"),
        (&identity.key, "tls_ca: no certificate in PEM in"),
        (&broken, "is not a whole PEM file"),
        (&no_der, "is not one of a CA"),
    ] {
        let error = answers_no(format!("{}?tls_ca={}", bare(&server), ca.display())).await;
        misconfigured(&error, problem);
        assert!(!format!("{error:?}").contains("canary"), "{error:?}");
    }
    let Identity { certificate, key } = &identity;
    for (certificate, key, problem) in [
        (&missing, key, "tls_cert: can't read"),
        (certificate, &missing, "tls_key: can't read"),
        (key, key, "tls_cert: no certificate in PEM in"),
        (
            certificate,
            certificate,
            "tls_key: no private key (an encrypted one",
        ),
        (certificate, &other.key, "tls_cert and tls_key: "),
    ] {
        let config = patient(url(&server)).tls_identity(certificate, key);
        misconfigured(&LockPool::connect(config).await.unwrap_err(), problem);
    }
    nothing_left(&server).await;
}

/// Threads of this process that read the files of certificates.
#[cfg(target_os = "linux")]
fn reading() -> usize {
    let tasks = std::fs::read_dir("/proc/self/task").unwrap();
    let names = tasks.filter_map(|it| std::fs::read_to_string(it.ok()?.path().join("comm")).ok());
    names.filter(|name| name.trim() == "dlock-files").count()
}

/// A pipe, as a disk that hangs: the call fails in time, tasks beside it run, the runtime ends, and
/// attempts do not pile up threads.
#[cfg(target_os = "linux")]
#[test]
fn a_file_that_blocks() {
    let authority = Authority::new();
    let (server, identity) = server(&authority);
    let pipe = authority.directory().join("pipe");
    let made = std::process::Command::new("mkfifo").arg(&pipe).status();
    assert!(made.unwrap().success());
    let trusts = format!("{}?tls_ca={}", bare(&server), pipe.display());
    let configs = [
        Config::new(trusts),
        Config::new(url(&server)).tls_identity(&pipe, &identity.key),
        Config::new(url(&server)).tls_identity(&identity.certificate, &pipe),
    ];
    let (ends, ended) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        let mut runtime = tokio::runtime::Builder::new_current_thread();
        let runtime = runtime.enable_all().build().unwrap();
        let errors = runtime.block_on(async {
            let mut errors = Vec::new();
            for config in configs.iter().cycle().take(3 * configs.len()) {
                let config = config.clone().connect_timeout(Duration::from_millis(300));
                let (connected, ()) = tokio::join!(
                    LockPool::connect(config),
                    tokio::time::sleep(Duration::from_millis(10))
                );
                errors.push(connected.unwrap_err());
            }
            errors
        });
        drop(runtime);
        ends.send((errors, configs.len())).unwrap();
    });
    let (errors, files) = ended.recv_timeout(scaled(CAP)).expect("it ends");
    for error in errors {
        unavailable(&error);
        says(&error, "the files of the certificates were not read within");
    }
    // Others of this process may be reading, too, but not for long.
    until_blocking("one thread for each", CAP, || reading() <= files);
}
