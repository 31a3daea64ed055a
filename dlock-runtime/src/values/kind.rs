//! The kind of lock that is requested: who may hold it at the same time.
//!
//! Plain data; `rules::set` decides what fits beside what.

use std::fmt;
use std::sync::Arc;

use super::shown::{NAME_AT_MOST, shown};

/// Who may hold a lock at the same time.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) enum Kind {
    /// One holder.
    #[default]
    Exclusive,
    /// Many readers …
    Read,
    /// … or one writer.
    Write,
    /// Up to `of` permits in all, of which this lock takes `take`.
    Permits { of: u32, take: u32 },
    /// All tasks and processes of one owner. Escaped like the description of a holder.
    Owned(Arc<str>),
}

impl Kind {
    /// As a label, without the owner's name.
    pub(crate) fn label(&self) -> &'static str {
        match self {
            Kind::Exclusive => "exclusive",
            Kind::Read => "read",
            Kind::Write => "write",
            Kind::Permits { .. } => "permits",
            Kind::Owned(_) => "owner",
        }
    }

    /// Whether its holders stand in a sorted set, each with its own expiry.
    pub(crate) fn is_shared(&self) -> bool {
        *self != Kind::Exclusive
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Kind::Exclusive => f.write_str("an exclusive lock"),
            Kind::Read | Kind::Write => f.write_str("a read/write lock"),
            Kind::Permits { of, .. } => write!(f, "a lock with {of} permits"),
            Kind::Owned(owner) => {
                let owner = shown(owner, NAME_AT_MOST); // any client may have written it to the key
                write!(f, "a reentrant lock of the owner `{owner}`")
            }
        }
    }
}
