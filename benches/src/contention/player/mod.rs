//! One process, whose tasks ask for the key until the run is over. Then it reports all their turns.

use std::fmt;
use std::io::{BufWriter, Write as _};
use std::time::Duration;

use futures_util::future::join_all;
use tokio::time::sleep;

use super::rivals::{Hand, Kind};
use super::turns::Turn;
use crate::Failure;
use crate::part::{left, now, told};

/// The arguments on a player's command line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Game {
    pub(crate) kind: Kind,
    /// The number of its first task among those of all processes.
    pub(crate) first: usize,
    pub(crate) tasks: usize,
    pub(crate) hold: Duration,
    /// The pause between a task's turn and its next request.
    pub(crate) think: Duration,
}

impl Game {
    fn parse(words: &[String]) -> Option<Self> {
        let [kind, first, tasks, hold, think] = words else {
            return None;
        };
        let kind = Kind::WORDS.into_iter().find(|(word, _)| word == kind)?;
        let micros = |word: &str| word.parse().ok().map(Duration::from_micros);
        Some(Self {
            kind: kind.1,
            first: first.parse().ok()?,
            tasks: tasks.parse().ok()?,
            hold: micros(hold)?,
            think: micros(think)?,
        })
    }
}

/// The arguments as [`Game::parse`] reads them.
impl fmt::Display for Game {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = Kind::WORDS.into_iter().find(|(_, kind)| *kind == self.kind);
        let kind = kind.map_or("", |(word, _)| word);
        let (hold, think) = (self.hold.as_micros(), self.think.as_micros());
        write!(f, "{kind} {} {} {hold} {think}", self.first, self.tasks)
    }
}

/// Runs the process: prints `ready`, reads when the run begins and ends, then prints its turns and
/// `done`.
pub(crate) async fn play(url: &str, words: &[String]) -> Result<(), Failure> {
    let game = Game::parse(words).ok_or("a player's words make no game")?;
    let hand = game.kind.connect(url).await?;
    println!("ready");
    let told = told()?;
    let span = told.split_once(' ').ok_or("no span to play in")?;
    let (from, until) = (span.0.parse()?, span.1.parse()?);
    let numbers = game.first..game.first + game.tasks;
    let tasks = numbers.map(|task| tokio::spawn(turns(hand.clone(), game, task, from, until)));
    let mut stdout = BufWriter::new(std::io::stdout());
    for ended in join_all(tasks).await {
        for turn in ended?? {
            writeln!(stdout, "{}", turn.line())?;
        }
    }
    writeln!(stdout, "done")?;
    Ok(stdout.flush()?)
}

async fn turns(
    mut hand: Hand,
    game: Game,
    task: usize,
    from: u64,
    until: u64,
) -> Result<Vec<Turn>, Failure> {
    let mut turns = Vec::new();
    sleep(left(from)).await;
    loop {
        let asked = now();
        if asked >= until {
            return Ok(turns);
        }
        let held = hand.turn(game.hold).await?;
        turns.push(Turn {
            task,
            asked,
            begin: held.begin,
            end: held.end,
            fence: held.fence,
        });
        if !game.think.is_zero() {
            sleep(game.think).await;
        }
    }
}

#[cfg(test)]
mod tests;
