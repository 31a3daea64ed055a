//! Judges what a command did to the holders of a lock with many holders, and to its waiters.

use std::sync::Arc;
use std::time::Duration;

use super::kind::{Holds, fits, is_or_was, token_of_entry};
use super::seen::{Seen, Witness};
use super::world::{Answer, Command, KEY, What, World, token_in};
use crate::rules::commands::{Acquired, Polled};
use crate::values::entry::{self, Letter};

/// The holders and waiters before a command.
pub(super) struct Before {
    holders: Vec<(String, u64)>,
    standing: Vec<String>,
    waiting: Vec<(Arc<str>, u64)>,
}

impl World {
    pub(super) fn before(&mut self) -> Before {
        let time = self.clock.time();
        Before {
            holders: self.holders(),
            standing: self.standing(),
            waiting: self.server().waiting(KEY, time),
        }
    }

    /// The property that a command broke, if any.
    pub(super) fn judge(
        &mut self,
        before: &Before,
        command: &Command,
        answer: &Answer,
        seen: &mut Seen,
    ) -> Option<&'static str> {
        let after = self.before();
        let come = come(before, &after);
        self.witness_kinds(before, &after, &come, command, answer, seen);
        let broken = self.touches(before, &after, command);
        broken
            .or_else(|| passes(before, &after, &come))
            .or_else(|| head_fits(&after, command, answer))
    }

    /// S9, and the protocol's rules 5 and 8: only its owner changes an entry, and nothing shortens it.
    fn touches(&self, before: &Before, after: &Before, command: &Command) -> Option<&'static str> {
        let (time, sender) = (self.clock.time(), token_in(&command.claim().value));
        let gives_back = matches!(command.what, What::Release { .. } | What::Cancel { .. });
        for (entry, end) in &before.holders {
            let stands = after.holders.iter().find(|(it, _)| is_or_was(it, entry));
            let own = token_in(entry).is_some() && token_in(entry) == sender;
            match stands {
                // The kept entry of an owner belongs to no token, and may be kept for longer.
                Some((_, now)) if entry::is_retired(entry) && now > end => {}
                // The clock was set back: no entry stays for as long as the step. Otherwise none ends
                // later than this, so that nothing else passes for it.
                Some((_, now)) if now < end && *now >= time + micros(lease_of(entry)) => {}
                Some((_, now)) if !own && now != end => return Some("S9 moves another's end"),
                Some((_, now)) if now < end => return Some("S7 shortens a lease"),
                None if !own => return Some("S3a drops another's"),
                None if !gives_back => return Some("S3a a gap"),
                _ => {}
            }
        }
        let longer = |(entry, end): &(String, u64)| {
            let is_new = !before
                .holders
                .iter()
                .any(|(it, was)| it == entry && was >= end); // judged when it was set
            // An owner has one kept entry for all its entries, without a lease: the command kept
            // it.
            let kept = entry::is_retired(entry).then(|| &*command.claim().value);
            let lease = lease_of(kept.unwrap_or(entry));
            is_new && *end > time + micros(lease) + 1000
        };
        let outlives = after.holders.iter().any(longer);
        outlives.then_some("S9 outlives its last command")
    }

    fn witness_kinds(
        &mut self,
        before: &Before,
        after: &Before,
        come: &[&String],
        command: &Command,
        answer: &Answer,
        seen: &mut Seen,
    ) {
        let time = self.clock.time();
        let sender = token_in(&command.claim().value);
        let own = |entry: &str| token_in(entry) == sender;
        if come.len() > 1 {
            seen.saw(Witness::BatchOfTwo);
        }
        let is_shared = |entry: &str| entry::letter_of(entry).is_some_and(Letter::is_shared);
        let is_ours = is_shared(&command.claim().value);
        if come.iter().any(|it| !own(it) && is_shared(it) != is_ours) {
            seen.saw(Witness::OtherKindLetIn);
        }
        let mut others = come.iter().filter(|it| !own(it));
        match (&command.what, answer) {
            (What::Poll(_), Answer::Polled(Polled::Yours { .. }))
                if come.iter().any(|it| own(it)) && !before.holders.is_empty() =>
            {
                let first = before.waiting.first();
                if first.is_some_and(|(it, _)| token_of_entry(it) != sender) {
                    seen.saw(Witness::Reentered);
                }
            }
            (What::Poll(_), _) if others.next().is_some() => seen.saw(Witness::GrantByAnothersPoll),
            (What::Downgrade(_), Answer::Downgraded(false)) => {
                seen.saw(Witness::LateDowngradeRefused);
            }
            (What::Downgrade(_), _) if others.next().is_some() => {
                seen.saw(Witness::DowngradeLetIn);
            }
            (What::Release { .. }, Answer::Released(back)) => {
                if back.rest > 0 {
                    seen.saw(Witness::StillHeld);
                }
                if !back.found {
                    seen.saw(Witness::LateRelease);
                }
            }
            (What::Acquire(_), Answer::Acquired(Acquired::Granted { .. }))
                if !before.waiting.is_empty() =>
            {
                seen.saw(Witness::Reentered);
            }
            (What::Acquire(acquire), Answer::Acquired(Acquired::Queued(_) | Acquired::Busy(_))) => {
                let ours = Holds::of(&acquire.claim.value);
                let waits = after.waiting.iter().any(|(_, alive)| *alive > time);
                if waits && fits(ours, &after.standing) && !after.standing.is_empty() {
                    seen.saw(match ours {
                        Holds::Takes { .. } => Witness::SmallBehindBig,
                        _ => Witness::ReaderBehindWriter,
                    });
                }
            }
            _ => {}
        }
        if after.holders.iter().any(|(it, _)| entry::is_retired(it)) {
            seen.saw(Witness::KeptForMinHold);
        }
    }
}

