//! A random walk over the steps of a model, longer or through a larger world than can be searched. A
//! seed repeats to the step.

use std::ops::Range;

use fastrand::Rng;

use super::search::Violation;
use super::{Model, Outcome, Seen};

/// A model that is also walked.
pub(crate) trait Walks: Model {
    /// How often a step is drawn.
    const DRAWS: usize;

    /// Whether a step that was drawn is taken.
    fn takes(_: &mut Rng, _: Self::Step) -> bool {
        true
    }

    /// Renews what would run out in a long walk.
    fn refill(&mut self) {}
}

pub(crate) struct Walked<M: Model> {
    pub(crate) steps: usize,
    pub(crate) seen: Seen<M::Witness>,
}

/// Walks the seed with this number until nothing more can happen, or often enough; the violation
/// tells the last steps.
pub(crate) fn walk<M: Walks>(run: &M::Run, number: u64) -> Result<Walked<M>, Violation> {
    let mut random = Rng::with_seed(number);
    let mut world = M::first(run);
    let mut seen = Seen::default();
    let (mut steps, mut taken) = (Vec::new(), Vec::new());
    let violation = |taken: &[M::Step], property, world: &M| {
        let last: Vec<_> = taken.iter().rev().take(40).rev().collect();
        Violation {
            property,
            steps: taken.len(),
            trace: format!("{last:?}\n{}", world.describe()),
        }
    };
    for _ in 0..M::DRAWS {
        world.refill();
        steps.clear();
        world.steps(run, &mut steps);
        let Some(step) = random.choice(&steps).copied() else {
            break;
        };
        if !M::takes(&mut random, step) {
            continue;
        }
        let mut next = world.clone();
        let outcome = next.step(run, step, &mut seen);
        if outcome == Outcome::Pointless {
            continue;
        }
        taken.push(step);
        world = next;
        if let Outcome::Wrong(property) = outcome {
            return Err(violation(&taken, property, &world));
        }
        if let Err((property, tail)) = world.rests(run, taken.len(), &mut seen) {
            taken.extend(tail);
            return Err(violation(&taken, property, &world));
        }
    }
    Ok(Walked {
        steps: taken.len(),
        seen,
    })
}

/// Walks all seeds, and adds up what they show.
#[track_caller]
pub(crate) fn walk_all<M: Walks>(run: &M::Run, seeds: Range<u64>) -> Walked<M> {
    let (mut steps, mut seen) = (0, Seen::default());
    for seed in seeds {
        let walked =
            walk::<M>(run, seed).unwrap_or_else(|violation| panic!("seed {seed}: {violation}"));
        steps += walked.steps;
        seen.and(walked.seen);
    }
    Walked { steps, seen }
}

/// The first seed that shows a violation.
pub(crate) fn first_wrong<M: Walks>(run: &M::Run, seeds: Range<u64>) -> Option<(u64, Violation)> {
    let wrong = |seed| Some((seed, walk::<M>(run, seed).err()?));
    seeds.into_iter().find_map(wrong)
}
