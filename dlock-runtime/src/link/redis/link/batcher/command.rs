//! One exclusive acquire or release, or one command of a node of a quorum, as a command of its own or
//! as an item of a batch; a batch has commands of one of the two sorts. It builds
//! commands and sends nothing. Invariant: `Debug` shows the lock only, because the value contains a
//! token.

use std::collections::HashSet;
use std::fmt;

use redis::{Cmd, Value};

use crate::link::command_error::CommandError;
use crate::link::redis::calls;
use crate::link::redis::grant_key::GrantKey;
use crate::link::redis::link::connection::Connection;
use crate::link::redis::names::Names;
use crate::link::redis::reply::{self, ItemReply};
use crate::link::redis::scripts::{self, CallBy};
use crate::rules::ballots::Ballot;
use crate::rules::commands::{Acquire, Claim, Keep};
use crate::values::ttl::Ttl;

#[derive(Clone, Copy)]
pub(crate) enum Command<'a> {
    Acquire(&'a Acquire),
    Release {
        claim: &'a Claim,
        keep: Keep,
    },
    Vote(&'a Ballot),
    Adopt {
        claim: &'a Claim,
        epoch: u64,
    },
    TakeBack {
        claim: &'a Claim,
        keep: Keep,
    },
    /// A writer becomes a reader.
    StepDown {
        claim: &'a Claim,
        ttl: Ttl,
    },
    /// The waiter is alive. Its command of its own would be a poll.
    Beat(&'a Claim),
}

/// The same, for a caller that may go before it is sent.
pub(crate) enum OwnedCommand {
    Acquire(Acquire),
    Release { claim: Claim, keep: Keep },
    Vote(Ballot),
    Adopt { claim: Claim, epoch: u64 },
    TakeBack { claim: Claim, keep: Keep },
    StepDown { claim: Claim, ttl: Ttl },
    Beat(Claim),
}

impl OwnedCommand {
    pub(crate) fn command(&self) -> Command<'_> {
        match self {
            OwnedCommand::Acquire(command) => Command::Acquire(command),
            OwnedCommand::Release { claim, keep } => Command::Release { claim, keep: *keep },
            OwnedCommand::Vote(ballot) => Command::Vote(ballot),
            OwnedCommand::Adopt { claim, epoch } => Command::Adopt {
                claim,
                epoch: *epoch,
            },
            OwnedCommand::TakeBack { claim, keep } => Command::TakeBack { claim, keep: *keep },
            OwnedCommand::StepDown { claim, ttl } => Command::StepDown { claim, ttl: *ttl },
            OwnedCommand::Beat(claim) => Command::Beat(claim),
        }
    }
}

impl<'a> Command<'a> {
    pub(super) fn to_owned(self) -> OwnedCommand {
        match self {
            Command::Acquire(command) => OwnedCommand::Acquire(command.clone()),
            Command::Release { claim, keep } => OwnedCommand::Release {
                claim: claim.clone(),
                keep,
            },
            Command::Vote(ballot) => OwnedCommand::Vote(ballot.clone()),
            Command::Adopt { claim, epoch } => OwnedCommand::Adopt {
                claim: claim.clone(),
                epoch,
            },
            Command::TakeBack { claim, keep } => OwnedCommand::TakeBack {
                claim: claim.clone(),
                keep,
            },
            Command::StepDown { claim, ttl } => OwnedCommand::StepDown {
                claim: claim.clone(),
                ttl,
            },
            Command::Beat(claim) => OwnedCommand::Beat(claim.clone()),
        }
    }

    pub(super) fn is_of_node(self) -> bool {
        !matches!(
            self,
            Command::Acquire(_) | Command::Release { .. } | Command::Beat(_)
        )
    }

    pub(super) fn is_release(self) -> bool {
        matches!(self, Command::Release { .. })
    }

    pub(in crate::link::redis::link) fn lock(self) -> &'a str {
        &self.claim().key
    }

    pub(super) fn claim(self) -> &'a Claim {
        match self {
            Command::Acquire(command) => &command.claim,
            Command::Vote(ballot) => &ballot.claim,
            Command::Release { claim, .. }
            | Command::Adopt { claim, .. }
            | Command::TakeBack { claim, .. }
            | Command::StepDown { claim, .. }
            | Command::Beat(claim) => claim,
        }
    }

    fn value(self) -> &'a str {
        &self.claim().value
    }

    fn terms(self) -> ItemTerms<'a> {
        match self {
            Command::Acquire(command) => ItemTerms::Acquire {
                lease: command.lease.as_millis(),
                not_after: command.not_after,
                repair: calls::repair(command),
                queues: command.claim.queues,
            },
            Command::Release { keep, .. } => ItemTerms::Release { keep },
            Command::Vote(ballot) => ItemTerms::Vote {
                lease: ballot.lease.as_millis(),
                not_after: ballot.not_after,
                channel: ballot.channel(),
                proposal: ballot.proposed(),
            },
            Command::Adopt { .. } | Command::Beat(_) => ItemTerms::Adopt, // neither has any
            Command::TakeBack { keep, .. } => ItemTerms::TakeBack { keep },
            Command::StepDown { ttl, .. } => ItemTerms::StepDown {
                ttl: ttl.as_millis(),
            },
        }
    }

    /// The item as a command of its own.
    pub(super) fn alone(self, connection: &Connection, by: CallBy) -> Cmd {
        let call = match self {
            Command::Acquire(command) => calls::acquire(command),
            Command::Release { claim, keep } => {
                calls::release(claim, keep, connection.deletes.native())
            }
            Command::Beat(claim) => calls::poll(claim),
            _ => return of_node(by, &connection.names, [self].into_iter()),
        };
        connection.command_on(self.lock(), &call, by)
    }

    /// The reply to a command of its own.
    pub(super) fn read(
        self,
        reply: Value,
        connection: &Connection,
    ) -> Result<ItemReply, CommandError> {
        if !self.is_of_node() {
            if self.is_release() {
                connection.deletes.answered(&reply);
            }
            return Ok(ItemReply::Other(reply));
        }
        let answer = reply::of_node(reply, 1)?.pop();
        let answer = answer.unwrap_or_else(|| Err(reply::unexpected("node", &Value::Nil)));
        answer
            .map(|it| ItemReply::OfNode(Box::new(it)))
            .map_err(|error| connection.noted(error))
    }
}

