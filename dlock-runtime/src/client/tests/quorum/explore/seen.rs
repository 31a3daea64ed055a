//! What has happened in a run, so that a run that shows nothing is noticed.

use crate::rules::tests::explore;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Witness {
    EqualDraws,
    AdoptNeeded,
    Adopted,
    /// At a node that had drawn a higher number by then.
    AdoptedBelow,
    AdoptGone,
    WonAfterAdopt,
    LateBallot,
    GrantedAfterGiveUp,
    TooLateToBegin,
    Expired,
    DriftedEarly,
    Renewed,
    RenewalLost,
    RenewalUnknown,
    RestartedEmpty,
    RestartedWithData,
    QuarantinedOut,
    CancelFound,
    CancelByStamp,
    ClientCrashed,
    ClockStepped,
    HandedOn,
    HandOnRefused,
    HandedOnStale,
    Ended,
    Downgraded,
    DowngradeUnclear,
    /// Two count on the lock that may.
    Together,
    /// A body of an owner begins beside one with a higher fence, an equal, a lower one.
    BesideHigher,
    BesideEqual,
    BesideLower,
    /// A node that did not have a held lock voted for it, or did not.
    Reseeded,
    ReseedRefused,
    /// That vote made the quorum.
    RenewedByReseed,
    Evicted,
}

impl explore::Witness for Witness {
    fn place(self) -> u8 {
        self as u8
    }
}

pub(super) type Seen = explore::Seen<Witness>;
