//! Several locks in one step: all of them, or none.
//!
//! For exclusive locks only. Invariant: an answer `Not` leaves none of them ours.

use super::{Publish, Server};
use crate::policy::commands::{Acquire, AcquiredAll, Keep};

impl Server {
    /// Takes all locks if each is free and has no waiters, else none. Never queues.
    pub(crate) fn acquire_all(
        &mut self,
        commands: &[Acquire],
        time: u64,
        publish: &mut dyn Publish,
    ) -> AcquiredAll {
        if commands.iter().any(|command| time > command.not_after) {
            return AcquiredAll::Late { time };
        }
        let mut ours = Vec::new();
        for (at, command) in commands.iter().enumerate() {
            let claim = &command.claim;
            if self.holds(claim, time) {
                ours.push(claim);
                continue;
            }
            self.grant_unless_taken(&claim.key, time, publish);
            let is_free = self.locks.is_free(&claim.key, time);
            if !is_free || !self.queues.is_empty(&claim.key, time) {
                for claim in ours {
                    self.release(claim, Keep::NOT, time, publish);
                }
                let busy = self.in_the_way(&claim.key, time);
                return AcquiredAll::Not { at, busy };
            }
        }
        if ours.len() == commands.len() {
            return self.all_ours(commands, time);
        }
        // Only an earlier execution of this same command can have left some of them ours: take them
        // anew.
        let mut epochs = Vec::new();
        for Acquire { claim, lease, .. } in commands {
            epochs.push(self.draw_epoch(time));
            self.sweep(time);
            self.set(&claim.key, &claim.value, time, lease.get());
        }
        AcquiredAll::All {
            time,
            epochs,
            left: None,
        }
    }

    /// The command was duplicated on its way.
    fn all_ours(&mut self, commands: &[Acquire], time: u64) -> AcquiredAll {
        let lefts = commands.iter().filter_map(|command| {
            let (_, left) = self.yours_alone(&command.claim, time)?;
            Some(left)
        });
        let left = lefts.min();
        let epochs = commands.iter().map(|_| self.draw_epoch(time)).collect();
        AcquiredAll::All { time, epochs, left }
    }
}
