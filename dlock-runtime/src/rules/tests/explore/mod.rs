//! What all explorations have in common: a world, its steps and what is wrong with one (`Model`);
//! every order of the steps, breadth first (`search`); some at random, where no search reaches
//! (`walk`); the runs that must hold, and the known-bad variants that must be caught (`rows`).
//!
//! The models are `quorum/explore`, `quorum/records`, `slot_move`, `once_per`, and `explore` of the client's tests:
//! its fleets and the local queue alone. Never in this folder: what a step means.

mod rows;
mod search;
mod walk;

use std::fmt::Debug;
use std::marker::PhantomData;

pub(crate) use rows::{Bad, Row, bounded, catch, hold, small};
pub(crate) use search::explore;
pub(crate) use walk::{Walks, first_wrong, walk, walk_all};

/// A state of a world that is explored.
pub(crate) trait Model: Clone {
    /// Who takes part, and what may go wrong, how often.
    type Run;
    type Step: Copy + Debug;
    type Witness: Witness;

    fn first(run: &Self::Run) -> Self;

    /// What can happen next, into a vector that is empty. The order is that of the search.
    fn steps(&self, run: &Self::Run, steps: &mut Vec<Self::Step>);

    fn step(
        &mut self,
        run: &Self::Run,
        step: Self::Step,
        seen: &mut Seen<Self::Witness>,
    ) -> Outcome;

    /// Equal for all states that count as one.
    fn fingerprint(&self) -> u128;

    /// For people who read a trace.
    fn describe(&self) -> String;

    /// For the same people, before the step is taken.
    fn name_of(&self, step: Self::Step) -> String {
        format!("{step:?}")
    }

    /// What the line of a run in a table says of its bounds.
    fn bounds_of(_: &Self::Run) -> String {
        String::new()
    }

    /// What must follow from this state, the search's n-th; otherwise the property and the steps
    /// behind the state that break it.
    fn rests(
        &self,
        _: &Self::Run,
        _n: usize,
        _: &mut Seen<Self::Witness>,
    ) -> Result<(), (&'static str, Vec<Self::Step>)> {
        Ok(())
    }
}

/// What a step led to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    Right,
    /// This property is broken.
    Wrong(&'static str),
    /// To nothing that another step does not lead to.
    Pointless,
}

impl From<Option<&'static str>> for Outcome {
    fn from(wrong: Option<&'static str>) -> Self {
        wrong.map_or(Outcome::Right, Outcome::Wrong)
    }
}

/// Something that may happen in a run.
pub(crate) trait Witness: Copy + Debug + 'static {
    /// Its place among the 64 of a model.
    fn place(self) -> u8;
}

/// What has happened in a run: an exploration in which something never happened proves nothing
/// about it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Seen<W>(u64, PhantomData<W>);

impl<W> Default for Seen<W> {
    fn default() -> Self {
        Self(0, PhantomData)
    }
}

impl<W: Witness> Seen<W> {
    pub(crate) fn saw(&mut self, witness: W) {
        self.0 |= 1 << witness.place();
    }

    /// Adds what another run has seen.
    pub(crate) fn and(&mut self, other: Self) {
        self.0 |= other.0;
    }

    pub(crate) fn missing(self, expected: &[W]) -> Vec<W> {
        let is_missing = |it: &W| self.0 & (1 << it.place()) == 0;
        expected.iter().copied().filter(is_missing).collect()
    }

    /// Nothing of what is expected is missing.
    #[track_caller]
    pub(crate) fn shows(self, expected: &[W]) {
        let missing = self.missing(expected);
        assert!(missing.is_empty(), "never {missing:?}");
    }
}
