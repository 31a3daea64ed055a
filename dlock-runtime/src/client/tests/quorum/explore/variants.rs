//! Known-bad variants and worlds, the smallest runs that show them, and what catches each after how
//! many steps. `L1` to `L21` number the counterexamples: `reseed_runs` has `L16` and `L18`, and no
//! run reaches `L17`, a vote by renewal of a node in quarantine.

use super::mutants::Mutant::{self, *};
use super::run::Fault::{Back, Empty, Forward, OtherKey};
use super::run::{LONG, Proposals, Run};
use super::world::World;
use crate::rules::tests::explore::{self, catch};

pub(super) type Bad = explore::Bad<World>;

pub(super) fn bad(name: &str, caught_by: &'static str, steps: usize, run: Run) -> Bad {
    Bad {
        name: name.to_owned(),
        run,
        most_states: 200_000,
        caught_by,
        steps,
    }
}

fn mutant(mutant: Mutant, run: Run) -> Run {
    Run {
        mutant: Some(mutant),
        ..run
    }
}

/// One attempt of each client, for so many ticks.
pub(super) fn once(ticks: u32) -> Run {
    Run {
        attempts: 1,
        timeout: 0,
        ticks,
        ..Run::default()
    }
}

/// No key and no stamp expires.
pub(super) fn timeless(attempts: u16, give_ups: u8) -> Run {
    Run {
        attempts,
        give_ups,
        ttl: LONG,
        timeout: LONG,
        jump: LONG,
        ticks: 0,
        ..Run::default()
    }
}

/// Two bodies at once, whatever their fences.
fn unordered(run: Run) -> Run {
    Run {
        off: &["S2", "S2lin"],
        ..run
    }
}

fn alone() -> Run {
    Run {
        clients: 1,
        give_ups: 1,
        ..once(0)
    }
}

fn empty(ticks: u32, quarantine: u32) -> Run {
    Run {
        budget: 1,
        faults: &[Empty],
        quarantine,
        ..once(ticks)
    }
}

fn leases() -> Vec<Bad> {
    let renews = |it| {
        mutant(
            it,
            Run {
                renewals: 1,
                ..once(2)
            },
        )
    };
    let hands_on = |it, ticks| {
        mutant(
            it,
            Run {
                handoffs: 1,
                ..once(ticks)
            },
        )
    };
    let fast = Run {
        margin: 1,
        drifts: true,
        ..once(1)
    };
    vec![
        bad("L1", "S1", 10, mutant(DeadlineFromReply, once(2))),
        bad(
            "L2",
            "S1",
            6,
            mutant(QuorumOfTheAnswered, unordered(once(0))),
        ),
        bad("L3", "S1", 11, mutant(NoMargin, fast)),
        bad("L4", "S3", 3, mutant(ReleaseWhereGranted, alone())),
        bad("L5", "S3", 4, mutant(CancelOnce, alone())),
        bad("L6, no quarantine", "S1", 10, unordered(empty(1, 0))),
        bad(
            "L6, a tick short of the ttl",
            "S1",
            11,
            unordered(empty(1, 1)),
        ),
        bad("L19", "S1", 14, renews(RenewalAtOneNode)),
        bad("L20", "S1", 14, renews(RenewalFromReply)),
        bad("begins late", "S2", 10, mutant(BeginsLate, once(2))),
        bad("handed on afresh", "S1", 12, hands_on(HandedOnAfresh, 2)),
        bad(
            "fence of the grant",
            "S2lin",
            6,
            hands_on(FenceOfTheGrant, 0),
        ),
    ]
}

fn clocks() -> Vec<Bad> {
    let forward = |off| Run {
        budget: 1,
        faults: &[Forward],
        off,
        ..timeless(1, 0)
    };
    let back = Run {
        budget: 1,
        faults: &[Back],
        timeout: 0,
        jump: 1,
        ticks: 1,
        ..alone()
    };
    let unequal_draws = || Run {
        budget: 2,
        faults: &[Forward, OtherKey],
        ..forward(&["S1", "S2"])
    };
    vec![
        bad("L8, clock forward", "S1", 12, forward(&["S2"])),
        bad("L9, clock back", "S3", 6, back),
        bad("L21, clock forward", "S2", 12, forward(&["S1"])),
        bad(
            "no write-back, clock forward",
            "S2lin",
            10,
            mutant(NoWriteBack, unequal_draws()),
        ),
        bad(
            "gone counts, clock forward",
            "S2lin",
            16,
            mutant(GoneCounts, unequal_draws()),
        ),
    ]
}

fn fences() -> Vec<Bad> {
    let apart = |errors, run| Run {
        proposals: Proposals::Time(errors),
        ..run
    };
    let unequal = Run {
        skews: &[0, 0, 1],
        ..timeless(1, 0)
    };
    let uneven = || Run {
        budget: 1,
        faults: &[OtherKey],
        ..timeless(1, 0)
    };
    vec![
        bad("L10", "S2", 11, mutant(NoWriteBack, uneven())),
        bad("L11", "S2", 17, mutant(WriteBackAnywhere, uneven())),
        bad("L12", "S2lin", 10, mutant(NodesDrawFromTime, unequal)),
        bad(
            "L13",
            "S2lin",
            10,
            mutant(ProposalUnchecked, apart(&[0, -1], timeless(1, 0))),
        ),
        bad("L14, no time in the number", "S2lin", 12, empty(2, 2)),
        bad(
            "L15, estimates apart",
            "S2lin",
            12,
            apart(&[0, -2], empty(2, 2)),
        ),
    ]
}

#[test]
fn leases_of_known_bad_variants() {
    catch(leases());
}

#[test]
fn clocks_that_step_in_known_bad_variants() {
    catch(clocks());
}

#[test]
fn fences_of_known_bad_variants() {
    catch(fences());
}
