//! A client for the handlers' tests: one request for each connection, and the whole response as
//! text; and a table of requests.

use std::net::SocketAddr;

use dlock_runtime::LockPool;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

/// Rows of `request | response | key | response while another has that key's lock`. A busy key
/// does not change the response to the row before, which has another; after its release the
/// response is the first again.
pub(crate) async fn check_rows(rows: &str, address: SocketAddr, pool: &LockPool) {
    let mut before = None;
    for row in rows.lines().filter(|row| !row.is_empty()) {
        let &[request, free, key, busy] = row.split(" | ").collect::<Vec<_>>().as_slice() else {
            panic!("no row: {row}");
        };
        check(&ask(address, request).await, free);
        let held = pool.lock(key).acquire().await.unwrap();
        check(&ask(address, request).await, busy);
        if let Some((request, free)) = before.replace((request, free)) {
            check(&ask(address, request).await, free);
        }
        held.release().await.unwrap();
        check(&ask(address, request).await, free);
    }
}

/// Asserts the status and the body of a response, which may be `*`: any.
#[track_caller]
pub(crate) fn check(response: &str, expected: &str) {
    let (status, body) = expected.split_once(' ').unwrap_or((expected, ""));
    let right = response.starts_with(&format!("HTTP/1.1 {status} "))
        && (body == "*" || response.ends_with(&format!("\r\n\r\n{body}")));
    assert!(right, "expected {expected:?}, got:\n{response}");
}

/// Sends `METHOD /path body`.
pub(crate) async fn ask(address: SocketAddr, request: &str) -> String {
    let mut parts = request.splitn(3, ' ');
    let [method, path, body] = std::array::from_fn(|_| parts.next().unwrap_or_default());
    let mut stream = TcpStream::connect(address).await.unwrap();
    let length = body.len();
    let request = format!(
        "{method} {path} HTTP/1.1\r\nHost: test\r\nX-Shop: eu\r\nConnection: close\r\n\
         Content-Type: application/json\r\nContent-Length: {length}\r\n\r\n{body}"
    );
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut response = String::new();
    stream.read_to_string(&mut response).await.unwrap();
    response
}
