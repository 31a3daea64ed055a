//! Compare-and-delete by a command of the server's own, where it has one: `DELEX key IFEQ value` (Redis 8.4) or
//! `DELIFEQ key value` (Valkey 9). Asked for once for each connection, and never needed: a release whose call is not
//! answered by "deleted", for whatever reason, does the same by GET and DEL.

use std::sync::atomic::{AtomicBool, Ordering};

use redis::{Cmd, Value};

/// A command that deletes a key if it has a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Native {
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

    /// Which of them are there? The server's word and not its version, which forks count in their own way.
    pub(super) fn question() -> Cmd {
        let mut question = redis::cmd("COMMAND");
        question.arg("INFO").arg(&Self::ALL.map(Self::name));
        question
    }

    /// What the answer says: something of each command that is there, nothing of one that is not. An error, or what a
    /// proxy made up, is no reason to refuse a connection.
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

/// What the releases of one connection delete with.
#[derive(Debug)]
pub(super) struct Deletes {
    native: Option<Native>,
    /// A call of it was refused, and not for what stands at the key: most likely the user has no right to it, and each
    /// further one would be in vain, and in the server's `ACL LOG`.
    refused: AtomicBool,
}

impl Deletes {
    pub(super) fn by(native: Option<Native>) -> Self {
        Self {
            native,
            refused: AtomicBool::new(false),
        }
    }

    pub(super) fn native(&self) -> Option<Native> {
        let is_refused = self.refused.load(Ordering::Relaxed);
        self.native.filter(|_| !is_refused)
    }

    /// An exclusive release was answered; by a list that ends with 1, if its native call was refused (`lua/release.lua`).
    pub(super) fn answered(&self, reply: &Value) {
        if matches!(reply, Value::Array(items) if items.get(3) == Some(&Value::Int(1))) {
            self.refused.store(true, Ordering::Relaxed);
        }
    }
}
