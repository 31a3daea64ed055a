//! One command of a batch: what it does to its key, and its name and arguments in Redis.
//!
//! Whether it may run is checked in `extras::writes`.

use std::borrow::Cow;
use std::fmt;
use std::time::Duration;

/// What one command does to its key. A closed list of commands that every server has, so that what
/// each needs and leaves is known before anything is sent.
#[derive(Clone, PartialEq)]
pub(crate) enum KeyChange {
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
impl fmt::Debug for KeyChange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl KeyChange {
    /// The command's name.
    pub(crate) fn name(&self) -> &'static str {
        match self {
            KeyChange::Set { .. } => "SET",
            KeyChange::Del => "DEL",
            KeyChange::Expire(_) => "PEXPIRE",
            KeyChange::IncrBy(_) => "INCRBY",
            KeyChange::HSet { .. } => "HSET",
            KeyChange::HDel(_) => "HDEL",
            KeyChange::HIncrBy { .. } => "HINCRBY",
            KeyChange::SAdd(_) => "SADD",
            KeyChange::SRem(_) => "SREM",
            KeyChange::ZAdd { .. } => "ZADD",
            KeyChange::ZRem(_) => "ZREM",
            KeyChange::LPush(_) => "LPUSH",
            KeyChange::RPush(_) => "RPUSH",
        }
    }

    /// The type that its key must have, if it exists; `None`: any.
    pub(crate) fn wants(&self) -> Option<Type> {
        match self {
            KeyChange::Set { .. } | KeyChange::Del | KeyChange::Expire(_) => None,
            KeyChange::IncrBy(_) => Some(Type::String),
            KeyChange::HSet { .. } | KeyChange::HDel(_) | KeyChange::HIncrBy { .. } => {
                Some(Type::Hash)
            }
            KeyChange::SAdd(_) | KeyChange::SRem(_) => Some(Type::Set),
            KeyChange::ZAdd { .. } | KeyChange::ZRem(_) => Some(Type::SortedSet),
            KeyChange::LPush(_) | KeyChange::RPush(_) => Some(Type::List),
        }
    }

    /// Whether Redis refuses it when memory is out.
    pub(crate) fn takes_memory(&self) -> bool {
        !matches!(
            self,
            KeyChange::Del
                | KeyChange::Expire(_)
                | KeyChange::HDel(_)
                | KeyChange::SRem(_)
                | KeyChange::ZRem(_)
        )
    }

    /// The arguments after name and key.
    pub(crate) fn words(&self) -> Vec<Cow<'_, [u8]>> {
        let number = |text: String| Cow::from(text.into_bytes());
        let millis = |ttl: &Duration| number(whole_millis(*ttl).to_string());
        match self {
            KeyChange::Set { value, ttl: None } => vec![value.into()],
            KeyChange::Set {
                value,
                ttl: Some(ttl),
            } => vec![value.into(), b"PX"[..].into(), millis(ttl)],
            KeyChange::Del => Vec::new(),
            KeyChange::Expire(ttl) => vec![millis(ttl)],
            KeyChange::IncrBy(by) => vec![number(by.to_string())],
            KeyChange::HSet { field, value } => vec![field.into(), value.into()],
            KeyChange::HIncrBy { field, by } => vec![field.into(), number(by.to_string())],
            KeyChange::ZAdd { member, score } => vec![number(format!("{score:?}")), member.into()],
            KeyChange::HDel(it)
            | KeyChange::SAdd(it)
            | KeyChange::SRem(it)
            | KeyChange::ZRem(it)
            | KeyChange::LPush(it)
            | KeyChange::RPush(it) => vec![it.into()],
        }
    }

    /// The time to live that it gives its key.
    pub(crate) fn ttl(&self) -> Option<Duration> {
        match self {
            KeyChange::Set { ttl, .. } => *ttl,
            KeyChange::Expire(ttl) => Some(*ttl),
            _ => None,
        }
    }
}

/// Whole milliseconds, rounded up: a positive time stays positive.
pub(crate) fn whole_millis(ttl: Duration) -> u64 {
    u64::try_from(ttl.as_micros().div_ceil(1000)).unwrap_or(u64::MAX)
}
