//! The breadth-first search: it keeps each state's fingerprint, its parent and the step between, to
//! tell the way back. A violation is the shortest there is.

use std::collections::{HashSet, VecDeque};
use std::fmt::{self, Write as _};
use std::time::{Duration, Instant};

use super::{Model, Outcome, Seen};

/// The result of an exploration.
pub(crate) struct Found<M: Model> {
    pub(crate) states: usize,
    /// Every trace of so many steps was followed.
    pub(crate) depth: usize,
    /// Every state within the run's bounds was reached.
    pub(crate) exhausted: bool,
    pub(crate) took: Duration,
    pub(crate) seen: Seen<M::Witness>,
    pub(crate) violation: Option<Violation>,
}

/// The way to a broken property.
#[derive(Debug)]
pub(crate) struct Violation {
    pub(crate) property: &'static str,
    /// How many steps lead there.
    pub(crate) steps: usize,
    pub(crate) trace: String,
}

impl Violation {
    /// Whether this property is broken, by its number or its whole name.
    pub(crate) fn is(&self, property: &str) -> bool {
        let rest = self.property.strip_prefix(property);
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(' '))
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Violation {
            property,
            steps,
            trace,
        } = self;
        write!(f, "{property} after {steps} steps\n{trace}")
    }
}

/// Small, since there are millions.
struct Known<S> {
    parent: u32,
    depth: u16,
    /// None leads to the first state.
    step: Option<S>,
}

/// Explores a run until there is nothing more to find, a property is broken, or enough states are
/// known.
pub(crate) fn explore<M: Model>(run: &M::Run, most_states: usize) -> Found<M> {
    let begun = Instant::now();
    let first = M::first(run);
    let mut prints = HashSet::from([first.fingerprint()]);
    let mut known = vec![Known {
        parent: 0,
        depth: 0,
        step: None,
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
        let depth = known[at as usize].depth;
        found.depth = depth.into();
        if let Err((property, tail)) = world.rests(run, at as usize, &mut found.seen) {
            found.violation = Some(violation::<M>(run, &known, at, property, &tail));
            break;
        }
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
                depth: depth + 1,
                step: Some(*step),
            });
            let last = u32::try_from(known.len() - 1).expect("bounded");
            if let Outcome::Wrong(property) = outcome {
                found.violation = Some(violation::<M>(run, &known, last, property, &[]));
                break 'search;
            }
            if prints.len() >= most_states {
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

/// `tail`: the steps behind the last known state.
fn violation<M: Model>(
    run: &M::Run,
    known: &[Known<M::Step>],
    at: u32,
    property: &'static str,
    tail: &[M::Step],
) -> Violation {
    let mut way = Vec::new();
    let mut node = &known[at as usize];
    while let Some(step) = node.step {
        way.push(step);
        node = &known[node.parent as usize];
    }
    way.reverse();
    way.extend_from_slice(tail);
    Violation {
        property,
        steps: way.len(),
        trace: retell::<M>(run, &way),
    }
}

/// Repeats the steps, and describes the state after each.
fn retell<M: Model>(run: &M::Run, way: &[M::Step]) -> String {
    let mut world = M::first(run);
    let mut told = String::new();
    for step in way {
        let name = world.name_of(*step);
        let _ = world.step(run, *step, &mut Seen::default());
        let _ = writeln!(told, "{name}\n        {}", world.describe());
    }
    told
}
