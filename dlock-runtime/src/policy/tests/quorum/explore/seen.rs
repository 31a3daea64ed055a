//! What has happened in a run, so that a run that shows nothing is noticed.

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::policy::tests::quorum) enum Witness {
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

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::policy::tests::quorum) struct Seen(u64);

impl Seen {
    pub(super) fn saw(&mut self, what: Witness) {
        self.0 |= 1 << what as u64;
    }

    pub(in crate::policy::tests::quorum) fn has_seen(self, what: Witness) -> bool {
        self.0 & (1 << what as u64) != 0
    }

    pub(super) fn and(&mut self, other: Seen) {
        self.0 |= other.0;
    }
}
