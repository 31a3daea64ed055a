//! Runs several players that begin and end at the same moment, and collects their turns.

use std::ops::Range;
use std::time::Duration;

use super::player::Game;
use super::rivals::Rival;
use super::turns::{Outcome, Turn};
use crate::lab::Lab;
use crate::part::{Part, now};
use crate::server_cost::Work;
use crate::{Failure, story};

/// From the last "ready" to the start: until then all players have been told.
const AHEAD: Duration = Duration::from_millis(50);

#[derive(Debug, Clone, Copy)]
pub(crate) struct Fleet {
    pub(crate) processes: usize,
    /// Tasks of all processes, distributed as evenly as possible.
    pub(crate) tasks: usize,
    pub(crate) hold: Duration,
    pub(crate) think: Duration,
    /// Time before the run counts, so that all tasks have asked for the lock.
    pub(crate) ramp: Duration,
    pub(crate) length: Duration,
}

/// The result of one run.
pub(crate) struct FleetRun {
    pub(crate) outcome: Outcome,
    /// The server's work from the start until all players had ended.
    pub(crate) work: Work,
}

impl Fleet {
    pub(crate) async fn run(&self, lab: &Lab, rival: &Rival) -> Result<FleetRun, Failure> {
        let failed = |why: Failure| format!("{}: {}", rival.name, story(&*why)).into();
        self.play(lab, rival).await.map_err(failed)
    }

    async fn play(&self, lab: &Lab, rival: &Rival) -> Result<FleetRun, Failure> {
        let mut control = lab.control().await?;
        control.clear().await?;
        let parts = self.start(&lab.url(), rival)?;
        let before = control.reading().await?;
        let outcome = self.outcome(parts)?;
        let work = control.reading().await?.since(&before);
        Ok(FleetRun { outcome, work })
    }

    /// The same at a server that is not the lab's.
    pub(crate) fn run_at(&self, url: &str, rival: &Rival) -> Result<Outcome, Failure> {
        self.outcome(self.start(url, rival)?)
    }

    fn outcome(&self, mut parts: Vec<Part>) -> Result<Outcome, Failure> {
        let from = now() + nanos(AHEAD);
        let counted = from + nanos(self.ramp)..from + nanos(self.ramp + self.length);
        let until = counted.end;
        for part in &mut parts {
            part.tell(&format!("{from} {until}"))?;
        }
        Ok(Outcome::of(gather(parts)?, self.tasks, &counted)?)
    }

    /// Starts the players, and waits until all are ready.
    fn start(&self, url: &str, rival: &Rival) -> Result<Vec<Part>, Failure> {
        let settings = [&[("DLOCK_URL", url)], rival.settings].concat();
        let parts = (0..self.processes)
            .map(|process| {
                let own = self.tasks_of(process);
                let game = Game {
                    kind: rival.kind,
                    first: own.start,
                    tasks: own.len(),
                    hold: self.hold,
                    think: self.think,
                };
                let words = format!("player {url} {game}");
                let words: Vec<String> = words.split(' ').map(str::to_owned).collect();
                Part::start(&words, &settings)
            })
            .collect::<Result<Vec<_>, Failure>>();
        let mut parts = parts?;
        for part in &mut parts {
            part.line("ready")?;
        }
        Ok(parts)
    }

    fn tasks_of(&self, process: usize) -> Range<usize> {
        let before = |process| self.tasks * process / self.processes;
        before(process)..before(process + 1)
    }
}

fn gather(parts: Vec<Part>) -> Result<Vec<Turn>, Failure> {
    let mut turns = Vec::new();
    for mut part in parts {
        loop {
            let line = part.line("")?;
            if line == "done" {
                break;
            }
            let turn = Turn::parse(&line).ok_or_else(|| format!("`{line}` is no turn"))?;
            turns.push(turn);
        }
        part.end()?;
    }
    Ok(turns)
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests;
