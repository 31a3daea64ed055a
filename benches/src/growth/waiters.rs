//! One key, as in W3, with 2, 20, … waiters in two processes. More processes cost more with any
//! number of waiters, so the highest number is measured again in eight.

use std::time::{Duration, Instant};

use super::lane::{Lanes, Sample};
use crate::Failure;
use crate::contention::{Fleet, FleetRun, Rival, of_growth};
use crate::lab::Lab;
use crate::progress::Progress;
use crate::rounds::{Rounds, order};
use crate::statistics::real;

/// The number of waiters, and of processes.
type WaiterCrowd = (usize, usize);

const FULL: [WaiterCrowd; 5] = [(2, 2), (20, 2), (200, 2), (2_000, 2), (2_000, 8)];
const QUICK: [WaiterCrowd; 4] = [(2, 2), (20, 2), (200, 2), (200, 8)];

/// Returns the length of a run, too.
pub(super) async fn measure(lab: &Lab) -> Result<(Lanes, Duration), Failure> {
    let crowds: &[WaiterCrowd] = lab.scale.pick(&FULL, &QUICK);
    let ramp = Duration::from_millis(lab.scale.pick(600, 200));
    let length = Duration::from_millis(lab.scale.pick(1000, 600));
    let rounds = Rounds {
        most: lab.scale.pick(9, 2),
        within: Duration::from_secs(90),
    };
    let mut progress = Progress::new("growth, waiters");
    let rivals: Vec<&Rival> = of_growth().collect();
    let with =
        |(waiters, processes): &WaiterCrowd| format!("{waiters} waiters, {processes} processes");
    let with: Vec<_> = crowds.iter().map(with).collect();
    let mut lanes = Lanes::new(&with, &rivals.iter().map(|it| it.name).collect::<Vec<_>>());
    // In the order of the lanes.
    let games = crowds
        .iter()
        .flat_map(|crowd| rivals.iter().map(move |rival| (*crowd, *rival)));
    let games: Vec<_> = games.collect();
    let (begun, mut round) = (Instant::now(), 0);
    while rounds.another(round, begun) {
        for place in order(games.len(), round) {
            let Some(&((tasks, processes), rival)) = games.get(place) else {
                continue;
            };
            let name = rival.name;
            progress.tell(&format!(
                "round {} of {}, {tasks}, {name}",
                round + 1,
                rounds.most
            ));
            let fleet = Fleet {
                processes,
                tasks,
                hold: Duration::ZERO,
                think: Duration::ZERO,
                ramp,
                length,
            };
            let run = fleet.run(lab, rival).await?;
            lanes.add(place, sample(&run, rival, length));
        }
        round += 1;
    }
    Ok((lanes, length))
}

/// Commands and server time are divided by all turns, because they also include those outside the
/// measured span.
fn sample(run: &FleetRun, rival: &Rival, length: Duration) -> Sample {
    let (handoffs, turns) = (run.outcome.handoffs, real(run.outcome.all));
    let micros = |time: Duration| time.as_secs_f64() * 1e6;
    let calls = usize::try_from(run.work.calls(rival.sends)).unwrap_or(usize::MAX);
    let time = match handoffs {
        0 => f64::NAN,
        _ => micros(length) / real(handoffs),
    };
    Sample {
        time,
        server: micros(run.work.cpu) / turns,
        commands: real(calls) / turns,
        count: handoffs,
    }
}
