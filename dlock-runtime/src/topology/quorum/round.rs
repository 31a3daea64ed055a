//! The answers of several nodes, in the order in which they come. It sends nothing itself.
//!
//! Invariant: the first poll polls every answer, so that each command is sent before anybody waits.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::task::Poll;

use crate::client::quorum::nodes::{NodeId, NodeSet};
use crate::link::Answer;
use crate::link::command_error::CommandError;

/// For which answers a command that takes votes back waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum WaitsFor {
    /// Until a quorum has decided, and shortly for the others.
    Quorum,
    All,
}

pub(super) struct Round<'a, T> {
    pending: Vec<(NodeId, Answer<'a, T>)>,
    answered: VecDeque<(NodeId, Result<T, CommandError>)>,
}

impl<T> Default for Round<'_, T> {
    fn default() -> Self {
        Self {
            pending: Vec::new(),
            answered: VecDeque::new(),
        }
    }
}

impl<'a, T> Round<'a, T> {
    pub(super) fn push(&mut self, node: NodeId, answer: Answer<'a, T>) {
        self.pending.push((node, answer));
    }

    /// The next answer; `None`: no other will come.
    pub(super) async fn next(&mut self) -> Option<(NodeId, Result<T, CommandError>)> {
        poll_fn(|cx| {
            let answered = &mut self.answered;
            self.pending.retain_mut(|(node, answer)| {
                let Poll::Ready(answer) = answer.as_mut().poll(cx) else {
                    return true;
                };
                answered.push_back((*node, answer));
                false
            });
            match self.answered.pop_front() {
                Some(next) => Poll::Ready(Some(next)),
                None if self.pending.is_empty() => Poll::Ready(None),
                None => Poll::Pending,
            }
        })
        .await
    }

    /// The nodes that have not answered.
    pub(super) fn pending(&self) -> NodeSet {
        self.pending.iter().map(|(node, _)| *node).collect()
    }
}
