//! Several locks in one step: all of them, or none.
//!
//! For exclusive locks only. Invariant: an answer `Not` leaves none of them ours.

use super::operations::entry_of;
use super::{Publish, Server};
use crate::rules::commands::{Acquire, AcquiredAll, Claim, Keep};

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
        let mut ours: Vec<&Claim> = Vec::new();
        for (at, Acquire { claim, .. }) in commands.iter().enumerate() {
            let busy = self.on(&claim.key, time, publish, |it| {
                if it.state.holds(&claim.value) {
                    return Err(None);
                }
                it.grant_next();
                let may_enter = it.state.is_free() && it.state.queue.is_empty();
                if may_enter {
                    Ok(())
                } else {
                    Err(Some(it.state.busy(time)))
                }
            });
            match busy {
                Ok(()) => {}
                Err(None) => ours.push(claim),
                Err(Some(busy)) => {
                    for claim in ours {
                        self.release(claim, Keep::NOT, time, publish);
                    }
                    return AcquiredAll::Not { at, busy };
                }
            }
        }
        // All of them: the command was duplicated on its way. Only an earlier execution of this same
        // command can have left some of them ours: then all are taken anew.
        let is_again = ours.len() == commands.len();
        let (mut epochs, mut left) = (Vec::new(), None);
        for Acquire { claim, lease, .. } in commands {
            epochs.push(self.on(&claim.key, time, publish, |it| {
                let at = (it.draw_epoch(), time);
                if is_again {
                    let of_one = it.state.lock.as_ref();
                    let of_one = of_one.and_then(|lock| lock.left_of(&claim.value, time));
                    left = left.into_iter().chain(of_one).min();
                } else {
                    it.state
                        .put(&claim.value, &entry_of(claim), lease.get(), at);
                }
                at.0
            }));
        }
        AcquiredAll::All { time, epochs, left }
    }
}
