//! What a server stores of one lock, as it was read, and the report made of it.
//!
//! It has no `Debug`, because it holds entries, which nothing may show. Invariant: whatever stands
//! there, a report is made of it; only what dlock wrote in this version's layout is called its.

use std::collections::{BTreeMap, HashSet};
use std::time::{Duration, UNIX_EPOCH};

use super::{Fingerprint, HoldKind, HolderReport, LockKind, LockReport, WaiterReport};
use crate::values::about;
use crate::values::entry::{self, Entry, Letter, META, There};
use crate::values::error::Refusal;
use crate::values::fence::Fence;
use crate::values::holder::{self, Holder, Reading};
use crate::values::kind::Kind;

/// Which part of a lock's holders and queue is read.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Part {
    /// How many are skipped, of each.
    pub(crate) from: usize,
    /// How many are read, of each.
    pub(crate) most: usize,
}

/// Which locks a pass through the server's keys looks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sought {
    /// Those at whose own key something is stored.
    Locks,
    /// Those beside which the record of a last run is stored.
    Records,
}

/// One step through the server's keys.
#[derive(Debug)]
pub(crate) struct Scanned {
    /// Where the next step goes on; empty: this was the last one.
    pub(crate) cursor: String,
    pub(crate) keys: Vec<String>,
}

/// The keys of one lock at one moment.
pub(crate) struct Stored {
    /// The server's time, µs.
    pub(crate) time: u64,
    pub(crate) lock: StoredLock,
    /// The part of the queue that was read: entries with their arrival, an epoch.
    pub(crate) queue: Vec<(Vec<u8>, u64)>,
    pub(crate) queue_len: usize,
    /// Those of the queue that are known to be silent.
    pub(crate) silent: Vec<Vec<u8>>,
    /// The last epoch that was drawn.
    pub(crate) last_epoch: Option<u64>,
    /// The open transactions that keep it from the next holder, for people.
    pub(crate) kept_by: Option<String>,
}

/// What stands at a lock's key.
pub(crate) enum StoredLock {
    Nothing,
    /// A string; `left`: `None` without a time to live.
    Value {
        value: Vec<u8>,
        left: Option<Duration>,
    },
    Set(StoredSet),
    OtherType,
}

/// A sorted set.
pub(crate) struct StoredSet {
    /// The part of the members that was read, with their ends in µs; without the meta.
    pub(crate) members: Vec<(Vec<u8>, u64)>,
    /// The meta, or what stands in its place.
    pub(crate) last: Vec<u8>,
    /// How many there are, without the meta.
    pub(crate) count: usize,
    pub(crate) left: Option<Duration>,
}