impl Ballot {
    /// The proposed epoch, as a node is asked.
    pub(crate) fn proposed(&self) -> u64 {
        self.proposal.max(1) // no epoch is 0
    }

    /// Where to send a hint, as the scripts of a node are told. An address is the server's run id
    /// and the channel there.
    pub(crate) fn channel(&self) -> &str {
        let address = &*self.hint_to;
        match address.split_once(';') {
            Some((_, channel)) => channel,
            None if address.is_empty() && self.waits() => "-",
            None => address,
        }
    }
}

/// Shows the lock only: the value contains a token.
impl fmt::Debug for OwnedCommand {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.command().lock().fmt(f)
    }
}

/// Bytes for the parameters of a typical batch: one run of acquires or votes and one of releases.
const ROOM_FOR_TERMS: usize = 128;

/// All items in one command, releases before acquires.
pub(super) fn combined<'a>(
    by: CallBy,
    names: &Names,
    grant_key: &GrantKey,
    items: impl ExactSizeIterator<Item = Command<'a>> + Clone,
) -> Cmd {
    let bytes = |item: Command<'_>| names.room(item.lock()) + item.value().len();
    let room: usize = items.clone().map(bytes).sum();
    let mut command = scripts::COMBINED.called(by, 9 + 3 * items.len(), room + ROOM_FOR_TERMS);
    let mut absent = None;
    if let Some(first) = items.clone().next() {
        let counter = names.of(first.lock()).counter;
        absent = names.absent(&counter);
        command.arg(1 + 2 * items.len() + usize::from(absent.is_some()));
        command.arg(&*counter);
    }
    let mut queues = names.queues();
    for item in items.clone() {
        command.arg(item.lock()).arg(queues.of(item.lock()));
    }
    command.arg(absent);
    let runs = calls::runs(items.clone().map(Command::terms));
    let is_release =
        |(terms, _): &&(ItemTerms<'_>, usize)| matches!(terms, ItemTerms::Release { .. });
    let releases = runs.iter().filter(is_release).count();
    command.arg(releases).arg(runs.len() - releases);
    for (terms, items) in &runs {
        command.arg(items);
        terms.write(&mut command);
    }
    for item in items {
        command.arg(item.value());
    }
    command.arg(grant_key.argument());
    command
}

/// The votes that are taken back, and then all others, so that a node executes each sort at once. A
/// vote that is taken back behind another command for its lock stays there.
pub(super) fn take_backs_first<T>(batch: Vec<T>, command: impl Fn(&T) -> Command<'_>) -> Vec<T> {
    let mut others = HashSet::new();
    let is_first = |it| match command(it) {
        Command::TakeBack { claim, .. } => !others.contains(&*claim.key),
        other => {
            others.insert(other.lock());
            false
        }
    };
    let are_first: Vec<_> = batch.iter().map(is_first).collect();
    let mut first = Vec::with_capacity(batch.len());
    let mut rest = Vec::new();
    for (it, is_first) in batch.into_iter().zip(are_first) {
        if is_first { &mut first } else { &mut rest }.push(it);
    }
    first.append(&mut rest);
    first
}

/// All items of a node in one command, in this order.
pub(super) fn of_node<'a>(
    by: CallBy,
    names: &Names,
    items: impl ExactSizeIterator<Item = Command<'a>> + Clone,
) -> Cmd {
    let bytes = |item: Command<'_>| names.room(item.lock()) + item.value().len();
    let room: usize = items.clone().map(bytes).sum();
    let words = 14 + 4 * items.len();
    let mut command = scripts::NODE.called(by, words, room + ROOM_FOR_TERMS);
    let of_one = |it: Command<'a>| (it.terms(), it.claim().kind().is_shared());
    let runs = calls::runs(items.clone().map(of_one));
    let keys = |((terms, _), number): &((ItemTerms<'_>, bool), usize)| {
        number * if terms.draw() { 2 } else { 1 }
    };
    command.arg(1 + runs.iter().map(keys).sum::<usize>());
    let mut rest = items.clone();
    for ((terms, _), number) in &runs {
        let run = rest.clone().take(*number);
        for item in rest.by_ref().take(*number) {
            command.arg(item.lock());
        }
        for item in run.filter(|_| terms.draw()) {
            command.arg(&*names.of(item.lock()).counter);
        }
    }
    command.arg(names.somebody_wants());
    command.arg(names.namespace()).arg(items.len());
    let mut rest = items;
    for ((terms, is_shared), number) in &runs {
        command.arg(terms.letter(*is_shared)).arg(number);
        terms.write(&mut command);
        for item in rest.by_ref().take(*number) {
            command.arg(item.value());
            if let Command::Adopt { epoch, .. } = item {
                command.arg(epoch);
            }
        }
    }
    command
}

/// The parameters of an item, without its lock and its value.
#[derive(Clone, Copy, PartialEq)]
enum ItemTerms<'a> {
    Release {
        keep: Keep,
    },
    Acquire {
        lease: u64,
        not_after: u64,
        repair: u64,
        queues: bool,
    },
    Vote {
        lease: u64,
        not_after: u64,
        channel: &'a str,
        proposal: u64,
    },
    Adopt,
    TakeBack {
        keep: Keep,
    },
    StepDown {
        ttl: u64,
    },
}

