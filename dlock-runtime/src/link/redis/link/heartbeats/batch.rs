//! Builds and sends one command with many heartbeats. Entries of the same lock are adjacent, so
//! that the script reads each lock once. An entry that this command can't answer is told to poll.

use std::collections::BTreeMap;

use redis::Cmd;

use super::{HeartbeatItem, Heartbeats};
use crate::link::command_error::CommandError;
use crate::link::redis::names::Names;
use crate::link::redis::reply;
use crate::link::redis::scripts::{self, CallBy};
use crate::rules::commands::Polled;
use crate::values::error::Refusal;
use crate::values::moment::Moment;

impl Heartbeats {
    /// Answers every item of the batch, unless the connection's runtime ends.
    pub(super) async fn send(&self, batch: Vec<HeartbeatItem>) {
        let groups = HeartbeatGroups::of(batch);
        if groups.items() < 2 {
            return groups.answer(|_| Ok(None)); // a poll of its own costs the same and tells more
        }
        let until = groups.all().map(|it| it.until).max();
        let within = until.map_or_else(Default::default, |until| {
            until.saturating_duration_since(tokio::time::Instant::now())
        });
        let names = &self.connection.names;
        let reply = self
            .connection
            .run(within, |by| groups.command(by, names))
            .await
            .and_then(|(reply, sent)| Ok((reply::heartbeat(&reply, &groups.sizes())?, sent)));
        match reply {
            Ok(((time, answers), sent)) => self.hand_out(groups, time, answers, sent),
            // Perhaps the user has no right to only one of the keys: each entry polls by itself.
            Err(CommandError::Refused(Refusal::NoPermission, _)) => groups.answer(|_| Ok(None)),
            Err(error) => groups.answer(|_| Err(error.clone())),
        }
    }

    fn hand_out(
        &self,
        groups: HeartbeatGroups,
        time: u64,
        answers: Vec<Option<Polled>>,
        sent: Moment,
    ) {
        self.connection.heard_time(time, sent);
        let mut answers = answers.into_iter();
        groups.answer(|_| Ok(answers.next().flatten()));
    }
}

/// The items by lock, and by whether they wait for an exclusive lock or for one of many holders.
struct HeartbeatGroups(Vec<Vec<HeartbeatItem>>);

impl HeartbeatGroups {
    /// Leaves out the items whose callers have gone.
    fn of(batch: Vec<HeartbeatItem>) -> Self {
        let mut groups = BTreeMap::<_, Vec<HeartbeatItem>>::new();
        for item in batch.into_iter().filter(|it| !it.answer.is_closed()) {
            let is_shared = item.claim.kind().is_shared();
            let group = groups.entry((item.claim.key.clone(), is_shared));
            group.or_default().push(item);
        }
        Self(groups.into_values().collect())
    }

    fn all(&self) -> impl Iterator<Item = &HeartbeatItem> {
        self.0.iter().flatten()
    }

    fn items(&self) -> usize {
        self.0.iter().map(Vec::len).sum()
    }

    fn sizes(&self) -> Vec<usize> {
        self.0.iter().map(Vec::len).collect()
    }

    fn command(&self, by: CallBy, names: &Names) -> Cmd {
        let bytes = |it: &HeartbeatItem| 4 * it.claim.key.len() + 2 * it.claim.value.len();
        let words = 2 + 4 * self.0.len() + self.items();
        let mut command = scripts::HEARTBEAT.called(by, words, self.all().map(bytes).sum());
        let first = self.all().next();
        let counter = first.map(|it| names.of(&it.claim.key).counter);
        let counter = counter.unwrap_or_default(); // there is a first one
        let absent = names.absent(&counter);
        command.arg(1 + 3 * self.0.len() + usize::from(absent.is_some()));
        command.arg(&*counter);
        let mut name = String::new();
        for group in &self.0 {
            let Some(HeartbeatItem { claim, .. }) = group.first() else {
                continue; // no group is empty
            };
            let keys = names.of(&claim.key);
            command.arg(&*claim.key);
            command.arg(keys.queue.text_in(&mut name));
            command.arg(keys.heartbeats.text_in(&mut name));
        }
        command.arg(absent);
        command.arg(self.sizes());
        for item in self.all() {
            command.arg(&*item.claim.value);
        }
        command
    }

    fn answer(self, mut outcome: impl FnMut(&HeartbeatItem) -> super::HeartbeatOutcome) {
        for item in self.0.into_iter().flatten() {
            let outcome = outcome(&item);
            let _ = item.answer.send(outcome); // fails if its caller has gone
        }
    }
}
