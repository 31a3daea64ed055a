//! Liveness: when nothing more goes wrong, everything comes to rest, soon.
//!
//! From a state on, whatever stands still goes on, bodies end, and the first (or always the last) of
//! the steps that are possible is taken, until nobody waits and nothing is left.

use super::run::Run;
use super::seen::{Seen, Witness};
use super::step::Step;
use super::world::{KEY, World};

/// The property that is broken on the way, and the way.
pub(super) fn comes_to_rest(
    run: &Run,
    world: &World,
    seen: &mut Seen,
) -> Result<(), (&'static str, Vec<Step>)> {
    if !world.limbo.is_empty() {
        rests(run, world, seen, [true, true])?;
    }
    rests(run, world, seen, [false, false])?;
    rests(run, world, seen, [true, false])
}

fn rests(
    run: &Run,
    world: &World,
    seen: &mut Seen,
    [last, limbo]: [bool; 2],
) -> Result<(), (&'static str, Vec<Step>)> {
    let mut world = world.clone();
    world.budget = 0;
    world.cancels = 0;
    let mut run = run.clone();
    run.asynchronous = false;
    let mut way = Vec::new();
    let calm = world.clock.ticks;
    while !world.is_at_rest() {
        let step = world.calm_step(&run, last, limbo);
        way.push(step);
        if let Some(property) = world.step(&run, step, seen) {
            return Err((property, way));
        }
        if world.clock.ticks > calm + run.rest || way.len() > 400 {
            return Err(("L1 no rest", way));
        }
    }
    seen.saw(Witness::Rest);
    Ok(())
}

impl World {
    /// A step of a world in which everything goes on.
    fn calm_step(&self, run: &Run, last: bool, limbo: bool) -> Step {
        for process in self.processes.iter().filter(|it| it.alive) {
            if process.stall.is_some() {
                return Step::Resume(process.at);
            }
            if !self.channels.contains(&(process.at, process.connection)) {
                return Step::Listens(process.at);
            }
        }
        if limbo && !self.limbo.is_empty() {
            return Step::Limbo(0);
        }
        let urgent = self.urgent(run);
        let urgent = if last { urgent.last() } else { urgent.first() };
        if let Some(step) = urgent {
            return *step;
        }
        let choices = self.steps(run);
        let ends = |it: &&Step| matches!(it, Step::BodyEnds(..) | Step::ForeignReleases);
        choices.iter().find(ends).copied().unwrap_or(Step::Tick)
    }

    /// Nobody waits, nothing is held, nothing is left.
    fn is_at_rest(&mut self) -> bool {
        let time = self.clock.time();
        let living = |value: &str| {
            let of = super::serve::holder_of(value);
            of.is_none_or(|(at, _)| self.processes[at].alive)
        };
        let mut server = (*self.server).clone();
        let left = server.read(KEY, time).is_some_and(|value| living(&value))
            || server.waiting(KEY, time).iter().any(|(entry, _)| {
                crate::policy::queue::read(entry).is_some_and(|entry| living(entry.value))
            });
        !left && self.processes.iter().all(|it| !it.alive || it.is_at_rest())
    }
}
