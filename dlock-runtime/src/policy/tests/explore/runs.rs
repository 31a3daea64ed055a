//! The explorations of the shipped machines.

use super::fault::Kind;
use super::run::{Run, Wants};
use super::search::explore;

#[test]
fn a_small_fleet() {
    let most: usize = std::env::var("MOST").ok().and_then(|it| it.parse().ok()).unwrap_or(300_000);
    let only = std::env::var("ONLY").unwrap_or_default();
    const ALL: &[Kind] = &[Kind::Break, Kind::Push, Kind::Stall, Kind::Crash, Kind::Twice, Kind::Driver, Kind::Foreign, Kind::QueueLost];
    const F: Wants = Wants::Forever;
    let ms = |ms| std::time::Duration::from_millis(ms);
    for (name, run) in [
        ("renew stall", Run { renews: true, budget: 1, faults: &[Kind::Stall], ..Run::default() }),
        ("all1 a1", Run { budget: 1, faults: ALL, ..Run::default() }),
        ("all1 a2 renew cancel", Run { budget: 1, attempts: 2, renews: true, cancels: 1, faults: ALL, ..Run::default() }),
        ("all2 a1", Run { budget: 2, faults: ALL, ..Run::default() }),
        ("memory", Run { budget: 1, attempts: 2, faults: &[Kind::Memory, Kind::Stall], ..Run::default() }),
        ("async", Run { asynchronous: true, drain_every: 50, ..Run::default() }),
        ("three", Run { budget: 1, faults: ALL, processes: &[&[F], &[F], &[F]], ..Run::default() }),
        ("local two", Run { budget: 1, faults: ALL, attempts: 3, cancels: 1, processes: &[&[F, F], &[F]], ..Run::default() }),
        ("wait over", Run { budget: 1, faults: ALL, attempts: 2, processes: &[&[Wants::For], &[F]], ..Run::default() }),
        ("wait over 2", Run { budget: 1, faults: ALL, attempts: 3, cancels: 1, processes: &[&[Wants::For, F], &[Wants::Once]], ..Run::default() }),
        ("min_hold", Run { budget: 1, faults: ALL, attempts: 2, cancels: 1, min_hold: Some(ms(4000)), ..Run::default() }),
        ("min_hold short", Run { budget: 1, faults: ALL, attempts: 2, renews: true, min_hold: Some(ms(2000)), ..Run::default() }),
        ("timeless", Run { budget: 1, faults: ALL, timeless_pushes: true, ..Run::default() }),
    ] {
        if !name.contains(&only) { continue; }
        let run = Run { most_states: most, ..run };
        let found = explore(&run);
        println!(
            "{name}: {} states, depth {}, {} {:?} {:?}",
            found.states, found.depth, found.exhausted, found.took, found.seen
        );
        if let Some(wrong) = found.violation {
            println!("{} after {} steps\n{}", wrong.property, wrong.steps, wrong.trace);
        }
    }
}
