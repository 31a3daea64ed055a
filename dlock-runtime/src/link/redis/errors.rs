//! Maps an error of the server or of the socket to what it means for the caller (`CommandError`).
//! Error texts never repeat a command's arguments, which may hold a token or a password.

use redis::{ErrorKind, ProtocolVersion, RedisError, Value};

use super::scripts;
use crate::link::command_error::CommandError;
use crate::values::error::{Reason, Refusal};
use crate::values::shown::{WORDS_AT_MOST, shown};

/// The meaning of an error of a command on a live connection.
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
        // The client library's name for Redis 6's "unknown command `HELLO`".
        ErrorKind::RESP3NotSupported => CommandError::Refused(Refusal::Other, words(error)),
        // Its own words are about its parser.
        ErrorKind::Parse => CommandError::Unclear(Reason::new("what arrived is no reply of redis")),
        _ if error.is_connection_dropped() => CommandError::Unclear(Reason::new(format_args!(
            "the connection ended before the answer came ({})",
            words(error)
        ))),
        _ => CommandError::Unclear(words(error)),
    }
}

/// The error of what stands at one of dlock's own keys, beside the lock's.
pub(super) fn companion(key: &str, what: &str) -> CommandError {
    let why = Reason::new(format_args!("{key}: {what}"));
    CommandError::Refused(Refusal::Companion, why)
}

/// The same for an error that a command about this key ended with.
pub(super) fn of_companion(key: &str, error: CommandError) -> CommandError {
    if is_wrong_type(&error) {
        return companion(key, OTHER_TYPE);
    }
    error
}

pub(super) const OTHER_TYPE: &str = "a value of another type stands there";

/// Whether a command met a value of another type. Where a script looks for one, it answers without
/// an error.
pub(crate) fn is_wrong_type(error: &CommandError) -> bool {
    matches!(error, CommandError::Refused(Refusal::WrongType, said)
        if said.to_string().contains("wrong kind of value"))
}

/// Whether the master may have moved, or our password may have changed: only a new handshake can
/// tell.
pub(super) fn may_be_elsewhere(refusal: Refusal) -> bool {
    matches!(refusal, Refusal::ReadOnly | Refusal::Auth)
}

/// Whether a master that is changing places says this, before it executes anything.
pub(crate) fn is_of_a_failover(refusal: Refusal, why: &Reason) -> bool {
    match refusal {
        Refusal::ReadOnly => true,
        // Until the other replicas follow a new master; and an old one that has lost them.
        Refusal::Misconfigured => why.to_string().contains("NOREPLICAS"),
        _ => false,
    }
}

/// Whether a script of a node of a cluster ended in the middle because the keys of its slot are
/// moving.
pub(super) fn is_of_a_slot_that_moved(why: &Reason) -> bool {
    let said = why.to_string();
    ["non local key", "during rehashing", "cluster is down"]
        .iter()
        .any(|it| said.contains(it))
}

/// The error of an answer to one of several commands.
pub(crate) fn error_of_answer(answer: &Value) -> Option<CommandError> {
    match answer {
        Value::ServerError(error) => Some(command_error(&RedisError::from(error.clone()))),
        _ => None,
    }
}

/// The meaning of an error during the handshake: no command of ours has been sent yet.
pub(crate) fn handshake_error(error: &RedisError) -> CommandError {
    #[cfg(feature = "tls")]
    if let Some(refused) = super::tls::refusal_in(error) {
        return refused;
    }
    match command_error(error) {
        // The server answers connections over `maxclients` with this text, and closes them.
        CommandError::Unclear(why) if why.to_string().contains("max number of clients") => {
            CommandError::Refused(Refusal::TooManyClients, why)
        }
        // The client library omits the error code here.
        CommandError::Refused(_, why) | CommandError::Unclear(why)
            if why.to_string().contains("switch database") =>
        {
            database_refused(why)
        }
        // This may pass: a proxy whose server is down answers with a text of its own.
        CommandError::Unclear(_) if error.kind() == ErrorKind::Parse => {
            CommandError::Unsent(Reason::new(
                "what answers there does not speak redis's protocol; is it another service's port, or one for TLS?",
            ))
        }
        CommandError::Unclear(why) => CommandError::Unsent(why),
        other => other,
    }
}

