//! Known-bad variants: each changes what the shell does with an answer of a shipped machine, or
//! with a node's answer on its way. `variants` has their numbers.

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Mutant {
    /// The lease counts from the moment at which the last answer was read.
    DeadlineFromReply,
    /// Most of those that have answered so far are a quorum.
    QuorumOfTheAnswered,
    NoMargin,
    /// What has not granted is not cancelled.
    ReleaseWhereGranted,
    /// The first cancel is the last, whether or not the ballot may still arrive.
    CancelOnce,
    /// The highest number of a quorum is the fence, and nothing is adopted.
    NoWriteBack,
    /// The number is written to any nodes, also where another claim has the key.
    WriteBackAnywhere,
    /// Each node draws from its own clock, and nothing is adopted.
    NodesDrawFromTime,
    /// A node grants whatever number is proposed.
    ProposalUnchecked,
    /// One node's yes renews the lease.
    RenewalAtOneNode,
    /// A renewed lease counts from the moment at which the last answer was read.
    RenewalFromReply,
    /// A body begins although the deadline has passed.
    BeginsLate,
    /// An adopted number counts at a node whose key is not ours.
    GoneCounts,
    /// A handed-on lock counts a whole lease from the hand-off.
    HandedOnAfresh,
    /// A handed-on lock has the fence of the grant.
    FenceOfTheGrant,
    /// A renewal of one entry prolongs all.
    RenewsTheSet,
    /// A release takes all entries away.
    ReleasesTheSet,
    /// A node admits a reader beside a writer.
    ReaderBesideWriter,
    /// A node admits whoever asks beside an owner's entry.
    AnyoneBesideOwner,
    /// A node's counter falls to an adopted number.
    AdoptLowers,
    /// An adopted number does not become the epoch of the owner's hold.
    HoldKeepsItsEpoch,
    /// One node's yes confirms a downgrade.
    DowngradeAtOneNode,
    /// A writer counts as one until its downgrade is confirmed.
    WritesUntilAnswered,
    /// A node is asked for its vote once more while the first ballot may still arrive.
    ReseedsUnanswered,
    /// A node is asked for its vote once more when the first ballot can't arrive any more, although
    /// it could when the node said that it does not have the lock.
    ReseedsOnOldAnswers,
    /// It may execute that vote at any later time.
    ReseedsUnstamped,
    /// A node is asked once more although it said that it had the lock.
    ReseedsWhatWasThere,
    /// A lock is handed on although it was renewed. Not bad: see `handing_on`.
    HandsOnRenewed,
}

impl Mutant {
    /// Unequal numbers of a quorum are taken for its highest.
    pub(super) fn takes_the_highest(self) -> bool {
        matches!(self, Mutant::NoWriteBack | Mutant::NodesDrawFromTime)
    }
}
