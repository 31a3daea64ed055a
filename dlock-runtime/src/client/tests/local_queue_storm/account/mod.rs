//! A simple model of the waiters and of every token, kept beside the local queue and compared with
//! it.

mod serving;

use std::collections::BTreeMap;

use super::Event;
use crate::client::local_queue::{
    Grant, LeaderStep, LocalQueue, MessageOutcome, Remote, TakenTurn, WaiterId,
};
use crate::client::tests::local_queue::{grant, token};
use crate::rules::tests::{at, ms};
use crate::values::handoff::Handoff;
use crate::values::moment::Moment;
use crate::values::token::Token;
use crate::values::ttl::Margin;

/// The state of a token. The host is told of two of the three ends, and cleans up; each token ends
/// once.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Stand {
    Asked,
    Queued { poll: u64 },
    Granted(Grant),
    Taken,
    Unwanted,
    Ended,
}

#[derive(Default)]
pub(super) struct Account {
    queue: LocalQueue<WaiterId>,
    now: u64,
    fifo: Vec<WaiterId>,
    waiter_ids: WaiterId,
    stands: BTreeMap<u64, Stand>,
    has_leader: bool,
    /// The leader was told to acquire, and is getting a connection.
    to_acquire: bool,
    /// No acquire but the holder's own has been sent since.
    held: Option<(u64, Grant)>,
    not_before: u64,
    /// The acquire under way may have missed something.
    flushes_early: bool,
}

impl Account {
    fn now(&self) -> Moment {
        at(self.now)
    }

    /// The token of the current attempt: the last one acquired, or none.
    fn remote(&self) -> Option<(u64, Stand)> {
        let last = self.stands.last_key_value();
        last.map(|(number, stand)| (*number, *stand))
            .filter(|(_, stand)| is_there(*stand))
    }

    fn nth_waiter_id(&self, index: usize) -> WaiterId {
        1 + u64::try_from(index).unwrap() % self.waiter_ids.max(1)
    }

    fn number(&self, ago: u64) -> u64 {
        let asked = u64::try_from(self.stands.len()).unwrap();
        asked.saturating_sub(ago)
    }

    pub(super) fn take(&mut self, event: &Event) {
        let now = self.now();
        match *event {
            Event::Enter => self.enter(),
            Event::Leave(who) => self.leave(self.nth_waiter_id(who)),
            Event::Check(who) => self.look(self.nth_waiter_id(who)),
            Event::Lead => drop(self.lead()),
            Event::TakeOver => self.become_leader(),
            Event::LeaderGone => {
                self.queue.leader_gone();
                (self.has_leader, self.to_acquire) = (false, false);
            }
            Event::Queued { ago, poll } => self.queued(self.number(ago), self.now + poll),
            Event::Granted {
                ago,
                since,
                lease,
                handoffs,
            } => {
                let since = self.now.saturating_sub(since);
                let lease = ms(lease);
                let mut grant = Grant {
                    lease,
                    ..grant(since)
                };
                let bounds = Handoff {
                    most: handoffs,
                    within: ms(300),
                    part: 2,
                };
                let until = now.plus(ms(300)).min(at(since).plus(lease / 2));
                (grant.chain.left, grant.chain.until) = (handoffs, until);
                let from_bounds = Grant::in_turn(at(since), lease, since, since);
                assert_eq!(
                    from_bounds.with_handoff_limit(&bounds, Margin::DEFAULT, now),
                    grant
                );
                self.granted(self.number(ago), grant);
            }
            Event::Ended { ago, pause } => self.ended(self.number(ago), self.now + pause),
            Event::Left { ago } => {
                let number = self.number(ago);
                self.queue.left(token(number), now);
                if self.held.is_some_and(|(held, _)| held == number) {
                    (self.held, self.not_before) = (None, self.now);
                }
            }
            Event::HandOn { ago, fits } => self.hand_on(self.number(ago), fits),
            Event::Pause(pause) => {
                self.queue.pause(now.plus(ms(pause)));
                if self.remote().is_none() {
                    (self.held, self.not_before) = (None, self.now + pause);
                }
            }
            Event::FlushEarly => self.poll_now(),
            Event::Clear => {
                let (fifo, unwanted) = self.queue.clear();
                let expected = std::mem::take(&mut self.fifo);
                assert_eq!(
                    fifo.into_iter()
                        .map(|(waiter_id, _)| waiter_id)
                        .collect::<Vec<_>>(),
                    expected
                );
                self.expect_given_up(unwanted);
            }
            Event::Wait(pause) => self.now += pause,
        }
    }

