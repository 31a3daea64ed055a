//! The end of a storm: everybody is served.

use super::{Account, is_there};
use crate::policy::gate::{Next, Offer};
use crate::policy::tests::gate::offer;
use crate::policy::tests::gate_storm::Event;
use crate::policy::tests::ms;
use crate::values::moment::Moment;

impl Account {
    /// From here on the server answers and nobody goes: each in line, and a crowd that comes, gets the lock
    /// in turn, and every token has come to an end.
    pub(in crate::policy::tests::gate_storm) fn serve_all(mut self, crowd: usize) {
        (0..crowd).for_each(|_| self.enter());
        let mut steps = 10 * (self.line.len() + 1);
        while let Some(first) = self.line.first().copied() {
            steps -= 1;
            assert!(steps > 0, "each is served in a few");
            self.take_wheel();
            let last = self.number(0);
            match self.drive() {
                Some(Next::Ask) if self.to_ask => {}
                Some(Next::Ask) => self.queued(last + 1, self.now + 10),
                Some(Next::Poll(_)) => {
                    let lease = ms(500);
                    self.granted(
                        last,
                        Offer {
                            lease,
                            ..offer(self.now)
                        },
                    );
                }
                Some(Next::Sleep(Moment::NEVER)) => self.ended(last, self.now + 5),
                Some(Next::GiveUp(_)) => {}
                Some(Next::Sleep(until)) => {
                    self.line
                        .clone()
                        .into_iter()
                        .rev()
                        .for_each(|it| self.look(it));
                    if self.line.first() == Some(&first) {
                        assert!(until > self.now(), "a sleep ends");
                        self.now = until.as_nanos().div_ceil(1_000_000);
                    }
                }
                other => panic!("nobody drives: {other:?}"),
            }
            self.check();
        }
        while self.driven {
            self.drive();
        }
        if let Some((number, _)) = self.place() {
            self.granted(number, offer(self.now)); // asked for, and everybody went
        }
        if let Some((number, _)) = self.held {
            self.take(&Event::Left {
                ago: self.number(0) - number,
            });
        }
        self.check();
        assert!(self.gate.is_idle());
        assert!(!self.stands.values().any(|stand| is_there(*stand)));
    }
}
