//! The server that the command talks to: `--url` and the environment, as for the library.

use dlock_runtime::{Config, LockPool};

use crate::status::Failure;

/// The settings of the environment, with `--url` in front of `DLOCK_URL`.
pub(crate) fn config(url: Option<&str>) -> Result<Config, Failure> {
    if url.is_some_and(str::is_empty) {
        return Err(Failure::usage(
            "`--url` is empty: give the server's address, such as redis://127.0.0.1:6379, or leave it out to take DLOCK_URL",
        ));
    }
    let config = match url {
        Some(url) => Config::from_env_at(url)?,
        None => Config::from_env()?,
    };
    if dlock_runtime::__private::is_in_memory(&config) {
        return Err(Failure::usage(
            "memory:// is inside one process, where this command sees nothing: give the address of a server, such as redis://127.0.0.1:6379, by `--url` or DLOCK_URL",
        ));
    }
    Ok(config)
}

/// Where a lock was looked for, to end a sentence that finds none: perhaps it has another namespace.
pub(crate) fn place(pool: &LockPool) -> String {
    match pool.namespace() {
        "" => String::new(),
        namespace => format!(" in the namespace {namespace:?}"),
    }
}

/// A pool for that server.
pub(crate) async fn connect(url: Option<&str>) -> Result<LockPool, Failure> {
    Ok(LockPool::connect(config(url)?).await?)
}
