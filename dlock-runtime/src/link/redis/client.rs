//! The client library's connection on a stream: logs in, and runs its I/O task. It asks nothing of
//! the server; `connect` does, `sentinel` of a sentinel, and `cluster` of nodes that it has no
//! connection to.

use std::sync::Arc;

use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, ProtocolVersion, RedisConnectionInfo};

use super::errors;
use super::io_task::IoTask;
use super::reply_bound::{Bounded, ReplyBound};
use crate::link::command_error::CommandError;
use crate::values::config::{Credentials, Login, Stream};
use crate::values::error::{Reason, Refusal};

/// Whom to log in as; the program may have to be asked.
pub(crate) async fn credentials(login: &Login) -> Result<Credentials, CommandError> {
    login.credentials().await.map_err(|why| {
        CommandError::NoLogin(Reason::new(format_args!(
            "the provider of `Config::credentials` failed: {why}"
        )))
    })
}

/// What a refused login means: a provider may give a better one next time.
pub(crate) fn of_login(login: &Login, error: CommandError) -> CommandError {
    match error {
        CommandError::Refused(Refusal::Auth, why) if login.is_asked() => {
            CommandError::NoLogin(Reason::new(format_args!(
                "the server refuses the credentials that the provider gave: {why}"
            )))
        }
        error => error,
    }
}

/// Logs in on a stream, of which no more is read than the bound allows. The connection ends with the
/// second value. The library's own deadline of
/// each command is off: each call has ours.
pub(crate) async fn log_in(
    stream: Box<dyn Stream>,
    database: i64,
    credentials: &Credentials,
    protocol: ProtocolVersion,
    config: AsyncConnectionConfig,
    bound: &Arc<ReplyBound>,
) -> Result<(MultiplexedConnection, IoTask), CommandError> {
    let mut who = RedisConnectionInfo::default()
        .set_db(database)
        .set_protocol(protocol)
        .set_skip_set_lib_name(); // saves the right for CLIENT SETINFO
    if let Some(user) = &credentials.user {
        who = who.set_username(user);
    }
    if let Some(password) = &credentials.password {
        who = who.set_password(password.reveal());
    }
    let config = config.set_response_timeout(None);
    let stream = Bounded::new(stream, bound.clone());
    let (connection, driver) = MultiplexedConnection::new_with_config(&who, stream, config)
        .await
        .map_err(|error| bound.explain(errors::first_error(&error, protocol)))?;
    Ok((connection, IoTask::spawn(driver, bound.clone())))
}
