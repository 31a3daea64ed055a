//! Which master has which slot, and when slots moved.

use std::time::{Duration, Instant};

use dlock_harness::Cluster;
use tokio::time::sleep;

pub(crate) const SLOTS: u16 = 16_384;

/// How long each key of a slot takes, so that a move can be seen.
const KEY: Duration = Duration::from_millis(100);

/// Before the first move, and after the last one.
const CALM: Duration = Duration::from_millis(800);

pub(crate) struct Moves {
    masters: u16,
    /// In order of time.
    moved: Vec<Moved>,
}

/// A slot that went to another master.
pub(crate) struct Moved {
    pub(crate) slot: u16,
    pub(crate) to: usize,
    pub(crate) from: Duration,
    pub(crate) until: Duration,
}

impl Moves {
    pub(crate) fn new(masters: usize) -> Self {
        Self {
            masters: u16::try_from(masters).unwrap_or(1),
            moved: Vec::new(),
        }
    }

    /// Moves those of these slots that the first master has to the last one, key by key.
    pub(crate) async fn drain(&mut self, cluster: &Cluster, slots: Vec<u16>, begun: Instant) {
        let to = usize::from(self.masters) - 1;
        sleep(CALM).await;
        for slot in slots {
            if self.at_first(slot) != 0 {
                continue;
            }
            let from = begun.elapsed();
            cluster.migrate(slot, to, async || sleep(KEY).await).await;
            let until = begun.elapsed();
            self.moved.push(Moved {
                slot,
                to,
                from,
                until,
            });
        }
        sleep(CALM).await;
    }

    /// The master of a slot before any moved. Each has as many, in order.
    fn at_first(&self, slot: u16) -> usize {
        let number = u32::from(slot) * u32::from(self.masters) / u32::from(SLOTS);
        usize::try_from(number).unwrap_or(0)
    }

    /// The master that gave locks of this slot at this time.
    pub(crate) fn owner(&self, slot: u16, at: Duration) -> usize {
        let moved = self.moved.iter().find(|it| it.slot == slot);
        match moved.filter(|it| it.until <= at) {
            Some(moved) => moved.to,
            None => self.at_first(slot),
        }
    }

    pub(crate) fn all(&self) -> &[Moved] {
        &self.moved
    }
}
