//! The explorations whose figures are in `docs/notes/model.md`.

use super::mutants::Mutant;
use super::run::Fault::{Client, Crash, Empty, Forward, OtherKey};
use super::run::{Proposals, Run};
use super::runs::{Row, row};
use super::seen::Witness::*;
use super::variants::timeless;
use crate::rules::tests::explore::{bounded, hold};

const ANY: Proposals = Proposals::Any(&[0, 3]);
const TIME: Proposals = Proposals::Time(&[]);

/// The two clients for so many ticks.
fn for_ticks(ticks: u32) -> Run {
    Run {
        ticks,
        ..Run::default()
    }
}

pub(super) fn rows() -> Vec<Row> {
    let mut rows = fences();
    rows.extend(leases());
    rows.extend(faults());
    rows.extend(handed_on());
    rows
}

fn fences() -> Vec<Row> {
    vec![
        row(
            "fences, any proposal, two attempts",
            &[EqualDraws, AdoptNeeded, WonAfterAdopt, GrantedAfterGiveUp],
            Run {
                proposals: ANY,
                ..timeless(2, 1)
            },
        ),
        row(
            "one attempt, another key's draws, twice",
            &[AdoptNeeded, WonAfterAdopt],
            Run {
                budget: 2,
                faults: &[OtherKey],
                ..timeless(1, 0)
            },
        ),
        row(
            "three clients, any proposal",
            &[EqualDraws, AdoptNeeded],
            Run {
                clients: 3,
                proposals: ANY,
                ..timeless(1, 0)
            },
        ),
        row(
            "five nodes, any proposal",
            &[EqualDraws, AdoptNeeded],
            Run {
                nodes: 5,
                proposals: ANY,
                ..timeless(1, 1)
            },
        ),
    ]
}

fn leases() -> Vec<Row> {
    let once = |ticks| Run {
        attempts: 1,
        ..for_ticks(ticks)
    };
    vec![
        row(
            "one attempt, expiry",
            &[Expired, LateBallot, TooLateToBegin, CancelFound],
            once(4),
        ),
        row(
            "two attempts, expiry",
            &[EqualDraws, CancelFound],
            for_ticks(4),
        ),
        row(
            "renewal, drift with margin",
            &[DriftedEarly, Renewed],
            Run {
                ttl: 3,
                margin: 1,
                drifts: true,
                renewals: 1,
                timeout: 0,
                ..once(6)
            },
        ),
        row(
            "two renewals",
            &[Renewed, Expired],
            Run {
                ttl: 3,
                renewals: 2,
                timeout: 0,
                ..once(7)
            },
        ),
        row(
            "five nodes, expiry",
            &[EqualDraws],
            Run {
                nodes: 5,
                timeout: 0,
                ..once(3)
            },
        ),
        row(
            "three clients, expiry",
            &[EqualDraws],
            Run {
                clients: 3,
                timeout: 0,
                ..once(2)
            },
        ),
    ]
}

fn faults() -> Vec<Row> {
    let with = |faults, budget, ticks| Run {
        attempts: 1,
        timeout: 0,
        faults,
        budget,
        ..for_ticks(ticks)
    };
    vec![
        row(
            "two crashes with data, renewal",
            &[RestartedWithData, Renewed],
            Run {
                renewals: 1,
                ..with(&[Crash], 2, 5)
            },
        ),
        row(
            "an empty restart, quarantine, renewal",
            &[RestartedEmpty, QuarantinedOut, Renewed],
            Run {
                renewals: 1,
                proposals: TIME,
                ..with(&[Empty], 1, 5)
            },
        ),
        row(
            "two empty restarts, quarantine",
            &[RestartedEmpty, QuarantinedOut],
            Run {
                proposals: TIME,
                ..with(&[Empty], 2, 5)
            },
        ),
        row(
            "an empty restart, estimates a tick apart",
            &[RestartedEmpty, QuarantinedOut],
            Run {
                proposals: Proposals::Time(&[0, -1]),
                ..with(&[Empty], 1, 4)
            },
        ),
        row(
            "a client's crash, renewal",
            &[ClientCrashed, Renewed],
            Run {
                renewals: 1,
                ..with(&[Client], 1, 5)
            },
        ),
        row(
            "five nodes, an empty restart, quarantine",
            &[RestartedEmpty],
            Run {
                nodes: 5,
                proposals: TIME,
                ..with(&[Empty], 1, 2)
            },
        ),
        row(
            "clock forward: S2lin, S3, S5",
            &[ClockStepped, EqualDraws],
            Run {
                budget: 1,
                faults: &[Forward],
                off: &["S1", "S2"],
                ..timeless(2, 0)
            },
        ),
    ]
}

/// Not covered by the exploration that came before the code.
fn handed_on() -> Vec<Row> {
    let hands_on = |run| Run {
        attempts: 1,
        timeout: 0,
        handoffs: 2,
        ..run
    };
    vec![
        row(
            "handed on twice",
            &[HandedOn, HandedOnStale, Expired],
            hands_on(for_ticks(4)),
        ),
        row(
            "handed on, renewals, drift with margin",
            &[HandedOn, HandOnRefused, Renewed, DriftedEarly],
            Run {
                ttl: 3,
                margin: 1,
                drifts: true,
                renewals: 1,
                handoffs: 1,
                ..hands_on(for_ticks(5))
            },
        ),
        row(
            "handed on, an empty restart, a client's crash",
            &[HandedOn, RestartedEmpty],
            Run {
                budget: 1,
                faults: &[Empty, Client],
                proposals: TIME,
                ..hands_on(for_ticks(3))
            },
        ),
        row(
            "handed on, fences, another key's draws",
            &[HandedOn, AdoptNeeded],
            Run {
                budget: 1,
                faults: &[OtherKey],
                handoffs: 1,
                ..timeless(2, 0)
            },
        ),
        row(
            "handed on though renewed",
            &[HandedOn, Renewed],
            Run {
                renewals: 1,
                mutant: Some(Mutant::HandsOnRenewed),
                ..hands_on(for_ticks(4))
            },
        ),
    ]
}

#[test]
#[ignore = "for a release build: docs/notes/model.md"]
fn explore_large_quorum() {
    hold(bounded(rows(), 1_000_000));
}
