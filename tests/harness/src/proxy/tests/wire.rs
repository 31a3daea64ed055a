//! A client that reads and writes raw bytes.

use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::proxy::Proxy;
use crate::resp::Splitter;
use crate::server::RedisServer;
use crate::wait::within;

pub(super) const CAP: Duration = Duration::from_secs(10);

pub(super) fn lab() -> (RedisServer, Proxy) {
    let server = RedisServer::start();
    let proxy = Proxy::start(server.addr());
    (server, proxy)
}

/// One request as a client sends it.
pub(super) fn request(line: &str) -> Vec<u8> {
    let words: Vec<&str> = line.split(' ').collect();
    let head = format!("*{}\r\n", words.len());
    let bulk = |word: &str| format!("${}\r\n{word}\r\n", word.len());
    let bulks: String = words.into_iter().map(bulk).collect();
    (head + &bulks).into_bytes()
}

pub(super) struct Wire {
    stream: TcpStream,
    splitter: Splitter,
}

impl Wire {
    pub(super) async fn to(proxy: &Proxy) -> Self {
        Self::over(TcpStream::connect(proxy.addr()).await.unwrap())
    }

    fn over(stream: TcpStream) -> Self {
        let splitter = Splitter::replies();
        Self { stream, splitter }
    }

    /// Sends all of them in a single write.
    pub(super) async fn send(&mut self, lines: &[&str]) {
        let bytes: Vec<u8> = lines.iter().flat_map(|line| request(line)).collect();
        self.stream.write_all(&bytes).await.unwrap();
    }

    /// The next frame.
    pub(super) async fn reply(&mut self) -> String {
        loop {
            if let Some(frame) = self.splitter.next_frame() {
                return String::from_utf8(frame).unwrap();
            }
            let mut buffer = [0; 64];
            let read = within(CAP, self.stream.read(&mut buffer)).await;
            let length = read.expect("a reply in time").expect("a reply");
            assert_ne!(length, 0, "the connection ended");
            self.splitter.push(&buffer[..length]);
        }
    }

    pub(super) async fn ask(&mut self, line: &str) -> String {
        self.send(&[line]).await;
        self.reply().await
    }

    /// Reads until the connection ends, in whichever way.
    pub(super) async fn until_end(mut self) -> String {
        let mut all = self.splitter.take_rest();
        let mut buffer = [0; 64];
        let reading = async {
            while let Ok(length @ 1..) = self.stream.read(&mut buffer).await {
                all.extend_from_slice(&buffer[..length]);
            }
        };
        within(CAP, reading)
            .await
            .expect("the end of the connection");
        String::from_utf8(all).unwrap()
    }
}

/// Checks that a new connection ends at once, perhaps even before the client knows that it was
/// open.
pub(super) async fn assert_refused(proxy: &Proxy) {
    if let Ok(stream) = TcpStream::connect(proxy.addr()).await {
        assert_eq!(Wire::over(stream).until_end().await, "");
    }
}