    fn enter(&mut self) {
        self.waiter_ids += 1;
        let waiter_id = self.queue.enter(self.waiter_ids);
        assert_eq!(waiter_id, self.waiter_ids);
        self.fifo.push(waiter_id);
    }

    fn leave(&mut self, waiter_id: WaiterId) {
        self.fifo.retain(|it| *it != waiter_id);
        let unwanted = self.queue.leave(waiter_id);
        self.expect_given_up(unwanted);
    }

    /// A queued or granted token is returned as soon as no waiter is left, and only then.
    fn expect_given_up(&mut self, unwanted: Option<Token>) {
        let expected = self
            .remote()
            .filter(|(_, stand)| self.fifo.is_empty() && *stand != Stand::Asked);
        let expected = expected.map(|(number, _)| token(number));
        assert_eq!(unwanted, expected);
        if unwanted.is_some() {
            self.end(Stand::Unwanted, 0);
        }
    }

    fn look(&mut self, waiter_id: WaiterId) {
        let found = self.queue.take_turn(waiter_id, self.now());
        let expected = match self.remote() {
            Some((number, Stand::Granted(grant))) if self.fifo.first() == Some(&waiter_id) => {
                if self.now() < deadline(grant) {
                    self.fifo.remove(0);
                    self.end(Stand::Taken, self.now);
                    let stays = self.fifo.is_empty() || self.may_go_on(&grant);
                    self.held = stays.then_some((number, grant));
                    TakenTurn::Yours(token(number), grant)
                } else {
                    self.end(Stand::Unwanted, self.now);
                    TakenTurn::Stale(token(number))
                }
            }
            _ => TakenTurn::Wait,
        };
        assert_eq!(found, expected);
    }

    /// The same token is granted again, with the next index.
    fn hand_on(&mut self, number: u64, fits: bool) {
        let now = self.now();
        let held = self.held.filter(|(held, _)| *held == number);
        let next = held.filter(|(_, grant)| fits && !self.fifo.is_empty() && self.may_go_on(grant));
        assert_eq!(
            self.queue.can_hand_on(token(number), now, |_, _| fits),
            next.is_some()
        );
        assert_eq!(
            self.queue.hand_on(token(number), now, |_, _| fits),
            next.is_some()
        );
        if let Some((_, mut grant)) = next {
            grant.chain.index += 1;
            grant.chain.left -= 1;
            grant.chain.since = Some(now);
            self.held = None;
            self.stands.insert(number, Stand::Granted(grant));
        }
    }

    fn may_go_on(&self, grant: &Grant) -> bool {
        grant.chain.left > 0 && self.now() < grant.chain.until && self.now() < deadline(*grant)
    }

    fn become_leader(&mut self) {
        let taken = self.queue.become_leader();
        assert_eq!(taken, !self.has_leader && !self.fifo.is_empty());
        self.has_leader |= taken;
    }

    /// A step of the leader, if there is one.
    fn lead(&mut self) -> Option<LeaderStep> {
        if !self.has_leader {
            return None;
        }
        if std::mem::take(&mut self.to_acquire) {
            let number = self.number(0) + 1;
            self.queue.acquiring(token(number));
            self.stands.insert(number, Stand::Asked);
            (self.held, self.flushes_early) = (None, false);
            return Some(LeaderStep::Acquire);
        }
        let next = self.queue.next(self.now());
        let (now, waited_at) = (self.now, !self.fifo.is_empty());
        assert_eq!(next == LeaderStep::Rest, !waited_at, "while somebody waits");
        let expected = match self.remote() {
            _ if !waited_at => LeaderStep::Rest,
            None if let Some((_, grant)) = self.held
                && self.may_go_on(&grant) =>
            {
                LeaderStep::Sleep(grant.chain.until)
            }
            None if self.held.is_some() || self.not_before <= now => LeaderStep::Acquire,
            None => LeaderStep::Sleep(at(self.not_before)),
            Some((_, Stand::Asked)) => LeaderStep::Sleep(Moment::NEVER),
            Some((number, Stand::Queued { poll })) if poll <= now => {
                LeaderStep::Poll(token(number))
            }
            Some((_, Stand::Queued { poll })) => LeaderStep::Sleep(at(poll)),
            Some((number, Stand::Granted(grant))) if deadline(grant) <= at(now) => {
                self.end(Stand::Unwanted, now);
                LeaderStep::GiveUp(token(number))
            }
            Some((_, Stand::Granted(grant))) if self.may_go_on(&grant) => {
                LeaderStep::Sleep(grant.chain.until)
            }
            Some((_, Stand::Granted(grant))) => LeaderStep::Sleep(deadline(grant)),
            Some(ended) => panic!("at no place: {ended:?}"),
        };
        assert_eq!(next, expected);
        match next {
            LeaderStep::Acquire => self.to_acquire = true,
            LeaderStep::Rest => self.has_leader = false,
            _ => {}
        }
        Some(next)
    }

