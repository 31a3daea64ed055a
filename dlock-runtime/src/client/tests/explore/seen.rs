//! What has happened in a run, so that a run that shows nothing is noticed.

use crate::rules::tests::explore;

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

impl explore::Witness for Witness {
    fn place(self) -> u8 {
        self as u8
    }
}

pub(super) type Seen = explore::Seen<Witness>;
