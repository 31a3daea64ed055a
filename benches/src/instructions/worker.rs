//! The child process: a fixed number of cycles of one contender. It prints nothing; callgrind
//! counts.

use super::Block;
use crate::Failure;
use crate::contenders::ours::{self, Background, Confirmed};
use crate::contenders::peer::{self, Peer};
use crate::contenders::raw::{self, Raw};
use crate::contenders::{Contender, TTL};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Workload {
    Raw,
    Rslock,
    Dlock,
    Background,
}

impl Workload {
    /// The first is the divisor of the others' ratios.
    pub(super) const ALL: [Self; 4] = [Self::Raw, Self::Rslock, Self::Dlock, Self::Background];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Raw => "raw",
            Self::Rslock => "rslock",
            Self::Dlock => "dlock",
            Self::Background => "dlock, background",
        }
    }

    /// The arguments of [`work`].
    pub(super) fn words(self, url: &str, block: Block) -> Vec<String> {
        let words = ["worker", self.name(), url].map(str::to_owned);
        let numbers = [block.tasks, block.cycles].map(|number| number.to_string());
        [words.to_vec(), numbers.to_vec()].concat()
    }

    async fn connect(self, url: &str) -> Result<Contender, Failure> {
        let name = self.name();
        Ok(match self {
            Self::Raw => Contender::new(name, raw::SENDS, Raw::connect(url, TTL).await?),
            Self::Rslock => Contender::new(name, peer::SENDS, Peer::new(url)),
            Self::Dlock => Contender::new(name, ours::SENDS, Confirmed(ours::pool(url).await?)),
            Self::Background => {
                Contender::new(name, ours::SENDS, Background(ours::pool(url).await?))
            }
        })
    }
}

/// Runs the process; `words` are its arguments after the first.
pub(crate) async fn work(words: &[String]) -> Result<(), Failure> {
    let [name, url, tasks, cycles] = words else {
        return Err("a worker has four words".into());
    };
    let workload = Workload::ALL.into_iter().find(|it| it.name() == name);
    let workload = workload.ok_or("a worker of no workload")?;
    let block = Block {
        tasks: tasks.parse()?,
        cycles: cycles.parse()?,
    };
    let contender = workload.connect(url).await?;
    // Warms up every task, so that memory no longer grows.
    contender.run(Block { cycles: 2, ..block }).await?;
    contender.run(block).await?;
    Ok(())
}
