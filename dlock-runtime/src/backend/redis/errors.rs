//! What an error of the server's or the wire's means for whoever sent the command.

use redis::{ErrorKind, RedisError};

use super::scripts;
use crate::backend::command_error::CommandError;
use crate::values::error::{Reason, Refusal};
use crate::values::shown::{WORDS_AT_MOST, shown};

/// What an error of a command on a live connection means.
pub(super) fn command_error(error: &RedisError) -> CommandError {
    match error.kind() {
        ErrorKind::AuthenticationFailed => CommandError::Refused(Refusal::Auth, words(error)),
        ErrorKind::Server(_) | ErrorKind::Extension => {
            let words = words(error);
            CommandError::Refused(
                refusal(error.code().unwrap_or_default(), &words.to_string()),
                words,
            )
        }
        _ => CommandError::Unclear(words(error)),
    }
}

/// The same for an error before the connection was in use: nothing of ours was sent.
pub(super) fn handshake_error(error: &RedisError) -> CommandError {
    match command_error(error) {
        // Connections over `maxclients` are answered so, and closed.
        CommandError::Unclear(why) if why.to_string().contains("max number of clients") => {
            CommandError::Refused(Refusal::TooManyClients, why)
        }
        // The client library leaves out the code.
        CommandError::Refused(_, why) | CommandError::Unclear(why)
            if why.to_string().contains("switch database") =>
        {
            database_refused(why)
        }
        // It may pass: a proxy whose server is away answers in its own words.
        CommandError::Unclear(_) if error.kind() == ErrorKind::Parse => {
            CommandError::Unsent(Reason::new(
                "what answers there does not speak redis's protocol; is it another service's port, or one for TLS?",
            ))
        }
        CommandError::Unclear(why) => CommandError::Unsent(why),
        other => other,
    }
}

/// A `SELECT` that failed: for want of a right or of a password as well as of the database.
fn database_refused(why: Reason) -> CommandError {
    let words = why.to_string();
    if ["out of range", "invalid DB index", "invalid first DB index"]
        .iter()
        .any(|it| words.contains(it))
    {
        return CommandError::Setup(Reason::new(
            "the URL's database does not exist there: give a smaller number, or raise `databases` in its redis.conf",
        ));
    }
    CommandError::Refused(refusal("", &words), why)
}

/// The same for an error of one item among several, in the server's words.
pub(super) fn error_of_item(said: &str) -> CommandError {
    let code = said.split(' ').next().unwrap_or_default();
    let words = without_arguments(said);
    CommandError::Refused(refusal(code, &words.to_string()), words)
}

fn words(error: &RedisError) -> Reason {
    without_arguments(&error.to_string())
}

/// The server's words, less the arguments that it repeats (a token or a password may be among them).
fn without_arguments(said: &str) -> Reason {
    let end = said.find("with args beginning with").unwrap_or(said.len());
    let said = said.get(..end).unwrap_or_default();
    let said = shown(said.trim_end_matches([' ', ',']), WORDS_AT_MOST);
    let commands = commands_without_right(&said);
    if commands.is_empty() {
        return Reason::new(said);
    }
    Reason::new(format_args!("{said} ({})", commands.join(", ")))
}

/// What a user may not run of a script, for a server before 7.2 says the line, not the command. Nobody could tell which right is missing.
fn commands_without_right(said: &str) -> Vec<&'static str> {
    if said.contains("can't run this command") {
        scripts::commands_of_error(said)
    } else {
        Vec::new()
    }
}

/// Errors of commands inside a script keep their code or carry it in their text, as versions differ.
pub(super) fn refusal(code: &str, words: &str) -> Refusal {
    const TABLE: &[(&str, Refusal)] = &[
        ("READONLY", Refusal::ReadOnly),
        ("OOM", Refusal::OutOfMemory),
        ("NOPERM", Refusal::NoPermission),
        ("NOAUTH", Refusal::Auth),
        ("WRONGPASS", Refusal::Auth),
        ("WRONGTYPE", Refusal::WrongType),
        ("LOADING", Refusal::Loading),
        ("MASTERDOWN", Refusal::Loading),
        ("BUSY", Refusal::Busy),
        ("MISCONF", Refusal::Misconfigured),
        ("NOREPLICAS", Refusal::Misconfigured),
    ];
    const PHRASES: &[(&str, Refusal)] = &[
        ("The user executing the script", Refusal::NoPermission), // up to Redis 7.0
        ("ACL failure in script", Refusal::NoPermission),         // from 7.2 on
        ("OOM command not allowed", Refusal::OutOfMemory),
        ("read only replica", Refusal::ReadOnly),
        ("WRONGTYPE", Refusal::WrongType),
        ("NOPERM", Refusal::NoPermission),
        ("has no permissions", Refusal::NoPermission),
        ("Authentication required", Refusal::Auth),
        ("busy running a script", Refusal::Busy),
        ("loading the dataset", Refusal::Loading),
        ("MISCONF", Refusal::Misconfigured),
        ("max number of clients", Refusal::TooManyClients),
    ];
    let by_code = TABLE.iter().find(|(known, _)| *known == code);
    let by_phrase = || PHRASES.iter().find(|(phrase, _)| words.contains(phrase));
    by_code
        .or_else(by_phrase)
        .map_or(Refusal::Other, |(_, refusal)| *refusal)
}
