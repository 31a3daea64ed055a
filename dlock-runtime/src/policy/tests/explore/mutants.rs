//! Known-bad variants of the protocol: each has to be caught, or the exploration is blind to it.

/// Where a variant is made is where it is asked for: in the model's glue, or around a machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mutant {
    DeadlineFromReply,
    PushFromReceipt,
    PushForTheWholeTtl,
    YoursForTheWholeTtl,
    DelWithoutToken,
    RenewalWithoutCompare,
    RenewalCreates,
    NoCleanUp,
    FirstAnswerEnds,
    NotAfterIgnored,
    NoPoll,
    PollByAcquire,
    AcquireSentAgain,
    WatchdogNotStopped,
    KnownPushIsStray,
    TokenReused,
    ClaimIsWhole,
    SetNxFirst,
    ReleaseOfNothingGrantsNobody,
    QueuedTwice,
    MinHoldForgotten,
    ReleaseKeepsToken,
    NotConfirmed,
    TtlUnderMinHold,
}
