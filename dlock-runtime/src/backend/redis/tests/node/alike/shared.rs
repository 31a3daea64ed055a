//! The same for the kinds with many holders, each of whose commands is sent by itself.

use super::{Pair, Seconds, Who};
use crate::backend::redis::tests::lab::kept;
use crate::backend::redis::tests::node::{CAP, HOUR, of_kind, seconds};
use crate::policy::commands::Claim;
use crate::policy::quorum::commands::{Ballot, Vote};
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
                    hint_to: self.addresses[address].clone(),
                };
                let (real, pure) = (ballot(real_time), ballot(self.time));
                let real = self.lab.link.vote(&real, CAP).await;
                if is_other && !late {
                    assert!(real.is_err(), "{real:?}");
                    return;
                }
                let pure = self.pure.vote(&pure, self.time, &mut self.wire);
                self.compare_single(real.unwrap(), pure);
            }
            Single::Adopt(epoch) => {
                let real = self.lab.link.adopt(&claim, epoch, CAP).await.unwrap();
                assert_eq!(real, self.pure.adopt(&claim, epoch, self.time));
            }
            Single::TakeBack { keep, over } => {
                let stamp = |time: u64| if over { time - HOUR } else { time + HOUR };
                let keep = |time: u64| kept(keep, time);
                let real = self
                    .lab
                    .link
                    .take_back(&claim, keep(real_time), stamp(real_time), CAP);
                let real = real.await.unwrap();
                let (keep, until) = (keep(self.time), stamp(self.time));
                let pure = self
                    .pure
                    .cancel(&claim, keep, until, self.time, &mut self.wire);
                assert_eq!(
                    (real.found, real.conclusive, real.rest),
                    (pure.found, pure.conclusive, pure.rest),
                    "take back"
                );
            }
            Single::Downgrade(ttl) => {
                let real = self.lab.link.downgrade(&claim, seconds(ttl), CAP).await;
                let pure = self
                    .pure
                    .downgrade(&claim, seconds(ttl), self.time, &mut self.wire);
                assert_eq!(real.unwrap(), pure, "downgrade");
            }
        }
        self.compare_hints().await;
        if let Some(last) = self.counter().await {
            assert_eq!(last, self.pure.last_epoch(), "the counter");
        }
    }

    fn compare_single(&self, real: Vote, pure: Vote) {
        if let (Vote::Granted { epoch: real, .. }, Vote::Granted { epoch: pure, .. }) =
            (&real, &pure)
        {
            assert_eq!(real, pure, "the epoch");
            return;
        }
        if let (Vote::Busy(real), Vote::Busy(pure)) = (&real, &pure) {
            assert_eq!(real.last_epoch, pure.last_epoch, "the last epoch");
        }
        self.compare_answers(real, pure);
    }

    /// The entries of the set at a key, with their ends.
    pub(super) fn compare_set(&mut self, lock: &str, members: &[(String, f64)]) {
        let now = self.lab.link.server_time();
        let live = |(member, score): &(String, f64)| {
            #[allow(
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                reason = "a time in µs"
            )]
            let ends = if score.is_finite() {
                *score as u64
            } else {
                u64::MAX
            };
            (ends > now).then(|| (member.clone(), ends.saturating_sub(now)))
        };
        let mut real: Vec<_> = members.iter().filter_map(live).collect();
        let meta = real.pop().map(|(meta, _)| meta);
        let pure = self.pure.meta(lock, self.time);
        if real.is_empty() {
            assert_eq!(pure, None, "nobody holds it");
            return;
        }
        assert_eq!(meta, pure, "the meta");
        let pure = self.pure.members(lock, self.time);
        let names: Vec<_> = real.iter().map(|(member, _)| member).collect();
        let expected: Vec<_> = pure.iter().map(|(member, _)| member).collect();
        assert_eq!(names, expected, "who holds it");
        for ((_, real), (_, ends)) in real.iter().zip(&pure) {
            let micros = std::time::Duration::from_micros;
            self.compare_left(micros(*real), micros(ends - self.time));
        }
    }
}
