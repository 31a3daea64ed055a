//! Growth: the cost of a handoff with more waiters for the key, and of a cycle with more locks on
//! the server. Each figure is divided by the same contender's figure with the fewest, in the same
//! round.
//!
//! `waiters` is W3 with 2 waiters and more, `keys` is W2 beside other locks. Both collect `Sample`s
//! in `lane`.

mod keys;
mod lane;
mod waiters;

use crate::Failure;
use crate::chapter::{Chapter, Panel};
use crate::lab::Lab;

use lane::Lanes;

const HEAD: [&str; 9] = [
    "with",
    "contender",
    "time, µs",
    "time / fewest",
    "server CPU, µs",
    "server CPU / fewest",
    "commands",
    "commands / fewest",
    "n",
];

pub(crate) async fn chapter(lab: &Lab) -> Result<Chapter, Failure> {
    let (waiters, length) = waiters::measure(lab).await?;
    let keys = keys::measure(lab).await?;
    let panel = |title: &str, lanes: &Lanes| Panel {
        title: title.to_owned(),
        groups: lanes.groups(),
        series: lanes.series(),
    };
    Ok(Chapter {
        title: "Growth: a handoff with more waiters, a cycle with more locks".to_owned(),
        notes: vec![
            format!(
                "Waiters want one key; a handoff, once all have asked. Rounds of {} s: {}. Fencing tokens grew from each \
                 turn to the next, and no two held the lock at once, as in W3.",
                length.as_secs_f64(),
                waiters.rounds()
            ),
            format!(
                "Other locks are held by nobody who asks for anything: so many keys with the values of dlock's; a cycle of {} tasks with a key \
                 each, on a server for each number. Rounds: {}.",
                keys::TASKS,
                keys.rounds()
            ),
        ],
        head: HEAD.to_vec(),
        rows: [waiters.rows(), keys.rows()].concat(),
        panels: vec![
            panel("Growth: time of a handoff, 2 waiters = 1", &waiters),
            panel("Growth: time of a cycle, 1 other lock = 1", &keys),
        ],
    })
}
