//! What a benchmark runs on: its own server, a connection for questions to it, and the scale.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use dlock_harness::{Authority, Cluster, RedisServer};
use redis::aio::MultiplexedConnection;
use redis::io::tcp::TcpSettings;
use redis::{
    AsyncConnectionConfig, Client, IntoConnectionInfo as _, ProtocolVersion, RedisConnectionInfo,
};
use tokio::io::{AsyncRead, AsyncWrite};

use crate::Failure;
use crate::pins::Pins;
use crate::plan::Scale;
use crate::server_cost::Reading;
use crate::wire::Wire;

/// The server ends with it.
pub(crate) struct Lab {
    pub(crate) scale: Scale,
    server: RedisServer,
    /// The network between the server and the contenders, if there is one.
    wire: Option<Wire>,
    /// Of the server's certificate, if it also listens with TLS.
    authority: Option<Authority>,
    pins: Pins,
}

impl Lab {
    pub(crate) fn start(scale: Scale, pins: Pins) -> Result<Self, Failure> {
        Self::on(RedisServer::start(), scale, pins)
    }

    /// A lab whose server also listens with TLS.
    pub(crate) fn start_tls(scale: Scale, pins: Pins) -> Result<Self, Failure> {
        let authority = Authority::new();
        let identity = authority.issue("server", &["127.0.0.1"]);
        let server = RedisServer::builder().tls(&authority, &identity, false);
        let lab = Self::on(server.start(), scale, pins)?;
        let authority = Some(authority);
        Ok(Self { authority, ..lab })
    }

    fn on(server: RedisServer, scale: Scale, pins: Pins) -> Result<Self, Failure> {
        pins.server(server.pid())?;
        Ok(Self {
            scale,
            server,
            wire: None,
            authority: None,
            pins,
        })
    }

    /// Puts a wire that delays each way by this time before the server. The wire's process is on
    /// the server's core.
    pub(crate) fn start_far(scale: Scale, pins: Pins, each_way: Duration) -> Result<Self, Failure> {
        let near = Self::start(scale, pins)?;
        let wire = Wire::start(near.server.addr(), each_way, pins)?;
        let wire = Some(wire);
        Ok(Self { wire, ..near })
    }

    /// A lab with another server, behind a wire.
    pub(crate) fn another_far(&self, each_way: Duration) -> Result<Self, Failure> {
        Self::start_far(self.scale, self.pins, each_way)
    }

    /// A lab with another server.
    pub(crate) fn another(&self) -> Result<Self, Failure> {
        Self::start(self.scale, self.pins)
    }

    /// Puts another server's process where this one's is.
    pub(crate) fn pin(&self, pid: u32) -> Result<(), Failure> {
        self.pins.server(pid)
    }

    /// A cluster of this many masters, all on the server's core.
    pub(crate) async fn cluster(&self, masters: usize) -> Result<Cluster, Failure> {
        let cluster = Cluster::start(masters).await;
        for node in &cluster.nodes {
            self.pins.server(node.pid())?;
        }
        Ok(cluster)
    }

    /// The address for the contenders.
    pub(crate) fn url(&self) -> String {
        let far = self.wire.as_ref().map(Wire::url);
        far.unwrap_or_else(|| self.server.url())
    }

    /// The address with TLS, and the file of the CA that signed the server's certificate.
    pub(crate) fn tls(&self) -> Option<(SocketAddr, PathBuf)> {
        Some((self.server.tls_addr()?, self.authority.as_ref()?.file()))
    }

    /// The URL with TLS.
    pub(crate) fn tls_url(&self) -> Option<String> {
        self.server.tls_url()
    }

    /// A chapter's title, with the delay of the wire.
    pub(crate) fn title(&self, title: &str) -> String {
        let far = self.wire.as_ref().map(Wire::name);
        far.map_or(title.to_owned(), |far| format!("{title}, {far}"))
    }

    pub(crate) fn wire(&self) -> Option<&Wire> {
        self.wire.as_ref()
    }

    /// A connection for what is not measured; it bypasses the wire.
    pub(crate) async fn control(&self) -> Result<Control, Failure> {
        self.control_of(&[]).await
    }

    /// The same to these servers; to the lab's own, if there are none.
    pub(crate) async fn control_of(&self, servers: &[String]) -> Result<Control, Failure> {
        let own = self.server.url();
        let (first, others) = servers.split_first().unwrap_or((&own, &[]));
        let first = connect(first).await?;
        let mut rest = Vec::new();
        for server in others {
            rest.push(connect(server).await?);
        }
        Ok(Control(first, rest))
    }
}

/// Connects with RESP3 and without a client timeout, as dlock does. The socket keeps the default of
/// the `redis` crate, Nagle's algorithm: bytes wait until those before them are acknowledged. Over
/// loopback this is the faster way, if either is.
pub(crate) async fn connect(url: &str) -> Result<MultiplexedConnection, Failure> {
    connect_by(url, TcpSettings::default()).await
}

