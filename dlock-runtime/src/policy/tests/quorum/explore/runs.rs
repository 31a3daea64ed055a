use super::run::*;
use super::search::explore;
use super::seen::Witness;

#[test]
fn try_one() {
    for run in [
        Run {
            ticks: 1,
            most_states: 30_000,
            ..Run::default()
        },
        Run {
            ttl: LONG,
            timeout: LONG,
            ticks: 1,
            give_ups: 1,
            proposals: Proposals::Any(&[0, 3]),
            attempts: 2,
            most_states: 30_000,
            ..Run::default()
        },
        Run {
            ticks: 4,
            most_states: 30_000,
            ..Run::default()
        },
    ] {
        let found = explore(&run);
        println!(
            "{} states, depth {}, {:?}, exhausted {}, seen {:?} {}",
            found.states,
            found.depth,
            found.took,
            found.exhausted,
            found.seen,
            found.seen.has_seen(Witness::Ended)
        );
        if let Some(v) = found.violation {
            println!("{} after {}\n{}", v.property, v.steps, v.trace);
        }
    }
}
