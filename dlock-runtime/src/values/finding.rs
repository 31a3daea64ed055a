//! What a check of the server found. It decides nothing: `extras::server_check` does.

use std::fmt;

use crate::values::shown::{TEXT_AT_MOST, to_be_shown};

/// The subject of a [`Finding`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Concern {
    /// The server may delete locks when its memory is full.
    Eviction,
    /// Replication: what a master does when it is cut off from its replicas, or that the server is
    /// a replica itself.
    Replication,
    /// The server's clock: its rate, a step, or its difference from this machine's.
    Clock,
    /// The user may not call a command, or not use the namespace's keys or channels.
    Rights,
    /// Waiters get no pushes, so they poll.
    Protocol,
    /// The URL's host name reaches several servers.
    Address,
    /// The nodes of a quorum: one is unreachable, or may not vote yet.
    Quorum,
    /// The server is a node of a cluster, and is used as a single server.
    Cluster,
    /// A restart of the server loses the locks.
    Persistence,
    /// Transactions that stay open keep locks from their next holders, and old rows from being removed.
    Transactions,
    /// The server is old.
    Version,
    /// A master of a cluster can't be reached; the findings are those of the others.
    Unreachable,
    /// Something could not be examined, so nothing is known about it.
    NotChecked,
}

/// One result of [`LockPool::check`](crate::LockPool::check): what it risks, and what to do.
///
/// # Examples
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), dlock_runtime::LockError> {
/// use dlock_runtime::{Concern, LockPool};
///
/// let pool = LockPool::connect("memory://").await?;
/// for finding in pool.check().await? {
///     println!("{:?}: {}\n  {}", finding.concern(), finding.risk(), finding.advice());
///     assert_ne!(finding.concern(), Concern::Eviction);
/// }
/// # Ok(()) }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    concern: Concern,
    weight: Weight,
    /// Whether `init` logs it.
    is_logged: bool,
    risk: String,
    advice: String,
}

/// How bad it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Weight {
    /// It can give a lock two holders, or makes the server refuse calls.
    Harms,
    /// It costs something, or is often chosen on purpose.
    Matters,
}

impl Finding {
    pub(crate) fn new(
        concern: Concern,
        weight: Weight,
        risk: impl fmt::Display,
        advice: impl fmt::Display,
    ) -> Self {
        let text = |it: String| to_be_shown(it, TEXT_AT_MOST);
        Self {
            concern,
            weight,
            is_logged: true,
            risk: text(risk.to_string()),
            advice: text(advice.to_string()),
        }
    }

    /// The same, about one of several servers.
    pub(crate) fn at(mut self, node: &str) -> Self {
        self.risk = to_be_shown(format!("{node}: {}", self.risk), TEXT_AT_MOST);
        self
    }

    /// The same, but not logged by `init`: it has an event of its own, or says only that nothing is
    /// known.
    pub(crate) fn unlogged(mut self) -> Self {
        self.is_logged = false;
        self
    }

    pub(crate) fn is_logged(&self) -> bool {
        self.is_logged
    }

    pub(crate) fn weight(&self) -> Weight {
        self.weight
    }

    /// Returns whether it can give a lock two holders, or makes the server refuse calls. Other
    /// findings cost something, or are often chosen on purpose.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), dlock_runtime::LockError> {
    /// # let pool = dlock_runtime::LockPool::connect("memory://").await?;
    /// let harmful = pool.check().await?.iter().any(|finding| finding.is_harmful());
    /// assert!(!harmful, "not deployed");
    /// # Ok(()) }
    /// ```
    #[must_use]
    pub fn is_harmful(&self) -> bool {
        self.weight == Weight::Harms
    }

    /// Returns what the finding is about.
    #[must_use]
    pub fn concern(&self) -> Concern {
        self.concern
    }

    /// Returns what the server reports, and what can happen because of it.
    #[must_use]
    pub fn risk(&self) -> &str {
        &self.risk
    }

    /// Returns what to do, with the command to type if there is one; `<user>` stands for the pool's
    /// user on the server.
    #[must_use]
    pub fn advice(&self) -> &str {
        &self.advice
    }
}

/// The risk and the advice.
impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}; {}", self.risk, self.advice)
    }
}
