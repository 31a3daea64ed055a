//! A master with two replicas, watched by three sentinels, all of this program's own.
//!
//! They listen on free ports of 127.0.0.1, write into a temporary folder, and are killed by process
//! id when they are dropped. The users `holder` and `waiter` may do anything on them, until
//! [`Servers::cut_off`].

use std::collections::BTreeMap;
use std::fs;
use std::net::{Ipv4Addr, TcpListener};
use std::ops::Range;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, Client, FromRedisValue, RedisResult};
use tempfile::TempDir;
use tokio::process::{Child, Command};

use crate::{Failure, until};

/// Below the ports of outgoing connections: one of those could take a killed server's port.
const PORTS: Range<u16> = 20_000..32_000;

pub(crate) struct Servers {
    /// The first one begins as the master.
    redis: Vec<Process>,
    sentinels: Vec<Process>,
    /// Deleted last.
    _folder: TempDir,
}

impl Servers {
    /// Starts all, and returns once the sentinels know each other and the replicas.
    pub(crate) async fn start() -> Result<Self, Failure> {
        let folder = tempfile::tempdir()?;
        let master = Process::start(folder.path(), Role::Master).await?;
        let port = master.port;
        let mut servers = vec![master];
        for _ in 0..2 {
            servers.push(Process::start(folder.path(), Role::ReplicaOf(port)).await?);
        }
        // Later a sentinel would ask for new replicas only every ten seconds.
        until("the replicas follow the master", async || {
            let info: String = servers[0].ask("INFO replication").await.ok()?;
            (info.matches("state=online").count() == 2).then_some(())
        })
        .await?;
        let mut sentinels = Vec::new();
        for _ in 0..3 {
            sentinels.push(Process::start(folder.path(), Role::SentinelOf(port)).await?);
        }
        for sentinel in &sentinels {
            until(
                "the sentinels know each other and the replicas",
                async || sentinel.knows_all().await.then_some(()),
            )
            .await?;
        }
        Ok(Self {
            redis: servers,
            sentinels,
            _folder: folder,
        })
    }

    pub(crate) fn url(&self, user: &str) -> String {
        let hosts = self
            .sentinels
            .iter()
            .map(|it| format!("127.0.0.1:{}", it.port));
        let hosts = hosts.collect::<Vec<_>>().join(",");
        format!("redis+sentinel://{user}:x@{hosts}/locks?sentinel_user={user}&sentinel_pass=x")
    }

    /// Waits until both replicas have what the first master has.
    pub(crate) async fn replicated(&self) -> Result<(), Failure> {
        until("both replicas have the lock", async || {
            let master = &self.redis[0];
            // Of a connection that has written nothing `WAIT` says that all replicas have it.
            master.ask::<()>("SET probe 1 PX 1").await.ok()?;
            let replicas: u64 = master.ask("WAIT 2 1000").await.ok()?;
            (replicas == 2).then_some(())
        })
        .await
    }

    /// Kills the first master.
    pub(crate) fn kill(&mut self) -> Result<(), Failure> {
        Ok(self.redis[0].child.start_kill()?)
    }

    /// From now on the first master answers its clients, but no replica and no sentinel; and no
    /// sentinel answers `holder`.
    pub(crate) async fn cut_off(&self) -> Result<(), Failure> {
        for sentinel in &self.sentinels {
            sentinel.tell("ACL SETUSER holder off").await?;
            sentinel.tell("CLIENT KILL USER holder").await?;
        }
        // Replicas and sentinels log in as `default`, without a password.
        let master = &self.redis[0];
        master.tell("ACL SETUSER default resetpass").await?;
        master.tell("CLIENT KILL USER default").await?;
        Ok(())
    }

    /// Waits until most sentinels name one of these servers the master; returns its place.
    pub(crate) async fn agreed(&self, among: Range<usize>) -> Result<usize, Failure> {
        until("the sentinels agree on the master", async || {
            let mut votes = [0; 3];
            for sentinel in &self.sentinels {
                let named = sentinel.ask("SENTINEL GET-MASTER-ADDR-BY-NAME locks").await;
                let (_, port): (String, u16) = named.ok()?;
                let named = self.redis.iter().position(|it| it.port == port)?;
                votes[named] += 1;
            }
            among.clone().find(|server| votes[*server] >= 2)
        })
        .await
    }
}

