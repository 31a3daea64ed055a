//! Which of the keys beside a lock's own ended a command: a script can't tell, because its error names
//! no key. Nothing is sent unless a command has met a value of another type.

use redis::Pipeline;
use tokio::time::Instant;

use super::RedisLink;
use super::operations::left;
use crate::backend::command_error::CommandError;
use crate::backend::redis::errors::{self, OTHER_TYPE};

impl RedisLink {
    /// The error of a command about this lock, with the name of the key that is wrong. The lock's own
    /// key is not: about that a command answers.
    pub(in crate::backend::redis) async fn blamed(
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
        let answers = self.connection.exchange(firsts, left(until)).await;
        let Ok((answers, _)) = answers else {
            let all = [&sets[..], &[keys.counter.into_owned()]].concat();
            return errors::companion(&all.join(" or "), OTHER_TYPE);
        };
        let errors = answers.iter().map(errors::error_of_answer);
        let is_wrong = |it: Option<CommandError>| it.is_some_and(|it| errors::is_wrong_type(&it));
        let wrong = errors
            .zip(&sets)
            .find_map(|(it, set)| is_wrong(it).then_some(&**set));
        errors::companion(wrong.unwrap_or(&keys.counter), OTHER_TYPE)
    }
}
