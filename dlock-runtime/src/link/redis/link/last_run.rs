//! The record of a lock's last run: noted before a body by its holder, read and removed for an
//! administrator. A release writes it, too (`operations`).
//!
//! Invariant: only a claim that holds the lock notes a run.

use std::time::Duration;

use redis::{Cmd, Value};

use super::RedisLink;
use crate::link::command_error::CommandError;
use crate::link::redis::calls;
use crate::link::redis::errors::{self, OTHER_TYPE};
use crate::link::redis::reply;
use crate::rules::commands::{Claim, NotDue, RunNote};

impl RedisLink {
    pub(crate) async fn note_run(
        &self,
        claim: &Claim,
        run: RunNote,
        within: Duration,
    ) -> Result<bool, CommandError> {
        let call = calls::note_run(claim, run);
        let noted = self.connection.script_on(&claim.key, call, within).await;
        let (reply, _) = match noted {
            Err(error) => return Err(error),
            Ok(reply) => reply,
        };
        let noted = reply::number(&reply).ok_or_else(|| reply::unexpected("note_run", &reply))?;
        Ok(noted == 1)
    }

    pub(crate) async fn last_run(
        &self,
        lock: &str,
        within: Duration,
    ) -> Result<Option<NotDue>, CommandError> {
        let record = self.connection.names.of(lock).record();
        let get = self.connection.reading.now().get(&record);
        let ask = [get, Cmd::pttl(&record), redis::cmd("TIME")];
        let answers = self.at_its_node(&ask, within).await;
        let mut answers = answers.into_iter();
        let mut next = || answers.next().unwrap_or(Ok(Value::Nil));
        let text = match next() {
            Err(error) if errors::is_wrong_type(&error) => {
                return Err(errors::companion(&record, OTHER_TYPE));
            }
            text => text?,
        };
        let (left, time) = (next()?, reply::time(&next()?)?);
        let stored = reply::stored_record(&text, &left, time)?;
        Ok(stored.map(|it| it.told(time)))
    }

    pub(crate) async fn clear_record(
        &self,
        lock: &str,
        within: Duration,
    ) -> Result<bool, CommandError> {
        let record = self.connection.names.of(lock).record();
        let removed = self.one_at_its_node(Cmd::del(&record), within).await?;
        let removed = reply::number(&removed).ok_or_else(|| reply::unexpected("DEL", &removed))?;
        Ok(removed == 1)
    }
}
