//! One exclusive acquire or release, as a command of its own or as an item of a batch. It builds
//! commands and sends nothing. Invariant: `Debug` shows the lock only, because the value contains a
//! token.

use std::fmt;

use redis::Cmd;

use crate::backend::redis::calls::{self, Call};
use crate::backend::redis::grant_key::GrantKey;
use crate::backend::redis::names::Names;
use crate::backend::redis::native::Native;
use crate::backend::redis::scripts::{self, By};
use crate::policy::commands::{Acquire, Claim};

#[derive(Clone, Copy)]
pub(in crate::backend::redis) enum Command<'a> {
    Acquire(&'a Acquire),
    Release { claim: &'a Claim, keep_until: u64 },
}

/// The same, for a caller that may go before it is sent.
pub(in crate::backend::redis) enum OwnedCommand {
    Acquire(Acquire),
    Release { claim: Claim, keep_until: u64 },
}

impl OwnedCommand {
    pub(in crate::backend::redis) fn command(&self) -> Command<'_> {
        match self {
            OwnedCommand::Acquire(command) => Command::Acquire(command),
            OwnedCommand::Release { claim, keep_until } => Command::Release {
                claim,
                keep_until: *keep_until,
            },
        }
    }
}

impl<'a> Command<'a> {
    pub(super) fn to_owned(self) -> OwnedCommand {
        match self {
            Command::Acquire(command) => OwnedCommand::Acquire(command.clone()),
            Command::Release { claim, keep_until } => OwnedCommand::Release {
                claim: claim.clone(),
                keep_until,
            },
        }
    }

    pub(super) fn is_release(self) -> bool {
        matches!(self, Command::Release { .. })
    }

    pub(super) fn lock(self) -> &'a str {
        &self.claim().key
    }

    fn claim(self) -> &'a Claim {
        match self {
            Command::Acquire(command) => &command.claim,
            Command::Release { claim, .. } => claim,
        }
    }

    fn value(self) -> &'a str {
        &self.claim().value
    }

    fn terms(self) -> Terms {
        match self {
            Command::Acquire(command) => Terms::Acquire {
                lease: command.lease.as_millis(),
                not_after: command.not_after,
                repair: calls::repair(command),
                queues: command.claim.queues,
            },
            Command::Release { keep_until, .. } => Terms::Release { keep_until },
        }
    }

    /// The item as a command of its own.
    pub(super) fn call(self, native: Option<Native>) -> Call<'a> {
        match self {
            Command::Acquire(command) => calls::acquire(command),
            Command::Release { claim, keep_until } => calls::release(claim, keep_until, native),
        }
    }
}

/// Shows the lock only: the value contains a token.
impl fmt::Debug for OwnedCommand {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.command().lock().fmt(f)
    }
}

/// Bytes for the parameters of a typical batch: one run of acquires and one of releases.
const ROOM_FOR_TERMS: usize = 128;

/// All items in one command, releases before acquires.
pub(super) fn combined<'a>(
    by: By,
    names: &Names,
    grant_key: &GrantKey,
    items: impl ExactSizeIterator<Item = Command<'a>> + Clone,
) -> Cmd {
    let bytes = |item: Command<'_>| names.room(item.lock()) + item.value().len();
    let room: usize = items.clone().map(bytes).sum();
    let mut command = scripts::COMBINED.called(by, 9 + 3 * items.len(), room + ROOM_FOR_TERMS);
    command.arg(1 + 2 * items.len());
    let mut name = String::new();
    for (number, item) in items.clone().enumerate() {
        let keys = names.of(item.lock());
        if number == 0 {
            command.arg(&*keys.counter);
        }
        command.arg(item.lock());
        command.arg(keys.queue.text_in(&mut name));
    }
    let runs = calls::runs(items.clone().map(Command::terms));
    let is_release = |(terms, _): &&(Terms, usize)| matches!(terms, Terms::Release { .. });
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

/// The parameters of an item, without its lock and its value.
#[derive(Clone, Copy, PartialEq)]
enum Terms {
    Release {
        keep_until: u64,
    },
    Acquire {
        lease: u64,
        not_after: u64,
        repair: u64,
        queues: bool,
    },
}

impl Terms {
    fn write(&self, command: &mut Cmd) {
        match self {
            Terms::Release { keep_until } => command.arg(keep_until),
            Terms::Acquire {
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
