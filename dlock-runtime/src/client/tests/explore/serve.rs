//! The server's end of the connections: the shipped machine executes a command, and its pushes are
//! on their way. The known-bad servers are made here, around the machine.

use std::rc::Rc;

use super::kind_mutants::Bad;
use super::mutants::Mutant;
use super::run::Run;
use super::seen::{Seen, Witness};
use super::world::{Answer, Command, KEY, What, World};
use crate::rules::commands::{Acquire, Acquired, GivenBack, Polled, PushedGrant, Renewal, Renewed};
use crate::rules::{Publish, Reached, Server};
use crate::values::entry;

/// The subscribed channels, and what was published.
pub(super) struct Air<'a> {
    channels: &'a [(usize, u32)],
    pub(super) grants: Vec<(usize, u32, PushedGrant)>,
    unsubscribed: Vec<(usize, u32)>,
    /// The server refuses to publish.
    refuses: bool,
}

impl Publish for Air<'_> {
    fn publish(&mut self, address: &str, grant: &PushedGrant) -> Reached {
        let (at, connection) = address.split_once('.').expect("the model's address");
        let channel = (
            at.parse().expect("a process"),
            connection.parse().expect("a connection"),
        );
        if self.refuses {
            return Reached::Unknown;
        }
        if !self.channels.contains(&channel) {
            self.unsubscribed.push(channel);
            return Reached::Nobody;
        }
        self.grants.push((channel.0, channel.1, grant.clone()));
        Reached::Somebody
    }
}

impl World {
    /// The answer, and the property that is broken, if any.
    pub(super) fn execute(
        &mut self,
        run: &Run,
        command: Command,
        seen: &mut Seen,
    ) -> (Option<Answer>, Option<&'static str>) {
        let time = self.clock.time();
        let free = self.server().read(KEY, time).is_none();
        let before = self.server().waiting(KEY, time);
        if free && !before.is_empty() {
            seen.saw(Witness::ExpiryWithQueue);
        }
        let many = (!run.asks.is_empty()).then(|| self.before());
        let mut air = Air {
            channels: &self.channels,
            grants: Vec::new(),
            unsubscribed: Vec::new(),
            refuses: run.publish_refused,
        };
        let server = Rc::make_mut(&mut self.server);
        let answer = carry_out(run, server, &command.what, time, &mut air);
        let (grants, unsubscribed) = (air.grants, air.unsubscribed);
        let wrong = match many {
            Some(many) => self.judge(&many, &command, &answer, seen),
            None => self.judge_alone(&before, &command, &answer),
        };
        self.witness(&command.what, &answer, &before, &unsubscribed, seen);
        for (at, connection, mut grant) in grants {
            if run.is(Mutant::ClaimIsWhole) {
                grant.lease = run.ttl;
                let ends = time + u64::try_from(run.ttl.as_micros()).expect("short");
                self.server().put(KEY, &grant.value, Some(ends));
            }
            let process = self.process(at);
            if process.alive && process.connection == connection {
                process.pushes.push(grant);
            }
        }
        (command.heard.then_some(answer), wrong)
    }

    /// For runs in which all request an exclusive lock.
    fn judge_alone(
        &mut self,
        before: &[(std::sync::Arc<str>, u64)],
        command: &Command,
        answer: &Answer,
    ) -> Option<&'static str> {
        let time = self.clock.time();
        let passed = matches!(answer, Answer::Acquired(Acquired::Granted { .. }))
            && before.iter().any(|(entry, alive)| {
                *alive > time && self.responds(entry) && **entry != *command.claim().value
            });
        let looks = !matches!(command.what, What::Renew(_))
            && !matches!(answer, Answer::Acquired(Acquired::Late { .. }));
        let server = self.server();
        let idle =
            looks && server.read(KEY, time).is_none() && !server.waiting(KEY, time).is_empty();
        match (passed, idle) {
            (true, _) => Some("S5 passes a living waiter"),
            (_, true) => Some("S6 free with a queue"),
            _ => None,
        }
    }

    fn responds(&self, entry: &str) -> bool {
        let address = entry::read(entry).map(|entry| entry.address);
        let channel = address.and_then(|it| it.split_once('.'));
        channel.is_some_and(|(at, connection)| {
            let of = (
                at.parse().expect("a process"),
                connection.parse().expect("a number"),
            );
            self.channels.contains(&of)
        })
    }

    fn witness(
        &mut self,
        what: &What,
        answer: &Answer,
        before: &[(std::sync::Arc<str>, u64)],
        unsubscribed: &[(usize, u32)],
        seen: &mut Seen,
    ) {
        let time = self.clock.time();
        for (at, connection) in unsubscribed {
            let process = &self.processes[*at];
            if process.alive && process.connection == *connection {
                seen.saw(Witness::EntryLostBySilence);
            } else {
                seen.saw(Witness::DeadWaiterSkipped);
            }
        }
        let after = self.server().waiting(KEY, time);
        let lapsed = |(entry, alive): &(std::sync::Arc<str>, u64)| {
            *alive <= time && !after.iter().any(|(it, _)| it == entry)
        };
        if before.iter().any(lapsed) {
            seen.saw(Witness::HeartbeatLapsed);
        }
        if matches!(answer, Answer::Acquired(Acquired::Late { .. })) {
            seen.saw(Witness::Late);
        }
        if let (What::Cancel { claim, .. }, Answer::Cancelled(answer, _)) = (what, answer)
            && answer.found
        {
            let queued = before.iter().any(|(entry, _)| *entry == claim.value);
            seen.saw(if queued {
                Witness::CancelLeftQueue
            } else {
                Witness::CancelFreed
            });
        }
        let kept = self.server().read(KEY, time);
        if kept.is_some_and(|value| entry::is_retired(&value)) {
            seen.saw(Witness::KeptForMinHold);
        }
    }
}