pub(crate) fn is_without_right(error: &RedisError) -> bool {
    let meaning = handshake_error(error);
    matches!(meaning, CommandError::Refused(Refusal::NoPermission, _))
}

/// The same for the first command on a connection. If the connection ended without an answer, what is
/// there may not be redis: a `PostgreSQL` server ends what it takes for a startup message like that, and some
/// proxies a command that they do not know.
pub(super) fn first_error(error: &RedisError, protocol: ProtocolVersion) -> CommandError {
    match handshake_error(error) {
        CommandError::Unsent(_) if error.is_connection_dropped() => {
            let why = words(error);
            CommandError::Unsent(Reason::new(if protocol.supports_resp3() {
                format!(
                    "the first command, `HELLO`, was not answered, but the connection was ended ({why}): is it another service's port? For a proxy that does not know `HELLO`, write `protocol=resp2` into the URL"
                )
            } else {
                format!(
                    "the first command was not answered, but the connection was ended ({why}): is it another service's port?"
                )
            }))
        }
        other => other,
    }
}

/// A `SELECT` failed: the database does not exist, or a right or a password is missing.
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

/// The meaning of the error of one item in a batch, from the server's text.
pub(super) fn error_of_item(said: &str) -> CommandError {
    let code = said.split(' ').next().unwrap_or_default();
    let words = without_arguments(said);
    CommandError::Refused(refusal(code, &words.to_string()), words)
}

fn words(error: &RedisError) -> Reason {
    without_arguments(&error.to_string())
}

/// The server's text without the arguments that it repeats: a token or a password may be among
/// them.
fn without_arguments(said: &str) -> Reason {
    let end = said.find("with args beginning with").unwrap_or(said.len());
    let said = said.get(..end).unwrap_or_default();
    let said = shown(said.trim_end_matches([' ', ',']), WORDS_AT_MOST);
    let commands = commands_without_right(&said);
    if refuses_scripts(&said) {
        return Reason::new(format_args!(
            "{said}; if this server offers no scripts, set `Config::without_scripts()`"
        ));
    }
    if is_cross_slot(&said) {
        return Reason::new(format_args!(
            "{said}; if a proxy shards behind this address, set `Config::counter_per_slot()`"
        ));
    }
    if commands.is_empty() {
        return Reason::new(said);
    }
    Reason::new(format_args!("{said} ({})", commands.join(", ")))
}

/// Whether the server takes only keys of one hash slot in a command.
pub(super) fn is_cross_slot(said: &str) -> bool {
    said.contains("CROSSSLOT") || said.contains("hash to the same slot")
}

/// Whether the server refused to run a script at all: the user has no right to, or the command is
/// renamed or unknown there.
fn refuses_scripts(said: &str) -> bool {
    let said = said.to_ascii_lowercase();
    let is_refused = ["no permissions to run", "unknown command"];
    let command = ["'eval'", "'evalsha'", "`eval`", "`evalsha`"];
    is_refused.iter().any(|it| said.contains(it)) && command.iter().any(|it| said.contains(it))
}

/// The commands that the user may not run in a script. A server before 7.2 names only the script's
/// line, which does not tell the user which right is missing.
fn commands_without_right(said: &str) -> Vec<&'static str> {
    if said.contains("can't run this command") {
        scripts::commands_of_error(said)
    } else {
        Vec::new()
    }
}

/// An error of a command inside a script keeps its code, or has it in its text, depending on the
/// server's version.
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
        ("MOVED", Refusal::Cluster),
        ("ASK", Refusal::Cluster),
        ("TRYAGAIN", Refusal::Cluster),
        ("CLUSTERDOWN", Refusal::Cluster),
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
        ("NOREPLICAS", Refusal::Misconfigured),
        ("max number of clients", Refusal::TooManyClients),
    ];
    let by_code = TABLE.iter().find(|(known, _)| *known == code);
    let by_phrase = || PHRASES.iter().find(|(phrase, _)| words.contains(phrase));
    by_code
        .or_else(by_phrase)
        .map_or(Refusal::Other, |(_, refusal)| *refusal)
}
