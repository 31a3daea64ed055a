//! How much is read of a string at a lock's key. A stranger's may be huge: reading it whole stalls the
//! server, and an answer with all of it breaks the connection that all locks of a pool share. So
//! `GETRANGE` takes the place of `GET`: it costs a tenth more, and `STRLEN` in front of `GET` half as
//! much again. The right to it is optional; each connection asks once whether its user has it, so
//! that `ACL LOG` has one entry for a user without it, and not one a call.
//!
//! The beginning of an absent string is empty, as that of an empty one: who reads must tell them
//! apart by their time to live.

use std::sync::atomic::{AtomicBool, Ordering};

use redis::{Cmd, RedisResult, Value};

use crate::extras::server_check::rights::Why;
use crate::rules::lua;
use crate::values::entry::LONGEST;

/// What is read of a string.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reads {
    Whole,
    /// Up to the byte behind the longest that a lock's key has of ours.
    Beginning,
}

impl Reads {
    /// Whether the user may read a beginning, by the command's answer.
    pub(super) fn question(key: &str) -> Cmd {
        Self::Beginning.get(key)
    }

    /// Any other refusal comes after the user's right was checked.
    pub(super) fn by(answer: &RedisResult<Value>) -> Self {
        match answer {
            Err(error) if Why::of(&error.to_string()).is_some() => Self::Whole,
            _ => Self::Beginning,
        }
    }

    /// Reads the string at a key.
    pub(crate) fn get(self, key: &str) -> Cmd {
        match self {
            Self::Whole => Cmd::get(key),
            Self::Beginning => Cmd::getrange(key, 0, LONGEST.cast_signed()),
        }
    }

    /// The same of a script's text, which reads the whole string.
    pub(super) fn in_script(self, text: &str) -> String {
        match self {
            Self::Whole => text.to_owned(),
            Self::Beginning => lua::reading_beginnings(text),
        }
    }
}

/// What one connection reads.
#[derive(Debug)]
pub(crate) struct ReadingMode {
    is_whole: AtomicBool,
}

impl ReadingMode {
    pub(super) fn of(reads: Reads) -> Self {
        Self {
            is_whole: AtomicBool::new(reads == Reads::Whole),
        }
    }

    pub(crate) fn now(&self) -> Reads {
        if self.is_whole.load(Ordering::Relaxed) {
            Reads::Whole
        } else {
            Reads::Beginning
        }
    }

    /// The user lost the right.
    pub(super) fn was_refused(&self) {
        self.is_whole.store(true, Ordering::Relaxed);
    }
}
