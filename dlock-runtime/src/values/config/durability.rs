//! How many servers must have a lease before a holder counts on it.
//!
//! Invariant: a demand that was made is at least one server, so 0 never stands for "whatever".

use std::ops::RangeInclusive;

use super::Config;

/// What `WAIT` and `WAITAOF` can be asked for.
const SERVERS: RangeInclusive<usize> = 1..=64;

/// What must have a lease, besides the master's memory; `None`: nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Durability {
    /// So many replicas.
    pub(crate) min_replicas: Option<usize>,
    /// So many append-only files, the master's among them.
    pub(crate) min_aof: Option<usize>,
}

impl Durability {
    pub(crate) fn is_asked_for(self) -> bool {
        self != Self::default()
    }
}

impl Config {
    /// Counts on a lease only once this many replicas have it: 1 to 64. Default: the master alone.
    ///
    /// Replication is asynchronous, so a replica that becomes the master may lack the lock, and
    /// grant it again beside its holder. With this setting each grant, renewal and extension is
    /// followed by a `WAIT` on a connection of its own; one `WAIT` serves all those that are
    /// answered meanwhile. A grant that too few replicas confirm is released and refused
    /// ([`Refusal::NotReplicated`](crate::Refusal::NotReplicated)), and a waiter keeps waiting; a
    /// renewal that too few confirm counts as unanswered, so the lock is lost at its deadline.
    ///
    /// Ask for all replicas if any of them may be promoted: with fewer, a replica that lacks the
    /// lock may be. This is not a consensus protocol: a replica that loses its data, or one that is
    /// made the master by hand while it is cut off, still grants again. Check fencing tokens where
    /// that is damage.
    ///
    /// Each grant costs an extra round trip, plus one between the master and a replica. Needs
    /// `WAIT` and `INFO` on the server. Refused with `memory://`, `redis+cluster://` and
    /// `redlock://`.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # async fn start() -> Result<(), dlock_runtime::LockError> {
    /// use dlock_runtime::Config;
    ///
    /// let config = Config::new("redis+sentinel://s1,s2,s3/locks").min_replicas(2);
    /// dlock_runtime::init(config).await?;
    /// # Ok(()) }
    /// ```
    ///
    /// Source: [`WAIT`](https://redis.io/docs/latest/commands/wait/).
    pub fn min_replicas(self, replicas: usize) -> Self {
        self.set("min_replicas", in_range(replicas), |it, replicas| {
            it.durability.min_replicas = Some(replicas);
        })
    }

    /// Counts on a lease only once it is in this many append-only files on disk, the master's among
    /// them: 1 to 64. Default: none.
    ///
    /// It works as [`min_replicas`](Self::min_replicas), with `WAITAOF`, and protects against
    /// servers that lose confirmed writes when a machine, or all of them at once, lose power. With
    /// `appendfsync everysec` each grant and each renewal then takes up to a second, so raise
    /// [`command_timeout`](Self::command_timeout) to 3 s at least, or set `appendfsync always`.
    ///
    /// Needs Redis 7.2, Valkey or Redict, with `appendonly yes` on that many servers. Refused with
    /// `memory://`, `redis+cluster://` and `redlock://`.
    ///
    /// Source: [`WAITAOF`](https://redis.io/docs/latest/commands/waitaof/).
    pub fn min_aof(self, servers: usize) -> Self {
        self.set("min_aof", in_range(servers), |it, servers| {
            it.durability.min_aof = Some(servers);
        })
    }
}

fn in_range(servers: usize) -> Result<usize, String> {
    let why = || "out of range; give 1 to 64, or leave it out".to_owned();
    SERVERS
        .contains(&servers)
        .then_some(servers)
        .ok_or_else(why)
}
