//! The contenders: `raw`, the two commands that every lock on one server needs, which is the limit
//! and the divisor of all ratios; `peer`, the crate `rslock`; `ours`, dlock through its attribute.
//!
//! Each contender takes a lock and releases it, in one or many tasks. All have the same conditions:
//! one connection each, the same runtime, keys of the same length.

pub(crate) mod ours;
pub(crate) mod peer;
pub(crate) mod raw;

use std::time::{Duration, Instant};

use futures_util::future::BoxFuture;
use futures_util::{FutureExt as _, future};

use crate::lab::Control;
use crate::pins;
use crate::server_cost::Work;
use crate::{Failure, story};

/// Longer than any cycle takes. Programs that hold locks for some time have a ttl of their own.
pub(crate) const TTL: Duration = Duration::from_secs(10);

/// Takes a lock and releases it at once.
pub(crate) trait Cycle: Clone + Send + Sync + 'static {
    fn cycle(&mut self, key: usize) -> impl Future<Output = Result<(), Failure>> + Send;

    /// Waits until the server has answered all that was sent: otherwise the time of this block
    /// would be too short, and that of the next one too long.
    fn settle(&mut self) -> impl Future<Output = Result<(), Failure>> + Send {
        future::ready(Ok(()))
    }
}

/// A lock implementation that is measured.
pub(crate) struct Contender {
    pub(crate) name: &'static str,
    /// The commands that its client sends, named as in INFO.
    pub(crate) sends: &'static [&'static str],
    /// The URL of each of its servers; none: the lab's server.
    pub(crate) servers: Vec<String>,
    run: Box<dyn Fn(Block) -> BoxFuture<'static, Result<Took, Failure>>>,
}

/// Tasks with a key each, which don't wait for each other.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Block {
    pub(crate) tasks: usize,
    /// Cycles of each task.
    pub(crate) cycles: usize,
}

/// The measurements of one block.
#[derive(Debug, Clone, Default)]
pub(crate) struct Took {
    /// The time of each cycle, if there was one task.
    pub(crate) each: Vec<Duration>,
    pub(crate) wall: Duration,
    /// CPU time of all threads of this process.
    pub(crate) cpu: Duration,
}

impl Block {
    pub(crate) fn count(self) -> usize {
        self.tasks * self.cycles
    }
}

impl Contender {
    pub(crate) fn new<C: Cycle>(
        name: &'static str,
        sends: &'static [&'static str],
        cycle: C,
    ) -> Self {
        let run = Box::new(move |block| run(cycle.clone(), block).boxed());
        Self {
            name,
            sends,
            servers: Vec::new(),
            run,
        }
    }

    /// The same at other servers than the lab's.
    pub(crate) fn at(self, servers: Vec<String>) -> Self {
        Self { servers, ..self }
    }

    pub(crate) async fn run(&self, block: Block) -> Result<Took, Failure> {
        let failed = |why: Failure| format!("{}: {}", self.name, story(&*why)).into();
        (self.run)(block).await.map_err(failed)
    }

    /// Runs a block, and reads what its servers did meanwhile.
    pub(crate) async fn run_at(
        &self,
        block: Block,
        control: &mut Control,
    ) -> Result<(Took, Work), Failure> {
        let before = control.reading().await?;
        let took = self.run(block).await?;
        let work = control.reading().await?.since(&before);
        Ok((took, work))
    }
}

async fn run<C: Cycle>(mut cycle: C, block: Block) -> Result<Took, Failure> {
    let (begun, cpu) = (Instant::now(), pins::cpu());
    let each = if block.tasks == 1 {
        one(cycle.clone(), block.cycles).await?
    } else {
        let tasks =
            (0..block.tasks).map(|key| tokio::spawn(many(cycle.clone(), key, block.cycles)));
        for ended in future::join_all(tasks).await {
            ended??;
        }
        Vec::new()
    };
    cycle.settle().await?;
    Ok(Took {
        each,
        wall: begun.elapsed(),
        cpu: pins::cpu().saturating_sub(cpu),
    })
}

async fn one<C: Cycle>(mut cycle: C, cycles: usize) -> Result<Vec<Duration>, Failure> {
    let mut each = Vec::with_capacity(cycles);
    for _ in 0..cycles {
        let begun = Instant::now();
        cycle.cycle(0).await?;
        each.push(begun.elapsed());
    }
    Ok(each)
}

async fn many<C: Cycle>(mut cycle: C, key: usize, cycles: usize) -> Result<(), Failure> {
    for _ in 0..cycles {
        cycle.cycle(key).await?;
    }
    Ok(())
}
