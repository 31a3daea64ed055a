//! What a node of a cluster says of the others: that one serves a slot (`MOVED`), or has a key of a
//! slot that is moving (`ASK`). Who connects to them is `cluster`.

use std::fmt::Debug;
use std::sync::Weak;
use std::time::Duration;

use redis::{Cmd, ErrorKind, RedisError, ServerErrorKind, Value};

use crate::link::Answer;
use crate::link::command_error::CommandError;
use crate::values::config::Host;
use crate::values::error::Reason;
use crate::values::shown::NAME_AT_MOST;

/// Hears what the connections to one node tell about the others.
pub(crate) trait Redirects: Debug + Send + Sync {
    /// A command was not executed, because this node serves its slot.
    fn moved(&self, slot: u16, node: Host);

    /// A node is silent, or says that nobody serves a slot.
    fn may_have_changed(&self);

    /// Sends each command behind an `ASKING` to another node, one right behind the other. One answer
    /// for each, or why there is none at all.
    fn ask(
        &self,
        node: Host,
        commands: Vec<Cmd>,
        within: Duration,
    ) -> Answer<'_, Vec<Result<Value, CommandError>>>;

    /// A slot that this node serves.
    fn slot_of(&self, node: &Host) -> Option<u16>;
}

/// Which node of a cluster a connection goes to, and who hears of the others.
#[derive(Clone, Debug)]
pub(crate) struct OfCluster {
    pub(crate) redirects: Weak<dyn Redirects>,
    pub(crate) host: Host,
}

impl OfCluster {
    /// The meaning of an error about slots, of which the others hear. Nothing was executed.
    pub(crate) fn meaning(&self, error: &RedisError, why: Reason) -> CommandError {
        match error.kind() {
            ErrorKind::Server(ServerErrorKind::Moved) => {
                match (self.named(error), self.redirects.upgrade()) {
                    (Some((slot, node)), Some(redirects)) => redirects.moved(slot, node),
                    _ => self.may_have_changed(),
                }
                CommandError::Elsewhere(why)
            }
            ErrorKind::Server(ServerErrorKind::Ask | ServerErrorKind::TryAgain) => {
                CommandError::Moving(why)
            }
            _ => {
                self.may_have_changed();
                CommandError::Unserved(why)
            }
        }
    }

    /// The node that has a key by now, if the answer says so (`ASK`).
    pub(crate) fn asks(&self, answer: &Value) -> Option<Host> {
        let Value::ServerError(error) = answer else {
            return None;
        };
        let error = RedisError::from(error.clone());
        let is_ask = error.kind() == ErrorKind::Server(ServerErrorKind::Ask);
        Some(self.named(&error).filter(|_| is_ask)?.1)
    }

    pub(crate) fn may_have_changed(&self) {
        if let Some(redirects) = self.redirects.upgrade() {
            redirects.may_have_changed();
        }
    }

    /// The slot and the node in a redirect.
    fn named(&self, error: &RedisError) -> Option<(u16, Host)> {
        let (node, slot) = error.redirect_node()?;
        Some((slot, read_node(node, &self.host)?))
    }
}

/// A node's address in a redirect, without a name if it is that of the node that was asked.
fn read_node(text: &str, asked: &Host) -> Option<Host> {
    let (name, port) = text.rsplit_once(':')?;
    let name = name.trim_start_matches('[').trim_end_matches(']');
    node(Some(name), port.parse().ok()?, asked)
}

/// A node that `asked` names; one that does not know its own name leaves it out, or says so by a
/// question mark.
pub(crate) fn node(name: Option<&str>, port: u16, asked: &Host) -> Option<Host> {
    let name = name.filter(|it| !it.is_empty() && *it != "?");
    let name = name.unwrap_or(&asked.name).to_owned();
    let is_possible = port > 0 && name.len() <= NAME_AT_MOST;
    is_possible.then_some(Host { name, port })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn host(name: &str, port: u16) -> Host {
        let name = name.to_owned();
        Host { name, port }
    }

    #[test]
    fn a_node_is_found_under_each_way_to_write_it() {
        let asked = host("asked", 1);
        for (written, node) in [
            ("127.0.0.1:6381", Some(host("127.0.0.1", 6381))),
            ("locks.example:6381", Some(host("locks.example", 6381))),
            (":6381", Some(host("asked", 6381))),
            ("?:6381", Some(host("asked", 6381))),
            ("::1:6381", Some(host("::1", 6381))),
            ("[::1]:6381", Some(host("::1", 6381))),
            ("127.0.0.1", None),
            ("127.0.0.1:0", None),
            ("127.0.0.1:70000", None),
            ("", None),
        ] {
            assert_eq!(read_node(written, &asked), node, "{written}");
        }
        assert_eq!(read_node(&format!("{}:1", "x".repeat(1000)), &asked), None);
    }
}