/// The holders that are new.
fn come<'a>(before: &Before, after: &'a Before) -> Vec<&'a String> {
    let was = |entry: &String| before.standing.iter().any(|it| is_or_was(entry, it));
    let after = after.standing.iter();
    after
        .filter(|it| token_in(it).is_some() && !was(it))
        .collect()
}

/// S5: an entry that came earlier and still waits was passed, except by its own owner's entry or
/// because it is dead.
fn passes(before: &Before, after: &Before, come: &[&String]) -> Option<&'static str> {
    let passed = |entry: &String| {
        let of_entry = |it: &(Arc<str>, u64)| token_of_entry(&it.0) == token_in(entry);
        let place = before.waiting.iter().position(of_entry);
        let ahead = &before.waiting[..place.unwrap_or(before.waiting.len())];
        let ours = Holds::of(entry);
        let among_its_own = matches!(ours, Holds::As(_))
            && after
                .standing
                .iter()
                .any(|it| it != entry && Holds::of(it) == ours);
        !among_its_own
            && ahead
                .iter()
                .any(|it| after.waiting.iter().any(|(now, _)| *now == it.0))
    };
    let anybody = come.iter().any(|it| passed(it));
    anybody.then_some("S5 passes a living waiter")
}

/// S6: the head of the queue does not fit, or would have been granted.
fn head_fits(after: &Before, command: &Command, answer: &Answer) -> Option<&'static str> {
    let looks = !matches!(command.what, What::Renew(_))
        && !matches!(answer, Answer::Acquired(Acquired::Late { .. }));
    let (head, _) = after.waiting.first()?;
    (looks && fits(Holds::of(head), &after.standing)).then_some("S6 the head fits and sleeps")
}

/// How long the lease lasts that this entry was written for; nothing, if it has none.
fn lease_of(entry: &str) -> Duration {
    entry::read(entry).map_or(Duration::ZERO, |it| it.lease)
}

fn micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).expect("short")
}
