//! Runs a batch on the real server, and the same items one after the other on the pure one:
//! releases first, then the acquires of locks that were free and had an empty queue when the batch
//! began, then the rest.

use super::{KEYS, Pair};
use crate::link::command_error::CommandError;
use crate::link::redis::link::batcher::{MOST, OwnedCommand};
use crate::link::redis::reply::ItemReply;
use crate::link::redis::tests::alike::{Seconds, Who};
use crate::link::redis::tests::lab::{CAP, HOUR, acquire, kept, seconds};
use crate::rules::commands::{Acquire, Acquired};

impl Pair<'_> {
    pub(super) async fn combined(
        &mut self,
        releases: &[(Who, Option<Seconds>)],
        acquires: &[(Who, Seconds, bool)],
    ) {
        let real = self.real(releases, acquires).await;
        let time = self.time;
        let waited_for = KEYS.map(|lock| self.pure.queue_ends(lock, time).is_some());
        let mut given_back = Vec::new();
        for (who, keep) in releases {
            let (claim, keep) = (self.named(*who), kept(*keep, self.time));
            given_back.push(self.pure.release(&claim, keep, self.time, &mut self.wire));
        }
        let mut answers = vec![None; acquires.len()];
        for at_once in [true, false] {
            for (at, item) in acquires.iter().enumerate() {
                if answers[at].is_none()
                    && (!at_once || (!waited_for[item.0.0] && self.is_free(item)))
                {
                    answers[at] = Some(self.pure_acquired(item));
                }
            }
        }
        self.compare_told().await;
        let (first, then) = real.split_at(releases.len());
        for ((_, keep), (real, pure)) in releases.iter().zip(first.iter().zip(given_back)) {
            let real = real.as_ref().unwrap().given_back().unwrap().answer;
            assert_eq!(real, pure, "release");
            self.saw_released(pure.found, *keep);
        }
        let mut granted = Vec::new();
        for (item, (real, pure)) in acquires.iter().zip(then.iter().zip(answers)) {
            let real = real.as_ref().unwrap().acquired();
            match (real, pure.unwrap()) {
                (Ok(real), Some(pure)) => granted.push((real, pure)),
                (real, None) if self.is_other_type(item.0.0, &real) => {}
                (real, pure) => panic!("combined: {real:?} is not like {pure:?}"),
            }
        }
        for (real, pure) in granted {
            self.compare_acquired(real, pure);
        }
    }

    /// Whether the item is acquired before the items of other locks.
    fn is_free(&mut self, ((key, _), _, late): &(Who, Seconds, bool)) -> bool {
        let (lock, time) = (KEYS[*key], self.time);
        let is_held = self.pure.read(lock, time).is_some() || self.pure.meta(lock, time).is_some();
        !late && !is_held
    }

    /// `None`: the pure machine can't represent the value at the key.
    fn pure_acquired(&mut self, (who, lease, late): &(Who, Seconds, bool)) -> Option<Acquired> {
        let command = self.command(*who, *lease, *late, self.time);
        let hindered = self.other_type.contains(&who.0) && !late;
        (!hindered).then(|| self.pure.acquire(&command, self.time, &mut self.wire))
    }

    fn command(&self, who: Who, lease: Seconds, late: bool, now: u64) -> Acquire {
        Acquire {
            lease: seconds(lease),
            ..acquire(&self.named(who), if late { now - HOUR } else { now + HOUR })
        }
    }

    async fn real(
        &self,
        releases: &[(Who, Option<Seconds>)],
        acquires: &[(Who, Seconds, bool)],
    ) -> Vec<Result<ItemReply, CommandError>> {
        let now = self.real_time().await;
        let release = |(who, keep): &(Who, Option<Seconds>)| OwnedCommand::Release {
            claim: self.named(*who),
            keep: kept(*keep, now),
        };
        let take = |(who, lease, late): &(Who, Seconds, bool)| {
            OwnedCommand::Acquire(self.command(*who, *lease, *late, now))
        };
        let mut asks: Vec<_> = releases.iter().map(release).collect();
        asks.extend(acquires.iter().map(take));
        let batcher = self.lab.link.batcher(MOST);
        let answers = batcher.ask_together(asks, CAP).await;
        answers
            .into_iter()
            .map(|it| it.expect("an answer"))
            .collect()
    }
}