/// Connects with `TCP_NODELAY`, as dlock does: over a network an acknowledgement comes only with
/// the next answer, a round trip later.
pub(crate) async fn connect_far(url: &str) -> Result<MultiplexedConnection, Failure> {
    connect_by(url, TcpSettings::default().set_nodelay(true)).await
}

async fn connect_by(url: &str, socket: TcpSettings) -> Result<MultiplexedConnection, Failure> {
    let info = url.into_connection_info()?.set_tcp_settings(socket);
    let settings = info.redis_settings().clone();
    let settings = settings.set_protocol(ProtocolVersion::RESP3);
    let client = Client::open(info.set_redis_settings(settings))?;
    Ok(client
        .get_multiplexed_async_connection_with_config(&patient())
        .await?)
}

/// Speaks RESP3 without a client timeout over this stream, from a task of its own.
pub(crate) async fn connect_over(
    stream: impl AsyncRead + AsyncWrite + Send + Unpin + 'static,
) -> Result<MultiplexedConnection, Failure> {
    let settings = RedisConnectionInfo::default().set_protocol(ProtocolVersion::RESP3);
    let made = MultiplexedConnection::new_with_config(&settings, stream, patient());
    let (connection, driver) = made.await?;
    tokio::spawn(driver);
    Ok(connection)
}

fn patient() -> AsyncConnectionConfig {
    AsyncConnectionConfig::new()
        .set_connection_timeout(None)
        .set_response_timeout(None)
}

/// µs since 1970: the year 2255.
const FOR_EVER: u64 = 9_000_000_000_000_000;

/// The first of the servers, which is asked and told everything, and the others, which are only
/// read.
pub(crate) struct Control(MultiplexedConnection, Vec<MultiplexedConnection>);

impl Control {
    /// What all servers have done so far.
    pub(crate) async fn reading(&mut self) -> Result<Reading, Failure> {
        let mut ask = redis::pipe(); // by one write, so that it is one read
        for section in ["cpu", "commandstats", "stats"] {
            ask.cmd("INFO").arg(section);
        }
        let mut info = String::new();
        for server in std::iter::once(&mut self.0).chain(&mut self.1) {
            info += &ask.query_async::<Vec<String>>(server).await?.concat();
        }
        Reading::parse(&info)
    }

    /// Deletes all keys: the lease of a process that has ended would block the next one.
    pub(crate) async fn clear(&mut self) -> Result<(), Failure> {
        Ok(redis::cmd("FLUSHALL").exec_async(&mut self.0).await?)
    }

    /// The number of keys, without the counter of fencing tokens.
    pub(crate) async fn keys(&mut self) -> Result<usize, Failure> {
        let (all, fences): (usize, usize) = redis::pipe()
            .cmd("DBSIZE")
            .exists("lock:@fence")
            .query_async(&mut self.0)
            .await?;
        Ok(all - fences)
    }

    /// Has a writer hold this lock, for longer than any run.
    pub(crate) async fn write_locked(&mut self, lock: &str) -> Result<(), Failure> {
        let mut add = redis::cmd("ZADD");
        add.arg(lock).arg("inf").arg("1|#|rw");
        add.arg(FOR_EVER).arg("1|w|bench||3600000|0|0||host|1|f|0");
        Ok(add.exec_async(&mut self.0).await?)
    }

    /// Has somebody hold each of these locks, for longer than any run.
    pub(crate) async fn locked(
        &mut self,
        locks: impl Iterator<Item = String>,
    ) -> Result<(), Failure> {
        let mut sets = redis::pipe();
        for lock in locks {
            let set = sets
                .cmd("SET")
                .arg(lock)
                .arg("1|x|bench||3600000|0|0||host|1|f|0");
            set.arg("PX").arg(3_600_000).ignore();
        }
        Ok(sets.exec_async(&mut self.0).await?)
    }

    /// The number of waiters for this many held locks: one each for its own lock, or all for the
    /// only one.
    pub(crate) async fn places(&mut self, locks: usize) -> Result<usize, Failure> {
        if locks > 1 {
            return Ok(self.keys().await?.saturating_sub(locks) / 2);
        }
        let mut keys = redis::cmd("KEYS");
        let queue: Vec<String> = keys.arg("lock:@w*").query_async(&mut self.0).await?;
        let mut card = redis::cmd("ZCARD");
        Ok(card
            .arg(queue.first())
            .query_async(&mut self.0)
            .await
            .unwrap_or(0))
    }

    /// The time until the server answers.
    pub(crate) async fn ping(&mut self) -> Result<Duration, Failure> {
        let begun = Instant::now();
        redis::cmd("PING").exec_async(&mut self.0).await?;
        Ok(begun.elapsed())
    }
}
