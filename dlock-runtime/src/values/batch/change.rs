//! One command of a batch: what it does to its key, and its name and arguments in Redis.
//!
//! Whether it may run is checked in `policy::writes`.

use std::borrow::Cow;
use std::fmt;
use std::time::Duration;

/// What one command does to its key. A closed list of commands that every server has, so that what
/// each needs and leaves is known before anything is sent.
#[derive(Clone, PartialEq)]
pub(crate) enum Change {
    Set {
        value: Vec<u8>,
        ttl: Option<Duration>,
    },
    Del,
    Expire(Duration),
    IncrBy(i64),
    HSet {
        field: Vec<u8>,
        value: Vec<u8>,
    },
    HDel(Vec<u8>),
    HIncrBy {
        field: Vec<u8>,
        by: i64,
    },
    SAdd(Vec<u8>),
    SRem(Vec<u8>),
    ZAdd {
        member: Vec<u8>,
        score: f64,
    },
    ZRem(Vec<u8>),
    LPush(Vec<u8>),
    RPush(Vec<u8>),
}

/// The type of a key, as `TYPE` names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Type {
    String,
    Hash,
    Set,
    SortedSet,
    List,
}

impl Type {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Type::String => "string",
            Type::Hash => "hash",
            Type::Set => "set",
            Type::SortedSet => "zset",
            Type::List => "list",
        }
    }
}

/// Only the name: what it writes may be secret.
impl fmt::Debug for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl Change {
    /// The command's name.
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Change::Set { .. } => "SET",
            Change::Del => "DEL",
            Change::Expire(_) => "PEXPIRE",
            Change::IncrBy(_) => "INCRBY",
            Change::HSet { .. } => "HSET",
            Change::HDel(_) => "HDEL",
            Change::HIncrBy { .. } => "HINCRBY",
            Change::SAdd(_) => "SADD",
            Change::SRem(_) => "SREM",
            Change::ZAdd { .. } => "ZADD",
            Change::ZRem(_) => "ZREM",
            Change::LPush(_) => "LPUSH",
            Change::RPush(_) => "RPUSH",
        }
    }

    /// The type that its key must have, if it exists; `None`: any.
    pub(crate) fn wants(&self) -> Option<Type> {
        match self {
            Change::Set { .. } | Change::Del | Change::Expire(_) => None,
            Change::IncrBy(_) => Some(Type::String),
            Change::HSet { .. } | Change::HDel(_) | Change::HIncrBy { .. } => Some(Type::Hash),
            Change::SAdd(_) | Change::SRem(_) => Some(Type::Set),
            Change::ZAdd { .. } | Change::ZRem(_) => Some(Type::SortedSet),
            Change::LPush(_) | Change::RPush(_) => Some(Type::List),
        }
    }

    /// Whether Redis refuses it when memory is out.
    pub(crate) fn takes_memory(&self) -> bool {
        !matches!(
            self,
            Change::Del | Change::Expire(_) | Change::HDel(_) | Change::SRem(_) | Change::ZRem(_)
        )
    }

    /// The arguments after name and key.
    pub(crate) fn words(&self) -> Vec<Cow<'_, [u8]>> {
        let number = |text: String| Cow::from(text.into_bytes());
        let millis = |ttl: &Duration| number(whole_millis(*ttl).to_string());
        match self {
            Change::Set { value, ttl: None } => vec![value.into()],
            Change::Set {
                value,
                ttl: Some(ttl),
            } => vec![value.into(), b"PX"[..].into(), millis(ttl)],
            Change::Del => Vec::new(),
            Change::Expire(ttl) => vec![millis(ttl)],
            Change::IncrBy(by) => vec![number(by.to_string())],
            Change::HSet { field, value } => vec![field.into(), value.into()],
            Change::HIncrBy { field, by } => vec![field.into(), number(by.to_string())],
            Change::ZAdd { member, score } => vec![number(format!("{score:?}")), member.into()],
            Change::HDel(it)
            | Change::SAdd(it)
            | Change::SRem(it)
            | Change::ZRem(it)
            | Change::LPush(it)
            | Change::RPush(it) => vec![it.into()],
        }
    }

    /// The time to live that it gives its key.
    pub(crate) fn ttl(&self) -> Option<Duration> {
        match self {
            Change::Set { ttl, .. } => *ttl,
            Change::Expire(ttl) => Some(*ttl),
            _ => None,
        }
    }
}

/// Whole milliseconds, rounded up: a positive time stays positive.
pub(crate) fn whole_millis(ttl: Duration) -> u64 {
    u64::try_from(ttl.as_micros().div_ceil(1000)).unwrap_or(u64::MAX)
}