/// What a search for the holder with some fingerprint found.
#[derive(PartialEq, Eq)]
pub(crate) enum HolderSearch<'a> {
    /// Nobody holds the lock.
    Free,
    /// Somebody else does.
    Other,
    /// The value with which that holder holds the lock.
    Holder(&'a str),
    /// What stands there may not be changed.
    Strange(Refusal, &'static str),
}

/// The entries that so many of the nodes have, with the time that a quorum leaves each, in µs.
fn held_at(all: &[Stored], quorum: usize) -> BTreeMap<Vec<u8>, i64> {
    let mut found = BTreeMap::<Vec<u8>, Vec<i64>>::new();
    for stored in all {
        if let StoredLock::Set(set) = &stored.lock {
            for (member, end) in &set.members {
                let left = end.cast_signed().saturating_sub(stored.time.cast_signed());
                found.entry(member.clone()).or_default().push(left);
            }
        }
    }
    let of_a_quorum = |(member, mut left): (Vec<u8>, Vec<i64>)| {
        left.sort_unstable_by(|one, other| other.cmp(one));
        Some((member, *left.get(quorum.checked_sub(1)?)?))
    };
    found.into_iter().filter_map(of_a_quorum).collect()
}

impl Stored {
    /// Whether everything was read, if nothing was skipped.
    pub(crate) fn is_whole(&self) -> bool {
        let read_all = match &self.lock {
            StoredLock::Set(set) => set.members.len() >= set.count,
            _ => true,
        };
        read_all && self.queue.len() >= self.queue_len
    }

    /// What most of several nodes have at a key, of what each of them has. Of a set these are the
    /// entries that a quorum has, unless it is too large to be read at once.
    pub(crate) fn of_most(mut all: Vec<Self>, quorum: usize) -> Option<Self> {
        let what = |it: &Self| match &it.lock {
            StoredLock::Nothing => (0, Vec::new()),
            StoredLock::Value { value, .. } => (1, value.clone()),
            StoredLock::Set(_) => (2, Vec::new()),
            StoredLock::OtherType => (3, Vec::new()),
        };
        let whats: Vec<_> = all.iter().map(what).collect();
        let alike = |at: &usize| {
            whats
                .iter()
                .filter(|it| Some(*it) == whats.get(*at))
                .count()
        };
        let most = (0..all.len()).max_by_key(alike)?;
        let held = all
            .iter()
            .all(Self::is_whole)
            .then(|| held_at(&all, quorum));
        let mut stored = all.swap_remove(most);
        if let (StoredLock::Set(set), Some(held)) = (&mut stored.lock, held) {
            let end = |left: i64| stored.time.saturating_add_signed(left);
            set.members = held.into_iter().map(|(it, left)| (it, end(left))).collect();
            set.members.sort_by_key(|(_, end)| *end);
            set.count = set.members.len();
            // A set of ours ends with its last entry; another one stays what it is.
            let is_ours = !matches!(set.kind(), LockKind::OtherLayout | LockKind::OtherType);
            if set.members.is_empty() && is_ours {
                stored.lock = StoredLock::Nothing;
            }
        }
        Some(stored)
    }

    /// Adds a later part, which was read a little later. Returns whether it had anything.
    pub(crate) fn append(&mut self, next: Stored) -> bool {
        let mut added = next.queue.len();
        self.queue.extend(next.queue);
        self.silent.extend(next.silent);
        if let (StoredLock::Set(set), StoredLock::Set(more)) = (&mut self.lock, next.lock) {
            added += more.members.len();
            set.members.extend(more.members);
        }
        added > 0
    }

    /// `None`: nothing stands there, and nobody waits.
    pub(crate) fn report(&self, key: &str) -> Option<LockReport> {
        let (kind, holders) = self.held();
        if kind.is_none() && self.queue_len == 0 && self.kept_by.is_none() {
            return None;
        }
        let waiters = self.waiters(&holders);
        let is_whole = self.is_whole();
        let (left, count) = match &self.lock {
            StoredLock::Value { left, .. } => (*left, 1),
            StoredLock::Set(set) => (set.left, set.count),
            StoredLock::Nothing | StoredLock::OtherType => (None, 0),
        };
        let known = kind.as_ref().is_some_and(LockKind::is_dlocks);
        Some(LockReport {
            key: key.to_owned(),
            holder_count: match &kind {
                None | Some(LockKind::OtherType) => 0,
                Some(_) if known && is_whole => holders.len(),
                Some(_) => count,
            },
            remaining: left.filter(|_| kind.is_some()),
            kind,
            holders,
            waiter_count: if is_whole {
                waiters.len()
            } else {
                self.queue_len
            },
            waiters,
            is_whole,
            fence: self.fence_of_hold(),
            fence_at_most: self.fence_at_most(),
            kept_by: self.kept_by.clone(),
        })
    }

    /// The holder with this fingerprint.
    pub(crate) fn find(&self, wanted: Fingerprint) -> HolderSearch<'_> {
        let of_another = |why| HolderSearch::Strange(Refusal::Layout, why);
        match &self.lock {
            StoredLock::Nothing => HolderSearch::Free,
            StoredLock::OtherType => HolderSearch::Strange(Refusal::WrongType, NO_LOCK),
            StoredLock::Value { value, .. } if value.len() > entry::LONGEST => {
                HolderSearch::Strange(Refusal::WrongType, NO_LOCK)
            }
            StoredLock::Value { value, .. } => match str::from_utf8(value) {
                Ok(text) if entry::is_other_layout(text) => of_another(OTHER_LAYOUT),
                _ if Fingerprint::of(value) != wanted => HolderSearch::Other,
                Ok(text) if !entry::letter_of(text).is_some_and(Letter::is_shared) => {
                    HolderSearch::Holder(text)
                }
                _ => of_another(UNREADABLE),
            },
            StoredLock::Set(set) => match set.kind() {
                LockKind::OtherLayout => of_another(OTHER_LAYOUT),
                LockKind::OtherType => HolderSearch::Strange(Refusal::WrongType, NO_LOCK),
                _ => set.find(wanted, self.time),
            },
        }
    }

    fn held(&self) -> (Option<LockKind>, Vec<HolderReport>) {
        match &self.lock {
            StoredLock::Nothing => (None, Vec::new()),
            StoredLock::OtherType => (Some(LockKind::OtherType), Vec::new()),
            StoredLock::Value { value, left } => {
                let kind = kind_of_value(value);
                let holder = (kind != LockKind::OtherLayout).then(|| self.holder(value, *left));
                (Some(kind), holder.into_iter().collect())
            }
            StoredLock::Set(set) => {
                let kind = set.kind();
                if !kind.is_dlocks() {
                    return (Some(kind), Vec::new());
                }
                let holders = set.holders(self.time).map(|(entry, ends)| {
                    self.holder(entry, Some(Duration::from_micros(ends - self.time)))
                });
                let holders: Vec<_> = holders.collect();
                let is_over = holders.is_empty() && set.members.len() >= set.count;
                ((!is_over).then_some(kind), holders)
            }
        }
    }

    fn holder(&self, stored: &[u8], remaining: Option<Duration>) -> HolderReport {
        let (holder, kind) = who(stored);
        let age = match &holder {
            Holder::Process(process) => {
                let since = process.since().duration_since(UNIX_EPOCH);
                let now = Duration::from_micros(self.time);
                Some(now.saturating_sub(since.unwrap_or_default()))
            }
            Holder::Foreign | Holder::WaitingWriter | Holder::OpenTransaction => None,
        };
        HolderReport {
            fingerprint: Fingerprint::of(stored),
            holder,
            kind,
            age,
            remaining,
            is_kept: str::from_utf8(stored).is_ok_and(entry::is_retired),
        }
    }

    /// Several parts of the queue were perhaps read one after the other, and the holders before
    /// them, so an entry may have moved meanwhile: it is told once.
    fn waiters(&self, holders: &[HolderReport]) -> Vec<WaiterReport> {
        let mut told: HashSet<_> = holders.iter().map(|it| it.fingerprint).collect();
        let silent: HashSet<&[u8]> = self.silent.iter().map(Vec::as_slice).collect();
        let mut waiters = Vec::with_capacity(self.queue.len());
        for (entry, arrival) in &self.queue {
            let fingerprint = Fingerprint::of(entry);
            if told.insert(fingerprint) {
                let (waiter, kind) = who(entry);
                waiters.push(WaiterReport {
                    fingerprint,
                    waiter,
                    kind,
                    waiting: Duration::from_micros(self.time.saturating_sub(*arrival)),
                    is_silent: silent.contains(entry.as_slice()),
                });
            }
        }
        waiters
    }

    /// Scripts draw epochs above the counter and not below the clock; without scripts an epoch is
    /// the larger of the two.
    fn fence_at_most(&self) -> Fence {
        Fence::last_of(self.last_epoch.unwrap_or_default().max(self.time))
    }

    fn fence_of_hold(&self) -> Option<Fence> {
        match &self.lock {
            StoredLock::Set(set) => {
                let meta = str::from_utf8(&set.last).ok()?;
                entry::epoch_of_meta(meta).map(|epoch| Fence::new(epoch, 0))
            }
            _ => None,
        }
    }
}

