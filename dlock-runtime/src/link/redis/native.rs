//! The server's own compare-and-delete command, if it has one: `DELEX key IFEQ value` (Redis 8.4)
//! or `DELIFEQ key value` (Valkey 9). Each connection asks once for it. It is never required:
//! unless it answers that it deleted the key, the release continues with GET and DEL.

use std::sync::atomic::{AtomicBool, Ordering};

use redis::{Cmd, Value};

/// A command that deletes a key if the key has a given value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Native {
    Delex,
    Delifeq,
}

impl Native {
    const ALL: [Self; 2] = [Self::Delex, Self::Delifeq];

    fn name(self) -> &'static str {
        match self {
            Self::Delex => "DELEX",
            Self::Delifeq => "DELIFEQ",
        }
    }

    /// Asks for the commands and not for the server's version, because forks number versions in
    /// their own way.
    pub(super) fn question() -> Cmd {
        let mut question = redis::cmd("COMMAND");
        question.arg("INFO").arg(&Self::ALL.map(Self::name));
        question
    }

    /// Deletes the key if it has this value.
    pub(crate) fn deletes(self, key: &str, value: &str) -> Cmd {
        let mut command = redis::cmd(self.name());
        command.arg(key);
        if self == Self::Delex {
            command.arg("IFEQ");
        }
        command.arg(value);
        command
    }

    /// Reads the answer: a description of each command that exists, nothing for the others. An
    /// error, or an answer that a proxy made up, counts as none.
    pub(super) fn among(answer: &Value) -> Option<Self> {
        let Value::Array(items) = answer else {
            return None;
        };
        if items.len() != Self::ALL.len() {
            return None;
        }
        let is_there = |item: &Value| matches!(item, Value::Array(words) if !words.is_empty());
        let first = items.iter().position(is_there)?;
        Self::ALL.get(first).copied()
    }
}

/// The command that one connection's releases delete with.
#[derive(Debug)]
pub(crate) struct Deletes {
    native: Option<Native>,
    /// A call of the native command was refused, and not because of the value at the key. Most
    /// likely the user has no right to it, so each further call would fail and add to the server's
    /// `ACL LOG`.
    refused: AtomicBool,
}

impl Deletes {
    pub(super) fn by(native: Option<Native>) -> Self {
        Self {
            native,
            refused: AtomicBool::new(false),
        }
    }

    /// The server's command, even if its calls were refused.
    pub(super) fn known(&self) -> Option<Native> {
        self.native
    }

    pub(crate) fn native(&self) -> Option<Native> {
        let is_refused = self.refused.load(Ordering::Relaxed);
        self.native.filter(|_| !is_refused)
    }

    /// Notes the answer to an exclusive release; a list that ends with 1 says that its native call
    /// was refused (`lua/release.lua`).
    pub(super) fn answered(&self, reply: &Value) {
        if matches!(reply, Value::Array(items) if items.get(3) == Some(&Value::Int(1))) {
            self.was_refused();
        }
    }

    pub(crate) fn was_refused(&self) {
        self.refused.store(true, Ordering::Relaxed);
    }
}
