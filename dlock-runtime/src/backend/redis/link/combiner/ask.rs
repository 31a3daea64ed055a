//! One item: an exclusive acquire or release, alone or as a part of a batch.

use std::borrow::Cow;
use std::fmt;

use redis::Cmd;

use crate::backend::redis::calls::{self, Call};
use crate::backend::redis::names::Names;
use crate::backend::redis::scripts::{self, By};
use crate::policy::commands::{Acquire, Claim};

pub(in crate::backend::redis) enum Ask<'a> {
    Acquire(Cow<'a, Acquire>),
    Release {
        claim: Cow<'a, Claim>,
        keep_until: u64,
    },
}

impl Ask<'_> {
    pub(super) fn to_owned(&self) -> Ask<'static> {
        match self {
            Ask::Acquire(command) => Ask::Acquire(Cow::Owned(command.clone().into_owned())),
            Ask::Release { claim, keep_until } => Ask::Release {
                claim: Cow::Owned(claim.clone().into_owned()),
                keep_until: *keep_until,
            },
        }
    }

    pub(super) fn is_release(&self) -> bool {
        matches!(self, Ask::Release { .. })
    }

    pub(super) fn lock(&self) -> &str {
        match self {
            Ask::Acquire(command) => &command.claim.key,
            Ask::Release { claim, .. } => &claim.key,
        }
    }

    /// By itself.
    pub(super) fn call(&self) -> Call<'_> {
        match self {
            Ask::Acquire(command) => calls::acquire(command),
            Ask::Release { claim, keep_until } => calls::release(claim, *keep_until),
        }
    }
}

/// Its lock alone: there is a token in the value.
impl fmt::Debug for Ask<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.lock().fmt(f)
    }
}

/// All of these in one command, releases before acquires.
pub(super) fn combined<'a>(
    by: By,
    names: &Names,
    asks: impl ExactSizeIterator<Item = &'a Ask<'static>> + Clone,
) -> Cmd {
    let mut command = scripts::COMBINED.called(by);
    command.arg(1 + 3 * asks.len());
    let mut releases = 0_usize;
    for (number, ask) in asks.clone().enumerate() {
        let keys = names.of(ask.lock());
        if number == 0 {
            command.arg(keys.counter);
        }
        command.arg(ask.lock()).arg(keys.waiting).arg(keys.alive);
        releases += usize::from(ask.is_release());
    }
    command.arg(releases);
    for ask in asks {
        for word in ask.call().arguments {
            command.arg(&*word);
        }
    }
    command
}
