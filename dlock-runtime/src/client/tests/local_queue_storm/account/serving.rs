//! The end of a storm: all waiters get the lock.

use super::{Account, is_there};
use crate::client::local_queue::{Grant, LeaderStep};
use crate::client::tests::local_queue::grant;
use crate::client::tests::local_queue_storm::Event;
use crate::rules::tests::ms;
use crate::values::moment::Moment;

impl Account {
    /// From here on the server answers and no waiter leaves: each waiter, and a crowd of new ones,
    /// gets the lock in turn, and every token comes to an end.
    pub(in crate::client::tests::local_queue_storm) fn serve_all(mut self, crowd: usize) {
        (0..crowd).for_each(|_| self.enter());
        let mut steps = 10 * (self.fifo.len() + 1);
        while let Some(first) = self.fifo.first().copied() {
            steps -= 1;
            assert!(steps > 0, "each is served in a few");
            self.become_leader();
            let last = self.number(0);
            match self.lead() {
                Some(LeaderStep::Acquire) if self.to_acquire => {}
                Some(LeaderStep::Acquire) => self.queued(last + 1, self.now + 10),
                Some(LeaderStep::Poll(_)) => {
                    let lease = ms(500);
                    self.granted(
                        last,
                        Grant {
                            lease,
                            ..grant(self.now)
                        },
                    );
                }
                Some(LeaderStep::Sleep(Moment::NEVER)) => self.ended(last, self.now + 5),
                Some(LeaderStep::GiveUp(_)) => {}
                Some(LeaderStep::Sleep(until)) => {
                    self.fifo
                        .clone()
                        .into_iter()
                        .rev()
                        .for_each(|it| self.look(it));
                    if self.fifo.first() == Some(&first) {
                        assert!(until > self.now(), "a sleep ends");
                        self.now = until.as_nanos().div_ceil(1_000_000);
                    }
                }
                other => panic!("nobody drives: {other:?}"),
            }
            self.check();
        }
        while self.has_leader {
            self.lead();
        }
        if let Some((number, _)) = self.remote() {
            self.granted(number, grant(self.now)); // acquired, and all waiters left
        }
        if let Some((number, _)) = self.held {
            self.take(&Event::Left {
                ago: self.number(0) - number,
            });
        }
        self.check();
        assert!(self.queue.is_idle());
        assert!(!self.stands.values().any(|stand| is_there(*stand)));
    }
}
