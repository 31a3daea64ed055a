//! The same for the kinds with many holders, each of whose commands is sent by itself.

use super::Pair;
use crate::link::redis::tests::alike::{Seconds, Who};
use crate::link::redis::tests::lab::{CAP, HOUR, kept, seconds};
use crate::link::redis::tests::node::of_kind;
use crate::rules::ballots::{Ballot, Vote};
use crate::rules::commands::Claim;
use crate::values::kind::Kind;

/// By whom: two readers, two writers, two entries of one owner and one of another.
pub(super) const ENTRIES: usize = 7;

#[derive(Clone, Debug)]
pub(super) enum Single {
    Vote {
        lease: Seconds,
        late: bool,
        proposal: u64,
        /// The ballot says that the caller waits, even without a channel.
        waits: bool,
    },
    Adopt(u64),
    TakeBack {
        keep: Option<Seconds>,
        over: bool,
    },
    Downgrade(Seconds),
}

fn claim((key, who): (&str, usize), queues: bool) -> Claim {
    let (kind, token) = [
        (Kind::Read, "r1"),
        (Kind::Read, "r2"),
        (Kind::Write, "w1"),
        (Kind::Write, "w2"),
        (Kind::Owned("ann".into()), "o1"),
        (Kind::Owned("ann".into()), "o2"),
        (Kind::Owned("bob".into()), "o3"),
    ][who]
        .clone();
    Claim {
        queues,
        ..of_kind(&kind, key, token)
    }
}

impl Pair<'_> {
    pub(super) async fn single(&mut self, address: usize, (key, who): Who, item: &Single) {
        let lock = self.keys[key].clone();
        let waits = matches!(item, Single::Vote { waits: true, .. });
        let claim = claim((&lock, who), waits);
        let is_other = self.other_type.contains(&key);
        let real_time = self.lab.link.server_time();
        match *item {
            Single::Vote {
                lease,
                late,
                proposal,
                ..
            } => {
                let ballot = |time: u64| Ballot {
                    claim: claim.clone(),
                    lease: seconds(lease),
                    not_after: if late { time - HOUR } else { time + HOUR },
                    proposal,
                    hint_to: self.hint_to(address),
                };
                let (real, pure) = (ballot(real_time), ballot(self.time));
                let real = self.lab.link.vote(&real, CAP).await;
                if is_other && !late {
                    assert!(self.is_other_type(key, &real), "{real:?}");
                    return;
                }
                let (last, is_again) = (self.pure.last_epoch(), self.pure.holds(&claim, self.time));
                let pure = self.pure.vote(&pure, self.time, &mut self.wire);
                let joins = |epoch| epoch <= last && !is_again;
                let joins = matches!(pure, Vote::Granted { epoch, .. } if joins(epoch));
                self.witness.saw_if(joins, "joined an owner's hold");
                self.compare_votes(real.unwrap(), pure, |real, pure| real == pure);
            }
            Single::Adopt(epoch) => {
                let real = self.lab.link.adopt(&claim, epoch, CAP).await.unwrap();
                assert_eq!(real, self.pure.adopt(&claim, epoch, self.time));
                self.saw_adopted(real);
            }
            Single::TakeBack { keep, over } => {
                let stamp = |time: u64| if over { time - HOUR } else { time + HOUR };
                let real =
                    self.lab
                        .link
                        .take_back(&claim, kept(keep, real_time), stamp(real_time), CAP);
                let real = real.await.unwrap();
                let (kept, until) = (kept(keep, self.time), stamp(self.time));
                let pure = (self.pure).cancel(&claim, kept, until, self.time, &mut self.wire);
                self.saw_released(pure.found, keep);
                self.witness
                    .saw_if(pure.rest > 0, "others of the owner hold it");
                self.compare_cancelled(real, pure);
            }
            Single::Downgrade(ttl) => {
                let real = self.lab.link.downgrade(&claim, seconds(ttl), CAP).await;
                let pure = self
                    .pure
                    .downgrade(&claim, seconds(ttl), self.time, &mut self.wire);
                assert_eq!(real.unwrap(), pure, "downgrade");
                self.witness.saw_if(pure, "downgraded");
            }
        }
        self.compare_told().await;
        if let Some(last) = self.counter().await {
            assert_eq!(last, self.pure.last_epoch(), "the counter");
        }
    }
}
