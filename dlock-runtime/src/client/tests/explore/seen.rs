//! What has happened in a run: an exploration in which something never happened proves nothing
//! about it.

use std::fmt;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Witness {
    HeldByPush,
    HeldByYours,
    HeldAtOnce,
    PushBeforeReply,
    ExpiryWithQueue,
    DeadWaiterSkipped,
    HeartbeatLapsed,
    CancelLeftQueue,
    CancelFreed,
    StaleGrant,
    Late,
    Gone,
    LimboExecuted,
    GrantInherited,
    StrayCleaned,
    CrashWhileHolding,
    ForeignHolder,
    Renewed,
    Confirmed,
    KeptForMinHold,
    EntryLostBySilence,
    LeaderReplaced,
    PastTheQueue,
    HandedOn,
    HandedOnToTheThird,
    QueueForgotten,
    BatchOfTwo,
    TwoBelievers,
    ReaderBehindWriter,
    SmallBehindBig,
    Reentered,
    StillHeld,
    Downgraded,
    DowngradeLetIn,
    LateDowngradeRefused,
    WrongKind,
    OtherKindLetIn,
    LateRelease,
    GrantByAnothersPoll,
    Rest,
}

/// A set of [`Witness`]es.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Seen(u64);

impl Seen {
    pub(super) fn saw(&mut self, witness: Witness) {
        self.0 |= 1 << witness as u64;
    }

    /// Adds what another run has seen.
    pub(super) fn and(&mut self, other: Self) {
        self.0 |= other.0;
    }

    pub(super) fn has(self, witness: Witness) -> bool {
        self.0 & (1 << witness as u64) != 0
    }

    pub(super) fn missing(self, expected: &[Witness]) -> Vec<Witness> {
        let missing = expected.iter().copied().filter(|it| !self.has(*it));
        missing.collect()
    }
}

impl fmt::Debug for Seen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:b}", self.0)
    }
}
