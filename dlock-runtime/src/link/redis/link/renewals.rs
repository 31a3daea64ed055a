//! Lengthens leases: those that may share a script by one call, the others by one call each, in one
//! write.

use std::collections::BTreeMap;
use std::time::Duration;

use redis::{Cmd, Value};
use tokio::time::Instant;

use super::RedisLink;
use super::operations::left;
use crate::link::command_error::CommandError;
use crate::link::redis::scripts::{self, CallBy};
use crate::link::redis::{calls, reply};
use crate::rules::commands::{Renewal, Renewed};

impl RedisLink {
    /// One answer per item, in order.
    pub(crate) async fn renew(
        &self,
        items: &[Renewal],
        within: Duration,
    ) -> Result<Vec<Renewed>, CommandError> {
        let mut groups = BTreeMap::<u16, Vec<usize>>::new();
        for (at, item) in items.iter().enumerate() {
            let group = self.connection.names.script_group(&item.claim.key);
            groups.entry(group).or_default().push(at);
        }
        let until = Instant::now() + within;
        let mut renewing = Renewing {
            link: self,
            items,
            outcomes: vec![None; items.len()],
            moving: Vec::new(),
            error: None,
            until,
        };
        if groups.len() > 1 {
            renewing.by_groups(groups.into_values().collect()).await?;
        } else {
            let counter = self.counter_of(items.iter());
            let call = |by| call(by, items.iter(), counter.as_deref());
            let renewed = self.connection.run(within, call).await;
            let renewed = renewed.and_then(|(reply, _)| self.renewed(&reply, items.len()));
            match renewed {
                Err(CommandError::Moving(why)) => {
                    renewing.failed((0..items.len()).collect(), CommandError::Moving(why));
                }
                renewed => return renewed,
            }
        }
        if !renewing.moving.is_empty() {
            Box::pin(renewing.one_by_one()).await;
        }
        renewing.ended()
    }

    /// The counter of items that share a call, if an epoch proves something about one of them. At a node
    /// each lock has its own.
    fn counter_of<'a>(&self, mut items: impl Iterator<Item = &'a Renewal>) -> Option<String> {
        let is_of_node = self.connection.node.is_some();
        let shared = items.find(|it| !is_of_node && it.claim.kind().is_shared())?;
        let of = self.connection.names.of(&shared.claim.key);
        Some(of.counter.into_owned())
    }

    fn renewed_by(&self, reply: &Value, items: usize) -> Result<Vec<Renewed>, CommandError> {
        match self.connection.error_of_answer(reply) {
            Some(error) => Err(error),
            None => self.renewed(reply, items),
        }
    }

    fn renewed(&self, reply: &Value, items: usize) -> Result<Vec<Renewed>, CommandError> {
        let outcomes = reply::renewed(reply, items)?;
        if reply::says_read_only(reply) {
            self.connection.give_up(); // the master is elsewhere
        }
        Ok(outcomes)
    }
}

/// Renewals under way that do not all go the same way.
struct Renewing<'a> {
    link: &'a RedisLink,
    items: &'a [Renewal],
    outcomes: Vec<Option<Renewed>>,
    /// Those of a slot that is moving.
    moving: Vec<usize>,
    error: Option<CommandError>,
    until: Instant,
}

impl Renewing<'_> {
    fn left(&self) -> Duration {
        left(self.until)
    }

    fn failed(&mut self, items: Vec<usize>, error: CommandError) {
        if matches!(error, CommandError::Moving(_)) {
            self.moving.extend(items);
        }
        self.error = Some(error);
    }

    /// Each group is of items that share a call. The items of a call that fails failed by
    /// themselves.
    async fn by_groups(&mut self, mut open: Vec<Vec<usize>>) -> Result<(), CommandError> {
        for by in CallBy::each(self.link.connection.reading.now()) {
            let mut calls = redis::pipe();
            for group in &open {
                let items = group.iter().filter_map(|at| self.items.get(*at));
                let counter = self.link.counter_of(items.clone());
                calls.add_command(call(by, items, counter.as_deref()));
            }
            let (replies, _) = self.link.connection.exchange(calls, self.left()).await?;
            let mut unknown = Vec::new();
            for (group, reply) in open.into_iter().zip(replies) {
                if scripts::is_unknown_by(&reply) {
                    unknown.push(group);
                    continue;
                }
                match self.link.renewed_by(&reply, group.len()) {
                    Ok(renewed) => group.iter().zip(renewed).for_each(|(at, renewed)| {
                        self.outcomes[*at] = Some(renewed);
                    }),
                    Err(error) => self.failed(group, error),
                }
            }
            open = unknown;
            if open.is_empty() {
                break;
            }
        }
        Ok(())
    }

    /// Those of a slot that is moving, each where its key is by now.
    async fn one_by_one(&mut self) {
        for by in CallBy::each(self.link.connection.reading.now()) {
            let moving = std::mem::take(&mut self.moving);
            let items = moving.iter().filter_map(|at| self.items.get(*at));
            let calls: Vec<Cmd> = items
                .map(|item| call(by, std::iter::once(item), None))
                .collect();
            let answers = self.link.at_its_node(&calls, self.left()).await;
            for (at, answer) in moving.into_iter().zip(answers) {
                let one = answer.and_then(|answer| self.link.renewed(&answer, 1));
                match one.map(|mut one| one.pop()) {
                    Ok(one) => self.outcomes[at] = one,
                    Err(error) => {
                        self.moving.push(at);
                        self.error = Some(error);
                    }
                }
            }
            if self.moving.is_empty() {
                break;
            }
        }
    }

    /// An error if it is that of all.
    fn ended(self) -> Result<Vec<Renewed>, CommandError> {
        let outcomes = self.outcomes;
        match self.error {
            Some(error) if outcomes.iter().all(Option::is_none) => Err(error),
            _ => Ok(outcomes
                .into_iter()
                .map(|it| it.unwrap_or(Renewed::Failed))
                .collect()),
        }
    }
}

/// `counter`: the one of all items; `None` at a node, and where each key goes by itself.
fn call<'a>(
    by: CallBy,
    items: impl Iterator<Item = &'a Renewal> + Clone,
    counter: Option<&str>,
) -> Cmd {
    let locks = items.clone().map(|item| &*item.claim.key);
    let keys: Vec<&str> = locks.chain(counter).collect();
    let runs = calls::renewals(items.clone());
    let values = items.map(|item| &*item.claim.value);
    let arguments: Vec<&str> = runs.iter().map(String::as_str).chain(values).collect();
    scripts::RENEW.call(by, &keys, &arguments)
}
