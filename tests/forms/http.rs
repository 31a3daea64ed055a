//! A client for the handlers' tests: one request for each connection, and the whole response as
//! text.

use std::net::SocketAddr;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

pub(crate) async fn get(address: SocketAddr, path: &str) -> String {
    ask(address, "GET", path, "").await
}

pub(crate) async fn post(address: SocketAddr, path: &str, json: &str) -> String {
    ask(address, "POST", path, json).await
}

/// Asserts the status and the body of a response.
#[track_caller]
pub(crate) fn check(response: &str, status: u16, body: &str) {
    let right = response.starts_with(&format!("HTTP/1.1 {status} "))
        && response.ends_with(&format!("\r\n\r\n{body}"));
    assert!(right, "expected {status} {body:?}, got:\n{response}");
}

pub(crate) async fn ask(address: SocketAddr, method: &str, path: &str, json: &str) -> String {
    let mut stream = TcpStream::connect(address).await.unwrap();
    let length = json.len();
    let request = format!(
        "{method} {path} HTTP/1.1\r\nHost: test\r\nX-Shop: eu\r\nConnection: close\r\n\
         Content-Type: application/json\r\nContent-Length: {length}\r\n\r\n{json}"
    );
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut response = String::new();
    stream.read_to_string(&mut response).await.unwrap();
    response
}
