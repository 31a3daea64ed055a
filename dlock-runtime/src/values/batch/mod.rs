//! A batch of the user's own writes, as the user built it.
//!
//! Never in this folder: a check that needs the lock ([`crate::extras::writes`] has those).

pub(crate) mod change;

use std::fmt;
use std::time::Duration;

use self::change::KeyChange;
use super::key::Key;

/// The most commands that a batch may have: all run in one step, and the server serves no other
/// client meanwhile.
pub(crate) const MOST_COMMANDS: usize = 1_000;

/// The most bytes of keys, fields and values: the locks' commands travel on the same connection.
pub(crate) const MOST_BYTES: usize = 16 << 20;

/// A few writes of your own, for [`LockGuard::write`](crate::LockGuard::write): the server applies
/// them all, in this order, if the lock is still held, and none otherwise.
///
/// Its methods are the Redis commands of the same names, one key each. A key is text, taken as it
/// is, without the pool's namespace; [`lock_key!`](crate::lock_key) builds one from values. Values
/// are bytes.
///
/// **Every key must be in the hash slot of the lock**, as in a Redis Cluster. A single server
/// requires it, too, so that code does not break on the day it moves to a cluster. Give lock and
/// data the same hash tag (`item:{7}`, `stock:{7}`), or, if the lock's key has no hash tag, put its
/// whole name into braces (`{lock:item:7}:stock`).
///
/// At most 1,000 commands and 16 MiB. There are no reads: read with your own client while you hold
/// the lock, decide, and write what depends on it here.
///
/// # Examples
///
/// ```
/// use std::time::Duration;
/// use dlock_runtime::{Batch, LockPool};
///
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), dlock_runtime::LockError> {
/// let pool = LockPool::connect("memory://").await?;
/// let lock = pool.lock("item:{7}").acquire().await?;
/// let sale = Batch::new()
///     .hset("item:{7}:state", "owner", "ann")
///     .incr_by("sold:{7}", 1)
///     .set_with_ttl("receipt:{7}", "ann", Duration::from_secs(3600));
/// lock.write(&sale).await?;
/// # lock.release().await?; Ok(()) }
/// ```
#[derive(Clone, Default, PartialEq)]
#[must_use = "nothing is written before `LockGuard::write`"]
pub struct Batch {
    pub(crate) commands: Vec<(Key, KeyChange)>,
}

impl Batch {
    /// Makes an empty batch. Writing it only [verifies](crate::LockGuard::verify) the lock.
    pub fn new() -> Self {
        Self::default()
    }

    /// Stores a value without expiry, and replaces a value of any type.
    pub fn set(self, key: impl Into<Key>, value: impl AsRef<[u8]>) -> Self {
        let value = value.as_ref().to_vec();
        self.and(key, KeyChange::Set { value, ttl: None })
    }

    /// Stores a value that expires after `ttl`, 1 ms to 100 years, and replaces a value of any
    /// type.
    pub fn set_with_ttl(self, key: impl Into<Key>, value: impl AsRef<[u8]>, ttl: Duration) -> Self {
        let value = value.as_ref().to_vec();
        let ttl = Some(ttl);
        self.and(key, KeyChange::Set { value, ttl })
    }

    /// Deletes a key of any type.
    pub fn del(self, key: impl Into<Key>) -> Self {
        self.and(key, KeyChange::Del)
    }

    /// Makes a key expire after this time: 1 ms to 100 years.
    pub fn expire(self, key: impl Into<Key>, ttl: Duration) -> Self {
        self.and(key, KeyChange::Expire(ttl))
    }

    /// Adds to a number; a missing one counts as 0. The stored number may have at most 18 digits,
    /// and a batch may add at most 8·10¹⁸ to one number, so that it can't overflow half-way.
    pub fn incr_by(self, key: impl Into<Key>, by: i64) -> Self {
        self.and(key, KeyChange::IncrBy(by))
    }

    /// Stores a field of a hash.
    pub fn hset(
        self,
        key: impl Into<Key>,
        field: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
    ) -> Self {
        let (field, value) = (field.as_ref().to_vec(), value.as_ref().to_vec());
        self.and(key, KeyChange::HSet { field, value })
    }

    /// Deletes a field of a hash.
    pub fn hdel(self, key: impl Into<Key>, field: impl AsRef<[u8]>) -> Self {
        self.and(key, KeyChange::HDel(field.as_ref().to_vec()))
    }

    /// Adds to a number in a field of a hash, bounded like [`incr_by`](Self::incr_by).
    pub fn hincr_by(self, key: impl Into<Key>, field: impl AsRef<[u8]>, by: i64) -> Self {
        let field = field.as_ref().to_vec();
        self.and(key, KeyChange::HIncrBy { field, by })
    }

    /// Adds a member to a set.
    pub fn sadd(self, key: impl Into<Key>, member: impl AsRef<[u8]>) -> Self {
        self.and(key, KeyChange::SAdd(member.as_ref().to_vec()))
    }

    /// Removes a member from a set.
    pub fn srem(self, key: impl Into<Key>, member: impl AsRef<[u8]>) -> Self {
        self.and(key, KeyChange::SRem(member.as_ref().to_vec()))
    }

    /// Gives a member of a sorted set this score, which must be a number.
    pub fn zadd(self, key: impl Into<Key>, member: impl AsRef<[u8]>, score: f64) -> Self {
        let member = member.as_ref().to_vec();
        self.and(key, KeyChange::ZAdd { member, score })
    }

    /// Removes a member from a sorted set.
    pub fn zrem(self, key: impl Into<Key>, member: impl AsRef<[u8]>) -> Self {
        self.and(key, KeyChange::ZRem(member.as_ref().to_vec()))
    }

    /// Inserts a value at the front of a list.
    pub fn lpush(self, key: impl Into<Key>, value: impl AsRef<[u8]>) -> Self {
        self.and(key, KeyChange::LPush(value.as_ref().to_vec()))
    }

    /// Appends a value to the end of a list.
    pub fn rpush(self, key: impl Into<Key>, value: impl AsRef<[u8]>) -> Self {
        self.and(key, KeyChange::RPush(value.as_ref().to_vec()))
    }

    /// Returns the number of commands.
    #[must_use]
    pub fn len(&self) -> usize {
        self.commands.len()
    }

    /// Returns whether the batch has no commands.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.commands.is_empty()
    }

    fn and(mut self, key: impl Into<Key>, change: KeyChange) -> Self {
        self.commands.push((key.into(), change));
        self
    }
}

/// Shows commands and keys; fields and values may be secret.
impl fmt::Debug for Batch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let commands = self.commands.iter();
        let shown = commands.map(|(key, change)| format!("{} {key} …", change.name()));
        f.write_str("Batch")?;
        f.debug_list().entries(shown).finish()
    }
}
