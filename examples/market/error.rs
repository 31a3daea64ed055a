//! Why the example failed. What a buyer or a seller is told, such as "already sold", is an outcome
//! and not in here.

use std::error::Error;
use std::io;
use std::path::PathBuf;

use dlock_runtime::LockError;

use super::audit::Violations;
use super::load::Size;

#[derive(Debug, thiserror::Error)]
pub(crate) enum MarketError {
    #[error(
        "{0}; arguments: [--seconds 1-60] [--way watch|market|item] [--svg FILE]; --help explains them"
    )]
    Arguments(String),
    #[error("there is no server to run on")]
    Server(#[source] Box<dyn Error + Send + Sync>),
    #[error("several connections need a server: DLOCK_URL=redis://…")]
    Memory,
    #[error(transparent)]
    Lock(#[from] LockError),
    /// The lock was taken, or the way has none: one of the marketplace's own commands failed.
    #[error("redis did not do what the marketplace asked")]
    Redis(#[from] redis::RedisError),
    #[error("{way}, {size}: the books do not balance: {found}")]
    Books {
        way: &'static str,
        size: Size,
        found: Violations,
    },
    #[error("a seller or a buyer did not end properly")]
    Task(#[from] tokio::task::JoinError),
    #[error("the chart can't be drawn")]
    Draw(#[from] charts_rs::Error),
    #[error("the chart can't be written to {}", path.display())]
    Write { path: PathBuf, source: io::Error },
}

impl MarketError {
    /// The error and its causes, in one line.
    pub(crate) fn story(&self) -> String {
        let causes = std::iter::successors(self.source(), |&cause| cause.source());
        causes.fold(self.to_string(), |story, cause| format!("{story}: {cause}"))
    }
}
