//! TLS that works: what an eavesdropper sees, certificates that are replaced while a pool lives,
//! the system's CAs, and a connection that the program opens itself.

use std::io;
use std::pin::Pin;
use std::process::Command;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::Duration;

use dlock_harness::{Authority, Child, RedisServer, until};
use dlock_runtime::{LockError, LockPool, Refusal};
use dlock_tests::patient;
use dlock_tests::served::with_tls;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;

const CAP: Duration = Duration::from_secs(20);

/// Takes and gives back a lock.
async fn works(pool: &LockPool) -> Result<(), LockError> {
    pool.lock("item:7").acquire().await?.release().await?;
    Ok(())
}

/// A stream that keeps a copy of all that is written and read.
struct Tapped {
    stream: TcpStream,
    heard: Arc<Mutex<Vec<u8>>>,
}

impl AsyncRead for Tapped {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = into.filled().len();
        let read = Pin::new(&mut self.stream).poll_read(cx, into);
        self.heard.lock().unwrap().extend(&into.filled()[before..]);
        read
    }
}

impl AsyncWrite for Tapped {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.heard.lock().unwrap().extend(bytes);
        Pin::new(&mut self.stream).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

/// What an eavesdropper hears of a lock, its password and its names.
async fn eavesdropped(url: String, server: &RedisServer, port: u16) -> Vec<u8> {
    let heard = Arc::<Mutex<Vec<u8>>>::default();
    let tap = heard.clone();
    let config = patient(url).connector(move |host, _| {
        let heard = tap.clone();
        async move {
            let stream = TcpStream::connect((host, port)).await?;
            Ok(Tapped { stream, heard })
        }
    });
    works(&LockPool::connect(config).await.unwrap())
        .await
        .unwrap();
    assert_eq!(server.keys().await, ["lock:@fence"]);
    let heard = heard.lock().unwrap().clone();
    assert!(heard.len() > 1_000, "{}", heard.len());
    heard
}

fn contains(heard: &[u8], text: &str) -> bool {
    heard.windows(text.len()).any(|it| it == text.as_bytes())
}

/// The port of the URL does not exist: the connector goes where it wants.
#[tokio::test]
async fn an_eavesdropper_reads_nothing_over_a_connector_of_the_programs_own() {
    let (server, authority) = with_tls();
    server
        .cmd(&[
            "ACL",
            "SETUSER",
            "ann",
            "on",
            ">open-sesame",
            "~*",
            "&*",
            "+@all",
        ])
        .await;
    let ca = authority.file();
    for (url, port, is_plain) in [
        (
            "redis://ann:open-sesame@localhost:1".to_owned(),
            server.port(),
            true,
        ),
        (
            format!(
                "rediss://ann:open-sesame@localhost:1?tls_ca={}",
                ca.display()
            ),
            server.tls_addr().unwrap().port(),
            false,
        ),
    ] {
        let heard = eavesdropped(url, &server, port).await;
        for text in ["open-sesame", "lock:item:7", "lock:@grant:"] {
            assert_eq!(contains(&heard, text), is_plain, "{text}");
        }
    }
}

/// The server gets a certificate of another authority, and the client's file of trusted ones is
/// replaced: an open connection goes on, the next one is made with the new file.
#[tokio::test]
async fn certificates_that_are_replaced_are_read_at_the_next_connect() {
    let (server, authority) = with_tls();
    let trusted = authority.write("trusted.pem", &read(&authority));
    let url = format!("rediss://{}", server.tls_addr().unwrap());
    let pool = LockPool::connect(patient(url).tls_ca(&trusted))
        .await
        .unwrap();

    let successor = Authority::new();
    let identity = successor.issue("server", &["127.0.0.1"]);
    let text = |file: &std::path::Path| std::fs::read_to_string(file).unwrap();
    let _ = authority.write("server-key.pem", &text(&identity.key));
    let replaced = authority.write("server.pem", &text(&identity.certificate));
    // The server reads all its files again when the name of one changes.
    let renamed = replaced.with_file_name("./server.pem");
    let words = ["CONFIG", "SET", "tls-cert-file", renamed.to_str().unwrap()];
    server.cmd(&words).await;
    works(&pool).await.unwrap();

    server.cmd(&["CLIENT", "KILL", "TYPE", "pubsub"]).await;
    until("the connection has ended", CAP, async || {
        match works(&pool).await {
            Err(LockError::Refused {
                reason: Refusal::Certificate,
                ..
            }) => true,
            Ok(()) | Err(LockError::Unavailable { .. }) => false,
            Err(other) => panic!("{other:?}"),
        }
    })
    .await;
    assert_eq!(authority.write("trusted.pem", &read(&successor)), trusted);
    until("it connects again", CAP, async || {
        works(&pool).await.is_ok()
    })
    .await;
}

fn read(authority: &Authority) -> String {
    std::fs::read_to_string(authority.file()).unwrap()
}

/// Without `tls_ca` the system's CAs count, here those of a variable that stands in for them.
#[tokio::test]
async fn the_systems_authorities_count_and_a_system_without_any_is_told() {
    let (server, authority) = with_tls();
    let url = format!("rediss://{}", server.tls_addr().unwrap());
    let worker = env!("CARGO_BIN_EXE_worker");
    let words = ["hold", &url, "ttl_ms=60000"];
    let ca = authority.file();
    let empty = authority.directory().join("empty");
    std::fs::create_dir(&empty).unwrap();
    let only = |file: &std::path::Path| {
        [
            ("SSL_CERT_FILE", file.to_owned()),
            ("SSL_CERT_DIR", empty.clone()),
        ]
    };
    let mut child = Child::spawn(worker, words, only(&ca));
    child.expect_line("held ", CAP).await;
    child.kill();

    let none = authority.write("none.pem", "");
    let child = Command::new(worker).args(words).envs(only(&none)).output();
    let said = String::from_utf8(child.unwrap().stderr).unwrap();
    assert!(
        said.contains("Config") && said.contains("install `ca-certificates`"),
        "{said}"
    );
}