impl StoredSet {
    fn kind(&self) -> LockKind {
        let last = str::from_utf8(&self.last).unwrap_or_default();
        // Of a longer one only so much is read, and no meta of ours is so long.
        if !last.starts_with(META) || last.len() >= entry::LONGEST {
            return if last.starts_with(META) || entry::is_other_layout(last) {
                LockKind::OtherLayout
            } else {
                LockKind::OtherType
            };
        }
        match There::read(last).kind {
            Some(Kind::Read | Kind::Write) => LockKind::ReadWrite,
            Some(Kind::Permits { .. }) => LockKind::Permits,
            Some(Kind::Owned(owner)) => LockKind::Owner(about::shown_name(&owner)),
            Some(Kind::Exclusive) | None => LockKind::OtherLayout,
        }
    }

    /// The holders whose lease has not ended, each once: further permits of a holder are members
    /// with a number behind its entry.
    fn holders(&self, time: u64) -> impl Iterator<Item = (&[u8], u64)> {
        let all: HashSet<&[u8]> = self.members.iter().map(|(it, _)| it.as_slice()).collect();
        let mut told = HashSet::new();
        let members = self.members.iter().map(|(it, ends)| (it.as_slice(), *ends));
        members.filter(move |(member, ends)| {
            let is_further = entry_of_permit(member).is_some_and(|it| all.contains(it));
            *ends > time && !is_further && told.insert(*member)
        })
    }

