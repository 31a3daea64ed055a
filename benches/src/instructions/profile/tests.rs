//! Parsing callgrind's output, and the cost of a cycle as a difference.

#![allow(clippy::float_cmp, reason = "sums of whole numbers")]

use super::{Profile, ProfiledCycle};
use crate::instructions::crates::Crate;

/// A file like callgrind's: `main` runs `cycles` cycles after a start-up that costs 1,000.
fn profile(cycles: u64) -> Profile {
    let [start, all] = [1_000 + 2 * cycles, 40 * cycles];
    let text = format!(
        "# callgrind format\n\
         events: Ir sysCount sysTime\n\
         summary: 1 2 3\n\
         \n\
         fl=benches/src/main.rs\n\
         fn=dlock_benches::main\n\
         7 {start} 5 1\n\
         cfi=/rustc/1/library/alloc/src/alloc.rs\n\
         cfn=malloc\n\
         calls={cycles} 0\n\
         8 {all} {cycles} 9\n\
         fi=/rustc/1/library/core/src/fmt/mod.rs\n\
         9 {cycles}\n\
         fe=benches/src/main.rs\n\
         \n\
         fl=???\n\
         fn=malloc\n\
         0 {all} {cycles} 9\n\
         totals: 1 2 3\n"
    );
    Profile::parse(&text).unwrap()
}

#[test]
fn what_is_done_once_is_no_part_of_a_cycle() {
    let cycle = ProfiledCycle::of(&profile(10), &profile(30), 20);
    assert_eq!(cycle.instructions, 2.0 + 40.0 + 1.0);
    assert_eq!(cycle.allocations, 1.0);
    assert_eq!((cycle.system_calls, cycle.clock_readings), (1.0, 0.0));
    assert_eq!(cycle.of_crate(Crate::Dlock), 2.0);
    assert_eq!(cycle.of_crate(Crate::Std), 1.0);
    assert_eq!(cycle.of_crate(Crate::Allocator), 40.0);
}

#[test]
fn a_call_costs_its_caller_what_was_called() {
    let cycle = ProfiledCycle::of(&profile(10), &profile(30), 20);
    assert_eq!(cycle.functions(), [("dlock_benches::main", 3.0, 43.0)]);
    assert_eq!(cycle.allocators(), [("dlock_benches::main", 1.0)]);
    let files = [
        ("the allocator", 40.0),
        ("benches/src/main.rs", 2.0),
        ("core/src/fmt/mod.rs", 1.0),
    ];
    assert_eq!(cycle.files(), files);
}

#[test]
fn a_file_without_counts_is_an_error() {
    let told = Profile::parse("events: Ir\n").unwrap_err().to_string();
    assert_eq!(told, "callgrind has counted nothing");
    assert!(Profile::parse("fn=a\n1 x\n").is_err());
}
