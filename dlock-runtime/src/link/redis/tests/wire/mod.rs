//! What is stored at a server, and published there, stays as it was at commit 274d16ac, so that
//! processes of an old and of a new build share every key, kind and queue. `of_274d16ac` has its
//! scripts, and a session of its link, recorded on a private server. Each step is done again by those
//! scripts, by this link, and by both in turn: what is stored, pushed and answered is what was
//! recorded. The arguments of a script are a build's own, and are not compared.
//!
//! `session` reads the recording, `operations` does a step by the link, `old_scripts` by the scripts,
//! `stage` is the server and what is seen there, `masks` writes it so that it is the same each time.

mod masks;
mod old_scripts;
mod operations;
mod session;
mod stage;

use self::session::{Scenario, Step};
use self::stage::Stage;

/// A busy machine may need too long for one step, or for what lapses after 3 s …
const TRIES: usize = 50;
/// … or let the server wait between a script's reading of the time and its `PEXPIRE`.
const DIFFERENCES: usize = 3;

/// Who does a step.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Build {
    Old,
    New,
}

/// Does the whole session; who does a step depends on its number, from 0.
async fn compare(by: fn(usize) -> Build) {
    let session = session::read();
    let mut stage = Stage::new(&session.entries).await;
    let mut differences = Vec::new();
    let in_turn = by(0) != by(1);
    for scenario in session.scenarios {
        if !(scenario.differs && in_turn) {
            differences.extend(difference(&mut stage, &scenario, by).await);
        }
    }
    assert!(differences.is_empty(), "{}", differences.join("\n"));
}

/// The first step of which something else is seen than was recorded, if that is so each time.
async fn difference(
    stage: &mut Stage,
    scenario: &Scenario,
    by: fn(usize) -> Build,
) -> Option<String> {
    let expected = |(at, step): (usize, &Step)| expected(step, by(at));
    let expected: Vec<_> = scenario.steps.iter().enumerate().map(expected).collect();
    let mut differences = Vec::new();
    for _ in 0..TRIES {
        stage.clear(scenario.is_node).await;
        let Some(seen) = stage.all(&scenario.steps, by).await else {
            continue;
        };
        let differs = |at: &usize| counted(&expected[*at]) != counted(&seen[*at]);
        let at = (0..seen.len()).find(differs)?;
        let Scenario { title, steps, .. } = scenario;
        let Step {
            line, operation, ..
        } = &steps[at];
        let [expected, seen] = [&expected[at], &seen[at]].map(|it| it.join("\n"));
        differences.push(format!(
            "{title}: {operation} (line {line}), by the {:?} build\nrecorded:\n{expected}\nseen:\n{seen}\n",
            by(at)
        ));
        if differences.len() == DIFFERENCES {
            return differences.pop();
        }
    }
    panic!("{}: this machine is too slow", scenario.title)
}

/// What counts: how many epochs a step draws is a build's own. So the counter is not compared, nor which
/// of a step's epochs one is, nor whether it is the time.
fn counted(seen: &[String]) -> Vec<String> {
    let is_counter = |line: &&String| line.starts_with("  ") && line.contains("@fence");
    let word = |word: &str| {
        let bare = word.strip_suffix(',').unwrap_or(word);
        let end = &word[bare.len()..];
        let drawn = bare.strip_prefix('E').and_then(|it| it.split('-').next());
        let at_once = bare.strip_prefix('T').and_then(|it| it.strip_suffix("+0"));
        match drawn.or(at_once) {
            Some(step) if step.bytes().all(|it| it.is_ascii_digit()) => format!("E{step}{end}"),
            _ => word.to_owned(),
        }
    };
    let line = |line: &String| line.split(' ').map(word).collect::<Vec<_>>().join(" ");
    seen.iter().filter(|it| !is_counter(it)).map(line).collect()
}

/// What is to be seen of a step: the old scripts are asked for their replies, the link for its
/// answer.
fn expected(step: &Step, by: Build) -> Vec<String> {
    let key = |line: &str| line.split(' ').nth(2).map(str::to_owned);
    let since = |line: &String| {
        let mut since = step.since.iter();
        since
            .find(|it| by == Build::New && key(it) == key(line))
            .unwrap_or(line)
            .clone()
    };
    let told = match by {
        Build::Old => step.replies.iter().collect(),
        Build::New => Vec::from_iter(step.answer_since.as_ref().or(step.answer.as_ref())),
    };
    told.into_iter()
        .cloned()
        .chain(step.after.iter().map(since))
        .collect()
}

#[tokio::test]
async fn the_old_scripts_do_what_was_recorded() {
    compare(|_| Build::Old).await;
}

#[tokio::test]
async fn this_link_does_what_was_recorded() {
    compare(|_| Build::New).await;
}

#[tokio::test]
async fn both_in_turn_do_what_was_recorded_if_the_old_scripts_begin() {
    compare(|at| if at % 2 == 0 { Build::Old } else { Build::New }).await;
}

#[tokio::test]
async fn both_in_turn_do_what_was_recorded_if_this_link_begins() {
    compare(|at| if at % 2 == 0 { Build::New } else { Build::Old }).await;
}