pub(super) fn carry_out(
    run: &Run,
    server: &mut Server,
    what: &What,
    time: u64,
    air: &mut Air<'_>,
) -> Answer {
    let mut bad = Bad {
        run,
        server,
        what,
        time,
        air,
    };
    if let Some(answer) = bad.carry_out() {
        return answer;
    }
    match what {
        What::Acquire(acquire) => Answer::Acquired(acquire_by(run, server, acquire, time, air)),
        What::Poll(claim) => Answer::Polled(server.poll(claim, time, air)),
        What::Release { claim, keep } => {
            if run.is(Mutant::DelWithoutToken) {
                server.remove(KEY);
            }
            if run.is(Mutant::ReleaseOfNothingGrantsNobody) && !server.holds(claim, time) {
                return Answer::Released(GivenBack::default());
            }
            let back = server.release(claim, *keep, time, air);
            let left = keep.left(time).filter(|_| back.found);
            if let (true, Some(left)) = (run.is(Mutant::ReleaseKeepsToken), left) {
                server.put(KEY, &claim.value, Some(time + left));
            }
            Answer::Released(back)
        }
        What::Cancel {
            claim,
            keep,
            not_after,
            behind,
        } => {
            let answer = server.cancel(claim, *keep, *not_after, time, air);
            Answer::Cancelled(answer, *behind)
        }
        What::Downgrade(Renewal { claim, ttl }) => {
            Answer::Downgraded(server.downgrade(claim, *ttl, time, air))
        }
        What::Renew(renewal) => {
            let claim = &renewal.claim;
            let until = time + renewal.ttl.as_millis() * 1000;
            match server.read(KEY, time) {
                None if run.is(Mutant::RenewalCreates) => {
                    server.put(KEY, &claim.value, Some(until));
                    Answer::Renewed(Renewed::Yes)
                }
                Some(value) if run.is(Mutant::RenewalWithoutCompare) => {
                    server.put(KEY, &value, Some(until));
                    Answer::Renewed(Renewed::Yes)
                }
                _ => Answer::Renewed(server.renew(renewal, time)),
            }
        }
    }
}

fn acquire_by(
    run: &Run,
    server: &mut Server,
    acquire: &Acquire,
    time: u64,
    air: &mut Air<'_>,
) -> Acquired {
    let claim = &acquire.claim;
    if run.is(Mutant::SetNxFirst) && server.read(KEY, time).is_none() {
        let lease = u64::try_from(acquire.lease.get().as_micros()).expect("short");
        server.put(KEY, &claim.value, Some(time + lease));
        if let Polled::Yours { epoch, .. } = server.poll(&acquire.claim, time, air) {
            return Acquired::Granted { time, epoch };
        }
    }
    let mut acquire = acquire.clone();
    if run.is(Mutant::NotAfterIgnored) {
        acquire.not_after = u64::MAX;
    }
    let answer = server.acquire(&acquire, time, air);
    if run.is(Mutant::QueuedTwice) && matches!(answer, Acquired::Queued(_)) {
        // The same entry in other bytes, as a list instead of a set would have it twice.
        let again = claim.value.replacen("|3000|", "|03000|", 1);
        server.enter(KEY, &again, time);
    }
    answer
}
