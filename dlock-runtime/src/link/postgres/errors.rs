//! What an error of the client library means for the caller. Its texts never repeat a statement's
//! parameters, which may hold a token.

use tokio_postgres::Error;
use tokio_postgres::error::{DbError, Severity};

use crate::link::command_error::CommandError;
use crate::values::error::{Reason, Refusal};

/// Of a statement that may have been executed if nothing says otherwise. `only_reads`: it changes nothing.
pub(super) fn of_statement(error: &Error, only_reads: bool) -> CommandError {
    match error.as_db_error() {
        Some(said) => of_answer(said),
        None if only_reads => CommandError::Unsent(ended(error)),
        None => CommandError::Unclear(ended(error)),
    }
    .read_only(only_reads)
}

/// Of an attempt to connect.
pub(super) fn of_connecting(error: &Error) -> CommandError {
    match error.as_db_error() {
        Some(said) => of_answer(said).read_only(true),
        None => CommandError::Unsent(ended(error)),
    }
}

/// Of a statement of a check in the user's transaction, which needs these rights.
pub(super) fn of_check(error: &Error, rights: &str) -> CommandError {
    match of_connecting(error) {
        CommandError::Refused(refusal @ Refusal::NoPermission, why) => {
            let needs = format_args!("{why}: the transaction's role needs {rights}");
            CommandError::Refused(refusal, Reason::new(needs))
        }
        CommandError::Refused(Refusal::ReadOnly, why) => {
            CommandError::Setup(Reason::new(format_args!(
                "{why}: a check locks rows, so begin a transaction that may write, on the primary"
            )))
        }
        CommandError::Setup(why) => CommandError::Setup(Reason::new(format_args!(
            "the transaction is not in the database of the lock, which the pool's URL names: {why}"
        ))),
        error => error,
    }
}

impl CommandError {
    /// What changed nothing is clear.
    fn read_only(self, only_reads: bool) -> Self {
        match self {
            CommandError::Unclear(why) if only_reads => CommandError::Unsent(why),
            error => error,
        }
    }
}

fn ended(error: &Error) -> Reason {
    Reason::new(format_args!("the connection to PostgreSQL: {error}"))
}

fn of_answer(said: &DbError) -> CommandError {
    let (code, message) = (said.code().code(), said.message());
    let why = Reason::new(format_args!("{message} ({code})"));
    let refused = |refusal| CommandError::Refused(refusal, why.clone());
    // The commit may be in what the server has written of its log, whatever went wrong behind it.
    if said.parsed_severity() == Some(Severity::Panic) {
        return CommandError::Unclear(why);
    }
    match code {
        "25006" => refused(Refusal::ReadOnly),
        "42501" => refused(Refusal::NoPermission),
        "53300" => refused(Refusal::TooManyClients),
        "53100" | "53200" => refused(Refusal::OutOfMemory),
        "57P03" => refused(Refusal::Loading),
        // A row or the whole statement was not had in time: nothing was changed.
        "40001" | "40P01" | "55P03" | "57014" => CommandError::Unsent(why),
        "42P01" | "42703" | "3F000" => CommandError::Setup(Reason::new(format_args!(
            "the tables of dlock are not in this database, or are of an older layout ({message}): run `dlock migrate --url …` once, as a role that may create them"
        ))),
        "3D000" => CommandError::Setup(Reason::new(format_args!(
            "{message}: create it, or name another one in the URL"
        ))),
        "26000" | "42P05" => CommandError::Setup(Reason::new(format_args!(
            "{message}: a pooler in transaction mode stands before PostgreSQL; write `?pooler=transaction` into the URL"
        ))),
        code if code.starts_with("28") => refused(Refusal::Auth),
        // The server ends, or the connection did.
        code if code.starts_with("08") || code.starts_with("57P") => CommandError::Unclear(why),
        _ => refused(Refusal::Other),
    }
}

/// Whether only another connection can succeed.
pub(super) fn ends_the_connection(error: &CommandError) -> bool {
    match error {
        CommandError::Unclear(_) => true,
        CommandError::Refused(refusal, _) => *refusal == Refusal::ReadOnly,
        _ => false,
    }
}