    fn find(&self, wanted: Fingerprint, time: u64) -> HolderSearch<'_> {
        let mut holders = self.holders(time).peekable();
        if holders.peek().is_none() && self.members.len() >= self.count {
            return HolderSearch::Free;
        }
        let found = holders.find(|(entry, _)| Fingerprint::of(entry) == wanted);
        match found.map(|(entry, _)| str::from_utf8(entry)) {
            None => HolderSearch::Other,
            Some(Ok(text)) if entry::read(text).is_some() => HolderSearch::Holder(text),
            Some(_) => HolderSearch::Strange(Refusal::Layout, UNREADABLE),
        }
    }
}

const NO_LOCK: &str = "the key does not hold a lock: look at it with `redis-cli`";
const OTHER_LAYOUT: &str = "the key holds a lock of another layout: use that version's tools";
const UNREADABLE: &str = "that holder's entry is not of this layout: look at it with `redis-cli`";

/// The entry in front of a further permit's number.
fn entry_of_permit(member: &[u8]) -> Option<&[u8]> {
    let at = member.iter().rposition(|byte| *byte == b'#')?;
    let (entry, number) = member.split_at(at);
    let digits = number.get(1..)?;
    let is_number = !digits.is_empty() && digits.iter().all(u8::is_ascii_digit);
    is_number.then_some(entry)
}

fn kind_of_value(value: &[u8]) -> LockKind {
    let Ok(text) = str::from_utf8(value) else {
        return LockKind::Foreign;
    };
    if entry::is_other_layout(text) {
        return LockKind::OtherLayout;
    }
    match entry::read(text) {
        Some(entry) if entry.letter == Letter::Exclusive => LockKind::Exclusive,
        _ => LockKind::Foreign,
    }
}

/// Who wrote an entry, and what it says about its kind.
fn who(stored: &[u8]) -> (Holder, HoldKind) {
    let text = str::from_utf8(stored).unwrap_or_default();
    let holder = match holder::read(text) {
        Reading::Holder(holder) => holder,
        Reading::UnknownLayout => Holder::Foreign,
    };
    let kind = entry::read(text).map_or(HoldKind::Foreign, |entry| hold_kind(&entry));
    (holder, kind)
}

fn hold_kind(entry: &Entry<'_>) -> HoldKind {
    match entry.letter {
        Letter::Exclusive => HoldKind::Exclusive,
        Letter::Reader => HoldKind::Read,
        Letter::Writer => HoldKind::Write,
        Letter::Permits => HoldKind::Permits {
            take: entry.take,
            of: entry.of,
        },
        Letter::Owner => HoldKind::Owner(about::shown_name(entry.owner)),
    }
}