    fn queued(&mut self, number: u64, poll: u64) {
        let outcome = self.queue.queued(token(number), at(poll));
        let missed = self.awaits(number) && std::mem::take(&mut self.flushes_early);
        let poll = poll * u64::from(!missed);
        self.expect_fate(number, &outcome, Stand::Queued { poll });
    }

    fn granted(&mut self, number: u64, grant: Grant) {
        let outcome = self.queue.granted(token(number), grant);
        self.expect_fate(number, &outcome, Stand::Granted(grant));
    }

    /// A message counts for the current attempt, before it is granted; without waiters, the token
    /// is returned.
    fn expect_fate(&mut self, number: u64, outcome: &MessageOutcome, becomes: Stand) {
        let expected = if !self.awaits(number) {
            MessageOutcome::NotOurs
        } else if self.fifo.is_empty() {
            self.end(Stand::Unwanted, 0);
            MessageOutcome::Unwanted(token(number))
        } else {
            self.stands.insert(number, becomes);
            MessageOutcome::Taken
        };
        assert_eq!(*outcome, expected);
    }

    fn ended(&mut self, number: u64, not_before: u64) {
        let ours = self.queue.ended(token(number), at(not_before));
        assert_eq!(ours, self.awaits(number));
        if ours {
            self.end(Stand::Ended, not_before);
        }
    }

    fn poll_now(&mut self) {
        self.queue.poll_now(self.now());
        match self.remote() {
            Some((number, Stand::Queued { poll })) => {
                let poll = poll.min(self.now);
                self.stands.insert(number, Stand::Queued { poll });
            }
            Some((_, Stand::Asked)) => self.flushes_early = true,
            None if self.held.is_none() => self.not_before = self.not_before.min(self.now),
            _ => {}
        }
    }

    fn awaits(&self, number: u64) -> bool {
        let stand = self.stands.get(&number);
        matches!(stand, Some(Stand::Asked | Stand::Queued { .. }))
    }

    /// The token of the current attempt comes to its end.
    fn end(&mut self, how: Stand, not_before: u64) {
        let (number, _) = self.remote().expect("an end of something");
        self.stands.insert(number, how);
        self.not_before = not_before;
    }

    pub(super) fn check(&self) {
        let there = self.stands.values().filter(|stand| is_there(**stand));
        assert!(there.count() <= 1, "one place");
        let remote = match (self.remote(), self.held) {
            (None, None) => Remote::Vacant {
                not_before: at(self.not_before),
            },
            (None, Some((number, grant))) => Remote::Held(token(number), grant),
            (Some((number, Stand::Asked)), _) => Remote::Acquiring(token(number)),
            (Some((number, Stand::Queued { poll })), _) => Remote::Queued {
                token: token(number),
                poll: at(poll),
            },
            (Some((number, Stand::Granted(grant))), _) => Remote::Granted(token(number), grant),
            (Some(ended), _) => panic!("at no place: {ended:?}"),
        };
        assert_eq!(self.queue.remote(), &remote);
        let waiters: Vec<WaiterId> = self.queue.waiters().copied().collect();
        assert_eq!(waiters, self.fifo, "in order of arrival");
        assert_eq!(self.queue.first(), self.fifo.first());
        for number in self.number(2)..=self.number(0) {
            assert_eq!(self.queue.awaits(token(number)), self.awaits(number));
        }
        let vacant = self.remote().is_none() && self.held.is_none();
        let idle = self.fifo.is_empty() && !self.has_leader && vacant;
        assert_eq!(self.queue.is_idle(), idle);
    }
}

fn is_there(stand: Stand) -> bool {
    matches!(
        stand,
        Stand::Asked | Stand::Queued { .. } | Stand::Granted(_)
    )
}

fn deadline(grant: Grant) -> Moment {
    grant.since.plus(Margin::DEFAULT.validity(grant.lease))
}
