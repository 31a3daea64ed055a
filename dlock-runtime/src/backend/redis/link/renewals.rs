//! Lengthens leases: those that may share a script by one call, the others by one call each, in one
//! write.

use std::collections::BTreeMap;
use std::time::Duration;

use redis::{Cmd, Value};
use tokio::time::Instant;

use super::RedisLink;
use crate::backend::command_error::CommandError;
use crate::backend::redis::scripts::{self, By};
use crate::backend::redis::{calls, errors, reply};
use crate::policy::commands::{Renewal, Renewed};

impl RedisLink {
    /// One answer per item, in order.
    pub(super) async fn renew_all(
        &self,
        items: &[Renewal],
        within: Duration,
    ) -> Result<Vec<Renewed>, CommandError> {
        let mut groups = BTreeMap::<u16, Vec<usize>>::new();
        for (at, item) in items.iter().enumerate() {
            let group = self.connection.names.script_group(&item.claim.key);
            groups.entry(group).or_default().push(at);
        }
        if groups.len() > 1 {
            return self.renew_each(items, groups, within).await;
        }
        let call = |by| call(by, items.iter());
        let (reply, _) = self.connection.run(within, call).await?;
        self.renewed(&reply, items.len())
    }

    /// `groups`: which items share a call. The items of a call that fails failed by themselves,
    /// unless all calls did.
    async fn renew_each(
        &self,
        items: &[Renewal],
        groups: BTreeMap<u16, Vec<usize>>,
        within: Duration,
    ) -> Result<Vec<Renewed>, CommandError> {
        let until = Instant::now() + within;
        let mut open: Vec<Vec<usize>> = groups.into_values().collect();
        let mut outcomes = vec![None; items.len()];
        let mut error = None;
        for by in [By::Hash, By::Text] {
            let mut calls = redis::pipe();
            for group in &open {
                calls.add_command(call(by, group.iter().filter_map(|at| items.get(*at))));
            }
            let left = until.saturating_duration_since(Instant::now());
            let (replies, _) = self.connection.exchange(calls, left).await?;
            let mut unknown = Vec::new();
            for (group, reply) in open.into_iter().zip(replies) {
                if scripts::is_unknown_by(&reply) {
                    unknown.push(group);
                    continue;
                }
                match self.renewed_by(&reply, group.len()) {
                    Ok(renewed) => group.iter().zip(renewed).for_each(|(at, renewed)| {
                        outcomes[*at] = Some(renewed);
                    }),
                    Err(failed) => error = Some(failed),
                }
            }
            open = unknown;
            if open.is_empty() {
                break;
            }
        }
        match error {
            Some(error) if outcomes.iter().all(Option::is_none) => Err(error),
            _ => Ok(outcomes
                .into_iter()
                .map(|it| it.unwrap_or(Renewed::Failed))
                .collect()),
        }
    }

    fn renewed_by(&self, reply: &Value, items: usize) -> Result<Vec<Renewed>, CommandError> {
        match errors::error_of_answer(reply) {
            Some(error) => Err(self.connection.noted(error)),
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

fn call<'a>(by: By, items: impl Iterator<Item = &'a Renewal> + Clone) -> Cmd {
    let keys: Vec<&str> = items.clone().map(|item| &*item.claim.key).collect();
    let runs = calls::renewals(items.clone());
    let values = items.map(|item| &*item.claim.value);
    let arguments: Vec<&str> = runs.iter().map(String::as_str).chain(values).collect();
    scripts::RENEW.call(by, &keys, &arguments)
}
