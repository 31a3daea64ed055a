//! What reached a server, as the server prints it: a MONITOR on a connection of its own.

use std::net::{Shutdown, SocketAddr, TcpStream};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use super::RedisServer;
use super::raw::RawClient;
use crate::lines::Lines;

/// Records every command that the server executes, scripts' inner commands included, from
/// [`RedisServer::monitor`] until it is dropped.
///
/// A line reads `1700000000.123456 [0 127.0.0.1:5000] "SET" "key" "value"`, with `lua` instead of
/// the address inside a script. The harness's own queries are recorded as well.
#[derive(Debug)]
#[must_use = "dropping it ends the recording"]
pub struct Monitor {
    addr: SocketAddr,
    password: Option<String>,
    stream: TcpStream,
    lines: Lines,
}

impl RedisServer {
    /// Starts to record: every command that is executed after this call returned is in the record.
    pub fn monitor(&self) -> Monitor {
        let password = self.settings.password.clone();
        let mut client = connect(self.addr(), password.as_deref());
        let reply = client.line(&["MONITOR"]).expect("MONITOR");
        assert_eq!(reply, "+OK", "MONITOR");
        let reader = client.into_reader().expect("the monitor's socket");
        Monitor {
            addr: self.addr(),
            password,
            stream: reader.get_ref().try_clone().expect("the monitor's socket"),
            lines: Lines::collect(reader),
        }
    }
}

impl Monitor {
    /// The lines that have arrived so far. A command that was just answered may still be on its
    /// way: see [`settled`](Self::settled).
    #[must_use]
    pub fn lines(&self) -> Vec<String> {
        let all = self.lines.all();
        all.into_iter().filter(|line| !is_mark(line)).collect()
    }

    /// The lines, complete up to now: they contain everything that the server answered before this
    /// call.
    pub async fn settled(&self) -> Vec<String> {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let mark = format!("{MARK}{}", COUNT.fetch_add(1, Ordering::Relaxed));
        connect(self.addr, self.password.as_deref())
            .line(&["ECHO", &mark])
            .expect("ECHO");
        let quoted = format!("\"{mark}\"");
        let fits = |line: &str| line.contains(&quoted);
        let (end, _) = self.lines.find(&mark, 0, CAP, fits).await;
        let all = self.lines.all().into_iter().take(end);
        all.filter(|line| !is_mark(line)).collect()
    }

    /// The first line of the whole record that contains `pattern`, which may still be to come.
    /// Panics after the (scaled) cap.
    pub async fn wait_for(&self, pattern: &str, cap: Duration) -> String {
        let what = format!("monitor line with {pattern:?}");
        let fits = |line: &str| line.contains(pattern) && !is_mark(line);
        self.lines.find(&what, 0, cap, fits).await.1
    }
}

impl Drop for Monitor {
    fn drop(&mut self) {
        // Ends the collecting thread; fails if the server is gone, which has ended it already.
        let _ = self.stream.shutdown(Shutdown::Both);
    }
}

const MARK: &str = "dlock-harness-mark-";
const CAP: Duration = Duration::from_secs(10);

fn is_mark(line: &str) -> bool {
    line.contains(MARK)
}

fn connect(addr: SocketAddr, password: Option<&str>) -> RawClient {
    let mut client = RawClient::connect(addr).expect("connect to redis-server");
    if let Some(password) = password {
        assert_eq!(client.line(&["AUTH", password]).expect("AUTH"), "+OK");
    }
    client
}
