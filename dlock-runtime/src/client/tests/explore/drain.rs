//! Liveness: when nothing more goes wrong, everything comes to rest soon.
//!
//! From a given state on, stalled processes resume, bodies end, and the first (or always the last)
//! possible step is taken, until no waiter, no holder and nothing else is left.

use super::kind::{Keeps, token_of_entry};
use super::process::Process;
use super::run::Run;
use super::seen::{Seen, Witness};
use super::step::Step;
use super::world::{KEY, World, token_in};
use crate::rules::tests::explore::{Model, Outcome};
use crate::values::token::Token;

/// The property that is broken on the way to rest, with the steps.
pub(super) type Broken = (&'static str, Vec<Step>);

pub(super) fn comes_to_rest(run: &Run, world: &World, seen: &mut Seen) -> Result<(), Broken> {
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
) -> Result<(), Broken> {
    let mut world = world.clone();
    world.budget = 0;
    world.cancels = 0;
    let mut run = run.clone();
    run.asynchronous = false;
    let mut way = Vec::new();
    let calm = world.clock.ticks;
    while !world.is_at_rest(&run) {
        let step = world.calm_step(&run, last, limbo);
        way.push(step);
        if let Outcome::Wrong(property) = world.step(&run, step, seen) {
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
    /// The next step of a world in which nothing goes wrong.
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
        let mut choices = Vec::new();
        self.steps(run, &mut choices);
        let in_vain = run.keeps == Keeps::TheFirst;
        let ends = |it: &&Step| match it {
            Step::BodyEnds(..) | Step::ForeignReleases => true,
            Step::WaitOver(..) => in_vain,
            _ => false,
        };
        choices.iter().find(ends).copied().unwrap_or(Step::Tick)
    }

    /// No waiters, no holders, nothing left.
    fn is_at_rest(&mut self, run: &Run) -> bool {
        let time = self.clock.time();
        let (standing, waiting) = (self.standing(), self.server().waiting(KEY, time));
        let ever = |at: usize| {
            let bodies = self.processes[at].bodies().count();
            at == 0 && bodies > 0 && run.keeps == Keeps::TheFirst
        };
        let is_to_go = |of: Option<(usize, Token)>| {
            of.is_none_or(|(at, _)| self.processes[at].alive && !ever(at))
        };
        let left = standing.iter().any(|value| is_to_go(token_in(value)))
            || waiting
                .iter()
                .any(|(entry, _)| is_to_go(token_of_entry(entry)));
        let rests = |it: &Process| !it.alive || ever(it.at) || it.is_at_rest();
        !left && self.processes.iter().all(|it| rests(it))
    }
}