impl ItemTerms<'_> {
    /// What a run of commands of a node begins with: a capital for the kinds with many holders.
    fn letter(&self, is_shared: bool) -> &'static str {
        match (self, is_shared) {
            (ItemTerms::Vote { .. }, false) => "v",
            (ItemTerms::Vote { .. }, true) => "V",
            (ItemTerms::Adopt, false) => "a",
            (ItemTerms::Adopt, true) => "A",
            (ItemTerms::StepDown { .. }, _) => "D",
            (_, false) => "b",
            (_, true) => "B",
        }
    }

    /// Whether commands of a node with these parameters are about epoch counters, too.
    fn draw(&self) -> bool {
        matches!(self, ItemTerms::Vote { .. } | ItemTerms::Adopt)
    }

    fn write(&self, command: &mut Cmd) {
        match self {
            ItemTerms::Release { keep } | ItemTerms::TakeBack { keep } => command.arg(keep),
            ItemTerms::Vote {
                lease,
                not_after,
                channel,
                proposal,
            } => {
                command.arg(lease).arg(not_after);
                command.arg(*channel).arg(proposal)
            }
            ItemTerms::Adopt => command,
            ItemTerms::StepDown { ttl } => command.arg(ttl),
            ItemTerms::Acquire {
                lease,
                not_after,
                repair,
                queues,
            } => {
                let queues = u8::from(*queues);
                command.arg(lease).arg(not_after).arg(repair).arg(queues)
            }
        };
    }
}
