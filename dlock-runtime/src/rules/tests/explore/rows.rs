//! The tables: runs that keep every promise and show what they are for, and known-bad variants, each
//! with what catches it after how many steps.

use super::Model;
use super::search::{Found, explore};

/// A run, and what must have happened in it.
pub(crate) struct Row<M: Model> {
    pub(crate) name: String,
    pub(crate) run: M::Run,
    /// The search ends there.
    pub(crate) most_states: usize,
    pub(crate) sees: &'static [M::Witness],
}

impl<M: Model> Row<M> {
    /// Explored to its end.
    pub(crate) fn new(name: &str, sees: &'static [M::Witness], run: M::Run) -> Self {
        Self {
            name: name.to_owned(),
            run,
            most_states: usize::MAX,
            sees,
        }
    }
}

/// The same runs, ended after so many states …
pub(crate) fn bounded<M: Model>(rows: Vec<Row<M>>, most_states: usize) -> Vec<Row<M>> {
    let bound = |row| Row { most_states, ..row };
    rows.into_iter().map(bound).collect()
}

/// … and what takes longer to happen is not asked for.
pub(crate) fn small<M: Model>(rows: Vec<Row<M>>, most_states: usize) -> Vec<Row<M>> {
    let ask = |row| Row { sees: &[], ..row };
    bounded(rows.into_iter().map(ask).collect(), most_states)
}

/// Explores each row, and prints it as a line of a table. Returns how many states each has.
#[track_caller]
pub(crate) fn hold<M: Model>(rows: Vec<Row<M>>) -> Vec<usize> {
    println!("| run | bounds | states | covered | took |\n| --- | --- | --- | --- | --- |");
    let (mut all, mut wrong) = (Vec::new(), Vec::new());
    for row in rows {
        let (name, bounds) = (row.name, M::bounds_of(&row.run));
        let Found {
            states,
            depth,
            exhausted,
            took,
            seen,
            violation,
        } = explore::<M>(&row.run, row.most_states);
        let covered = match &violation {
            Some(it) => it.property.to_owned(),
            None if exhausted => "exhaustive".to_owned(),
            None => format!("every trace of {depth} steps"),
        };
        println!("| {name} | {bounds} | {states} | {covered} | {took:.1?} |");
        wrong.extend(violation.map(|it| format!("{name}: {it}")));
        let missing = seen.missing(row.sees);
        if !missing.is_empty() {
            wrong.push(format!("{name}: never {missing:?}"));
        }
        all.push(states);
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    all
}

/// A variant, or a world in which the protocol as it ships does not keep a promise.
pub(crate) struct Bad<M: Model> {
    pub(crate) name: String,
    pub(crate) run: M::Run,
    pub(crate) most_states: usize,
    pub(crate) caught_by: &'static str,
    /// The length of the shortest trace.
    pub(crate) steps: usize,
}

/// Each is caught by its property after its number of steps, neither sooner nor later.
#[track_caller]
pub(crate) fn catch<M: Model>(bad: Vec<Bad<M>>) {
    let mut missed = Vec::new();
    for it in bad {
        let found = explore::<M>(&it.run, it.most_states);
        let violation = found.violation.as_ref();
        let told = violation.map_or("nothing".to_owned(), ToString::to_string);
        let (name, states, took) = (it.name, found.states, found.took);
        println!("{name}: {states} states, {took:.1?}: {told}");
        if !violation.is_some_and(|wrong| wrong.is(it.caught_by) && wrong.steps == it.steps) {
            missed.push(format!("{name}: {told}"));
        }
    }
    assert!(missed.is_empty(), "{}", missed.join("\n"));
}
