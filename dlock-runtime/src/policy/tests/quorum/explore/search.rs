//! The breadth-first search: it keeps each state's fingerprint, its parent and the step between, to
//! tell the way back.

use std::collections::{HashSet, VecDeque};
use std::fmt::Write as _;
use std::time::{Duration, Instant};

use super::run::Run;
use super::seen::Seen;
use super::step::{Outcome, Step};
use super::world::World;

/// The result of an exploration.
pub(super) struct Found {
    pub(super) states: usize,
    /// The length of the longest trace; all shorter ones were followed.
    pub(super) depth: usize,
    /// Every state within the run's bounds was reached.
    pub(super) exhausted: bool,
    pub(super) took: Duration,
    pub(super) seen: Seen,
    pub(super) violation: Option<Violation>,
}

/// The shortest way to a broken property.
pub(super) struct Violation {
    pub(super) property: &'static str,
    pub(super) steps: usize,
    pub(super) trace: String,
}

struct Known {
    parent: u32,
    depth: u16,
    step: Step,
}

/// Explores a run until there is nothing more to find, a property is broken, or enough states are
/// known.
pub(super) fn explore(run: &Run) -> Found {
    let begun = Instant::now();
    let first = World::new(run);
    let mut prints = HashSet::from([first.fingerprint()]);
    let mut known = vec![Known {
        parent: 0,
        depth: 0,
        step: Step::Tick,
    }];
    let mut frontier = VecDeque::from([(first, 0_u32)]);
    let mut found = Found {
        states: 1,
        depth: 0,
        exhausted: true,
        took: Duration::ZERO,
        seen: Seen::default(),
        violation: None,
    };
    let mut steps = Vec::new();
    'search: while let Some((world, at)) = frontier.pop_front() {
        let depth = known[at as usize].depth + 1;
        found.depth = usize::from(depth);
        steps.clear();
        world.steps(run, &mut steps);
        for step in &steps {
            let mut next = world.clone();
            let outcome = next.step(run, *step, &mut found.seen);
            let is_new = outcome == Outcome::Right && prints.insert(next.fingerprint());
            if !is_new && !matches!(outcome, Outcome::Wrong(_)) {
                continue;
            }
            known.push(Known {
                parent: at,
                depth,
                step: *step,
            });
            let last = u32::try_from(known.len() - 1).expect("bounded");
            if let Outcome::Wrong(property) = outcome {
                found.violation = Some(violation(run, &known, last, property));
                break 'search;
            }
            if prints.len() >= run.most_states {
                found.exhausted = false;
                break 'search;
            }
            frontier.push_back((next, last));
        }
    }
    found.states = prints.len();
    found.exhausted &= found.violation.is_none();
    found.took = begun.elapsed();
    found
}

fn violation(run: &Run, known: &[Known], at: u32, property: &'static str) -> Violation {
    let mut steps = Vec::new();
    let mut at = at as usize;
    while at != 0 {
        steps.push(known[at].step);
        at = known[at].parent as usize;
    }
    steps.reverse();
    Violation {
        property,
        steps: steps.len(),
        trace: retell(run, &steps),
    }
}

/// Repeats the steps, and describes the state after each.
pub(super) fn retell(run: &Run, steps: &[Step]) -> String {
    let mut world = World::new(run);
    let mut told = String::new();
    for step in steps {
        let told_step = world.name_of(*step);
        let _ = world.step(run, *step, &mut Seen::default());
        let _ = writeln!(told, "{told_step}\n        {}", world.describe());
    }
    told
}