#[derive(Clone, Copy)]
enum Role {
    Master,
    ReplicaOf(u16),
    SentinelOf(u16),
}

struct Process {
    child: Child,
    port: u16,
    redis: MultiplexedConnection,
}

impl Process {
    /// Starts it on a free port, which another program may take before it does.
    async fn start(folder: &Path, role: Role) -> Result<Self, Failure> {
        for _ in 0..10 {
            let port = fastrand::u16(PORTS);
            if TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_err() {
                continue;
            }
            let mut child = spawn(&folder.join(port.to_string()), port, role)?;
            let answered = until("a redis-server answers", async || match child.try_wait() {
                Ok(None) => connect(port, child.id()?).await.map(Some),
                _ => Some(None), // it has ended
            });
            if let Some(redis) = answered.await? {
                let process = Self { child, port, redis };
                for user in ["holder", "waiter"] {
                    let allow = format!("ACL SETUSER {user} on >x ~* &* +@all");
                    process.tell(&allow).await?;
                }
                return Ok(process);
            }
        }
        Err(
            "ten times redis-server ended when it had been started; it has to be 6.2 or newer"
                .into(),
        )
    }

    async fn ask<T: FromRedisValue>(&self, command: &str) -> RedisResult<T> {
        let mut words = command.split(' ');
        let mut command = redis::cmd(words.next().unwrap_or_default());
        command.arg(words.collect::<Vec<_>>());
        command.query_async(&mut self.redis.clone()).await
    }

    async fn tell(&self, command: &str) -> Result<(), Failure> {
        let done = self.ask::<()>(command).await;
        done.map_err(|why| format!("{command}: {why}").into())
    }

    /// Whether this sentinel knows the other two and both replicas.
    async fn knows_all(&self) -> bool {
        let known = self.ask("SENTINEL MASTER locks").await;
        let known: BTreeMap<String, String> = known.unwrap_or_default();
        let is = |name: &str, value| known.get(name).is_some_and(|it| it == value);
        is("num-other-sentinels", "2") && is("num-slaves", "2") && is("flags", "master")
    }
}

fn spawn(folder: &Path, port: u16, role: Role) -> Result<Child, Failure> {
    fs::create_dir(folder)?;
    let mut command = Command::new("redis-server");
    if let Role::SentinelOf(master) = role {
        let file = folder.join("sentinel.conf");
        // A master that has been away for half a second is replaced.
        let rules = format!(
            "sentinel monitor locks 127.0.0.1 {master} 2\n\
             sentinel down-after-milliseconds locks 500\n\
             sentinel failover-timeout locks 3000\n"
        );
        fs::write(&file, rules)?;
        command.arg(file).arg("--sentinel");
    } else {
        command
            .args(["--save", "", "--appendonly", "no"])
            .args(["--repl-diskless-sync-delay", "0"]);
    }
    if let Role::ReplicaOf(master) = role {
        command.args(["--replicaof", "127.0.0.1", &master.to_string()]);
    }
    command
        .args(["--port", &port.to_string(), "--bind", "127.0.0.1", "--dir"])
        .arg(folder)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .kill_on_drop(true);
    command.spawn().map_err(|why| {
        format!("can't start redis-server ({why}): install it, and have it on PATH").into()
    })
}

/// A connection to this process, once it answers.
async fn connect(port: u16, process: u32) -> Option<MultiplexedConnection> {
    let patient = AsyncConnectionConfig::new()
        .set_connection_timeout(Some(Duration::from_secs(1)))
        .set_response_timeout(Some(Duration::from_secs(5)));
    let client = Client::open(format!("redis://127.0.0.1:{port}")).ok()?;
    let redis = client.get_multiplexed_async_connection_with_config(&patient);
    let mut redis = redis.await.ok()?;
    let info = redis::cmd("INFO").arg("server").to_owned();
    let info: String = info.query_async(&mut redis).await.ok()?;
    let is_it = info.contains(&format!("process_id:{process}\r"));
    is_it.then_some(redis)
}
