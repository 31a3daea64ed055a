//! The keys beside a lock's own: which of them ended a command, and whether the counter's numbers can
//! be its own. A script can't tell the former, because its error names no key; nothing is sent unless
//! a command has met a value of another type.

use redis::Pipeline;
use tokio::time::Instant;

use super::RedisLink;
use super::operations::left;
use crate::link::command_error::CommandError;
use crate::link::redis::errors::{self, OTHER_TYPE};
use crate::values::fence::highest_epoch;

const DECADES_AHEAD: &str = "its number is decades ahead of the server's clock";

impl RedisLink {
    /// Whether the counter can have given this lock's grant its epoch.
    pub(crate) fn believe(
        &self,
        lock: &str,
        epoch: Option<u64>,
        time: u64,
    ) -> Result<(), CommandError> {
        if epoch.is_some_and(|epoch| epoch > highest_epoch(time)) {
            let counter = self.connection.names.of(lock).counter;
            return Err(errors::companion(&counter, DECADES_AHEAD));
        }
        Ok(())
    }

    /// The error of a command about this lock, with the name of the key that is wrong. The lock's own
    /// key is not: about that a command answers.
    pub(crate) async fn blamed(
        &self,
        lock: &str,
        error: CommandError,
        until: Instant,
    ) -> CommandError {
        if !errors::is_wrong_type(&error) {
            return error;
        }
        let keys = self.connection.names.of(lock);
        let sets = if self.connection.node.is_some() {
            vec![keys.hints.text()]
        } else {
            vec![keys.queue.text(), keys.heartbeats.text()]
        };
        let mut firsts = Pipeline::new();
        for set in &sets {
            firsts.cmd("ZRANGE").arg(set).arg(0).arg(0);
        }
        let record = self.connection.names.of(lock).record();
        firsts.cmd("STRLEN").arg(&record);
        let answers = self.connection.exchange(firsts, left(until)).await;
        let Ok((answers, _)) = answers else {
            let all = [&sets[..], &[record, keys.counter.into_owned()]].concat();
            return errors::companion(&all.join(" or "), OTHER_TYPE);
        };
        let errors = answers.iter().map(errors::error_of_answer);
        let is_wrong = |it: Option<CommandError>| it.is_some_and(|it| errors::is_wrong_type(&it));
        let wrong = errors
            .zip(sets.iter().chain([&record]))
            .find_map(|(it, set)| is_wrong(it).then_some(&**set));
        errors::companion(wrong.unwrap_or(&keys.counter), OTHER_TYPE)
    }
}
