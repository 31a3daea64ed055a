//! The breadth-first search: it keeps each state's fingerprint, its parent and the step between, to
//! tell the way back.

use std::collections::{HashSet, VecDeque};
use std::time::{Duration, Instant};

use super::drain;
use super::run::Run;
use super::seen::Seen;
use super::step::Step;
use super::world::World;

/// The result of an exploration.
pub(super) struct Found {
    pub(super) states: usize,
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
    /// How many steps lead there.
    pub(super) steps: usize,
    pub(super) trace: String,
}

struct Node {
    parent: usize,
    step: Step,
    depth: usize,
}

/// Explores a run until there is nothing more to find, a property is broken, or enough states are
/// known.
pub(super) fn explore(run: &Run) -> Found {
    let begun = Instant::now();
    let first = World::new(run);
    let mut known = HashSet::from([first.fingerprint()]);
    let mut nodes = vec![Node {
        parent: 0,
        step: Step::Tick,
        depth: 0,
    }];
    let mut frontier = VecDeque::from([(first, 0)]);
    let mut found = Found {
        states: 1,
        depth: 0,
        exhausted: true,
        took: Duration::ZERO,
        seen: Seen::default(),
        violation: None,
    };
    'search: while let Some((world, at)) = frontier.pop_front() {
        found.depth = nodes[at].depth;
        if at % run.drain_every == 0
            && let Err((property, tail)) = drain::comes_to_rest(run, &world, &mut found.seen)
        {
            found.violation = Some(violation(run, &nodes, at, property, &tail));
            break;
        }
        for step in world.steps(run) {
            let mut next = world.clone();
            let wrong = next.step(run, step, &mut found.seen);
            if wrong.is_none() && !known.insert(next.fingerprint()) {
                continue;
            }
            let depth = nodes[at].depth + 1;
            nodes.push(Node {
                parent: at,
                step,
                depth,
            });
            if let Some(property) = wrong {
                found.violation = Some(violation(run, &nodes, nodes.len() - 1, property, &[]));
                break 'search;
            }
            if known.len() >= run.most_states {
                found.exhausted = false;
                break 'search;
            }
            frontier.push_back((next, nodes.len() - 1));
        }
    }
    found.states = known.len();
    found.exhausted &= found.violation.is_none();
    found.took = begun.elapsed();
    found
}

fn violation(
    run: &Run,
    nodes: &[Node],
    at: usize,
    property: &'static str,
    tail: &[Step],
) -> Violation {
    let mut steps = tail.to_vec();
    steps.reverse();
    let mut node = at;
    while node != 0 {
        steps.push(nodes[node].step);
        node = nodes[node].parent;
    }
    steps.reverse();
    Violation {
        property,
        steps: steps.len(),
        trace: retell(run, &steps),
    }
}

/// Repeats the steps, and describes the state after each.
fn retell(run: &Run, steps: &[Step]) -> String {
    use std::fmt::Write as _;
    let mut world = World::new(run);
    let mut told = String::new();
    for step in steps {
        let _ = world.step(run, *step, &mut Seen::default());
        let _ = writeln!(told, "{step:?}\n        {}", world.describe());
    }
    told
}
