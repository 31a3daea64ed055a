//! Attempts at the local queues: an acquire that is sent, and what the server says about it in an
//! answer or a push.
//!
//! It sends nothing itself. Invariant: queue and tokens change in one step, under the mutex.

use std::sync::Arc;

use super::queue_state::LeaderEpoch;
use super::{LocalQueues, Taken};
use crate::client::Settled;
use crate::client::local_queue::{Attempt, Grant};
use crate::client::queue_key::QueueKey;
use crate::client::spec::AcquireSpec;
use crate::client::tokens::Standing;
use crate::values::moment::Moment;
use crate::values::token::Token;

/// Called by the code that sends commands.
impl LocalQueues {
    /// An acquire is about to be sent. `queue_key`: the queue and the leader that it is sent for;
    /// `false` if that leader may no longer send for the queue, and then it must not.
    pub(in crate::driver) fn sending(
        &self,
        queue_key: Option<(&QueueKey, LeaderEpoch)>,
        attempt: Attempt,
        now: Moment,
    ) -> bool {
        let Some((queue_key, leader_epoch)) = queue_key else {
            let Attempt { token, claim } = attempt;
            self.lock().tokens.acquiring(token, claim);
            return true;
        };
        let mut state = self.lock();
        let value = (!queue_key.is_for_all()).then(|| attempt.claim.value.clone());
        let sends = (self.locked(&mut state, queue_key))
            .is_some_and(|mut it| it.sending(leader_epoch, attempt, now));
        if let Some(value) = value.filter(|_| sends) {
            state.queues.sent(queue_key, value);
        }
        sends
    }

    /// The server has nothing of the token. `queue_key`: the queue that its acquire was sent for.
    pub(in crate::driver) fn nothing_there(
        &self,
        queue_key: Option<&QueueKey>,
        token: Token,
        now: Moment,
    ) {
        match queue_key {
            None => self.lock().tokens.not_granted(token),
            Some(queue_key) => self
                .at(queue_key, |it| it.client().nothing_there(token, now))
                .unwrap_or_default(),
        }
        self.shared.fewer.notify_waiters();
    }

    pub(in crate::driver) fn standing(&self, token: Token, now: Moment) -> Standing {
        self.lock().tokens.standing(token, now)
    }

    /// As [`Client::abandoned`](crate::client::Client::abandoned).
    pub(in crate::driver) fn abandoned(
        &self,
        queue_key: Option<&QueueKey>,
        token: Token,
        (not_after, give_up): (u64, Moment),
        cancelled_by: Option<Moment>,
        now: Moment,
    ) -> bool {
        let Some(queue_key) = queue_key else {
            let tokens = &mut self.lock().tokens;
            tokens.abandoned(token, not_after, give_up, cancelled_by, now);
            return true;
        };
        let abandoned = self.at(queue_key, |it| {
            (it.client()).abandoned(token, not_after, give_up, cancelled_by, now)
        });
        abandoned.unwrap_or(false)
    }

    /// Takes a lock that was granted outside any queue; `None` if its lease would be over, and the
    /// token is being cleaned up.
    pub(in crate::driver) fn take(
        &self,
        spec: &Arc<AcquireSpec>,
        attempt: Attempt,
        grant: Grant,
        now: Moment,
    ) -> Option<Taken> {
        let (mut state, token) = (self.lock(), attempt.token);
        let holder = |attempt, lease: &_| self.cell(spec, attempt, lease);
        let cell = self
            .alone(&mut state)
            .take(attempt, &grant, &spec.terms, now, holder);
        let begun = (cell.is_some()).then(|| self.shared.begins(&mut state, token));
        drop(state);
        if let Some(begun) = begun {
            self.shared.begun(begun);
        }
        cell.map(|cell| Taken { grant, cell })
    }
}

/// Answers to a leader, and pushes from the server.
impl LocalQueues {
    /// An answer says that the lock is ours.
    pub(in crate::driver) fn granted_to_leader(
        &self,
        queue_key: &QueueKey,
        token: Token,
        grant: Grant,
        now: Moment,
    ) -> Settled {
        let grant = self.with_handoff_limit(grant, now);
        let settled = self.at(queue_key, |it| it.granted(token, grant, now));
        settled.unwrap_or(Settled::NotOurs)
    }

    /// A push says that an attempt was granted. `grant` is `None` if the time of the grant is not
    /// known: then the leader polls for it.
    pub(in crate::driver) fn granted(
        &self,
        key: &Arc<str>,
        value: &str,
        grant: Option<Grant>,
        now: Moment,
    ) -> Settled {
        let queue_key = self.lock().queues.awaits(key, value);
        let settled = queue_key.and_then(|queue_key| {
            self.at(&queue_key, |it| {
                let Some(token) = it.queue_state.queue.awaits(value) else {
                    return Settled::NotOurs;
                };
                let Some(grant) = grant else {
                    it.queue_state.hint(now);
                    return Settled::Taken;
                };
                it.granted(token, self.with_handoff_limit(grant, now), now)
            })
        });
        settled.unwrap_or(Settled::NotOurs)
    }

    /// A push says that an attempt may have been granted: its leader polls, but not for every such
    /// message.
    pub(in crate::driver) fn hinted(&self, key: &Arc<str>, value: &str, now: Moment) {
        let queue_key = self.lock().queues.awaits(key, value);
        if let Some(queue_key) = queue_key {
            self.at(&queue_key, |it| {
                if it.queue_state.queue.awaits(value).is_some() {
                    it.queue_state.hint(now);
                }
            });
        }
    }

    /// The lock may be free at a node: those whose turn it is ask for it again. A node's message
    /// carries no right, and false ones cost few acquires.
    pub(in crate::driver) fn freed(&self, key: &Arc<str>, now: Moment) {
        let told = self.lock().queues.news_for(key);
        for queue_key in told {
            self.at(&queue_key, |it| it.queue_state.freed(now));
        }
    }

    /// Pushes may have been missed: every leader polls.
    pub(in crate::driver) fn poll_all_now(&self, now: Moment) {
        for queue_key in self.queue_keys() {
            self.at(&queue_key, |it| it.queue_state.poll_now(now));
        }
    }
}
