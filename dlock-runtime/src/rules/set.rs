//! The holders of one lock of a kind with many: each entry with its own end.
//!
//! Invariants: it holds only entries that the kind allows at the same time; no entry ends earlier
//! than promised; only its owner and its end change an entry. The scripts' set also has the meta as
//! a member, and one member for each permit that an entry takes.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use super::micros;
use crate::rules::commands::Keep;
use crate::values::entry::{self, Entry, Letter, META};

/// How many members are searched for a living holder to name; entries that `min_hold` keeps may come
/// first.
const NAMED_AMONG: u32 = 16;

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Set {
    pub(super) meta: Meta,
    /// The most ms that an entry was given beyond its own lease: it was extended, or is kept.
    noted: Option<u64>,
    holders: BTreeMap<Arc<str>, SetEntry>,
}

/// What all entries of one set have in common.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Meta {
    ReadWrite,
    /// Each entry states the total itself: programs of two versions may count differently.
    Permits,
    Owner {
        owner: Arc<str>,
        /// The epoch of the hold, which ends with the owner's last entry.
        epoch: u64,
    },
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct SetEntry {
    expires: u64,
    take: u32,
}

impl Set {
    /// An empty set for its first holder.
    pub(super) fn new(entry: &Entry<'_>, epoch: u64) -> Self {
        let meta = match entry.letter {
            Letter::Reader | Letter::Writer => Meta::ReadWrite,
            Letter::Permits => Meta::Permits,
            Letter::Exclusive | Letter::Owner => Meta::Owner {
                owner: entry.owner.into(),
                epoch,
            },
        };
        Self {
            meta,
            noted: None,
            holders: BTreeMap::new(),
        }
    }

    /// As it is stored; `None`: it is none of ours.
    pub(super) fn load(meta: &str, entries: &[(Arc<str>, u64)]) -> Option<Self> {
        let (kind, noted) = match meta.split_once("||") {
            Some((kind, noted)) => (kind, Some(noted.parse::<u32>().ok()?.into())),
            None => (meta, None),
        };
        let mut fields = kind.strip_prefix(META)?.split('|');
        let meta = match (fields.next()?, fields.next()) {
            ("rw", _) => Meta::ReadWrite,
            ("p", _) => Meta::Permits,
            ("o", Some(owner)) => Meta::Owner {
                owner: owner.into(),
                epoch: fields.next()?.parse().ok()?,
            },
            _ => return None,
        };
        let holder = |(entry, expires): &(Arc<str>, u64)| {
            let take = entry::read(entry).map_or(1, |it| it.take);
            let expires = *expires;
            (entry.clone(), SetEntry { expires, take })
        };
        Some(Self {
            meta,
            noted,
            holders: entries.iter().map(holder).collect(),
        })
    }

    /// Whether one more entry may hold the lock beside the current holders.
    pub(super) fn fits(&self, entry: &Entry<'_>) -> bool {
        match (&self.meta, entry.letter) {
            (Meta::ReadWrite, Letter::Reader) => self
                .first()
                .is_some_and(|first| entry::letter_of(&first) == Some(Letter::Reader)),
            (Meta::Permits, Letter::Permits) => {
                let used: u64 = self.holders.values().map(|it| u64::from(it.take)).sum();
                used + u64::from(entry.take) <= u64::from(entry.of)
            }
            (Meta::Owner { owner, .. }, Letter::Owner) => **owner == *entry.owner,
            _ => false,
        }
    }

    /// Adds an entry or prolongs it; never shortens.
    pub(super) fn put(&mut self, value: Arc<str>, take: u32, until: u64, time: u64) {
        self.note_lease(&value, until, time);
        let holder = SetEntry {
            expires: until,
            take,
        };
        let holder = self.holders.entry(value).or_insert(holder);
        holder.expires = holder.expires.max(until);
    }

    /// The entry with which a claim holds the lock: its own, or the reader that it was downgraded
    /// to.
    pub(super) fn held_as(&self, value: &str) -> Option<Arc<str>> {
        let find = |entry: &str| self.holders.get_key_value(entry).map(|(it, _)| it.clone());
        find(value).or_else(|| find(&entry::reader_form(value)?))
    }

    /// When a claim's entry ends.
    pub(super) fn ends(&self, value: &str) -> Option<u64> {
        let held_as = self.held_as(value)?;
        self.holders.get(&held_as).map(|it| it.expires)
    }

    /// When an entry ends.
    pub(super) fn end_of(&self, entry: &str) -> Option<u64> {
        self.holders.get(entry).map(|it| it.expires)
    }

    pub(super) fn renew(&mut self, value: &str, until: u64, time: u64) -> bool {
        let Some(held_as) = self.held_as(value) else {
            return false;
        };
        self.note_lease(&held_as, until, time);
        if let Some(holder) = self.holders.get_mut(&held_as) {
            holder.expires = holder.expires.max(until);
        }
        true
    }

    /// Removes a claim's entry; whether it was there. If it is to be kept, it stays without an owner.
    pub(super) fn give_back(&mut self, value: &str, keep: Keep, time: u64) -> bool {
        let Some(held_as) = self.held_as(value) else {
            return false;
        };
        let gone = self.holders.remove(&held_as);
        if let (Some(left), Some(SetEntry { take, .. })) = (keep.left(time), gone) {
            let kept: Arc<str> = entry::retired(&held_as).into();
            self.note_lease(&kept, time + keep.at_most() * 1000, time);
            self.put(kept, take, time + left, time);
        }
        true
    }

    /// Turns a writer into a reader. Returns whether the claim is a reader now.
    pub(super) fn downgrade(&mut self, value: &str, until: u64, time: u64) -> bool {
        let Some(reader) = entry::reader_form(value) else {
            return false;
        };
        if let Some(SetEntry { expires, take }) = self.holders.remove(value) {
            self.put(reader.as_str().into(), take, until.max(expires), time);
        }
        self.holders.contains_key(&*reader)
    }

    /// The clock was set back: if the first entry ends later than it can, no entry stays for as long as
    /// the step.
    pub(super) fn cut_ends(&mut self, time: u64) {
        let first = self.holders.iter().min_by_key(order);
        if first.is_some_and(|(it, holder)| holder.expires > self.latest_end(it, time)) {
            let each = self.holders.iter();
            let latest: Vec<_> = each.map(|(it, _)| self.latest_end(it, time)).collect();
            for (holder, latest) in self.holders.values_mut().zip(latest) {
                holder.expires = holder.expires.min(latest);
            }
        }
    }

    /// Drops lapsed holders; whether any holder is left.
    pub(super) fn drop_lapsed(&mut self, time: u64) -> bool {
        self.holders.retain(|_, holder| holder.expires > time);
        !self.holders.is_empty()
    }

    /// The latest time at which an entry can end, unless the clock was set back since. Of one that can't
    /// be read, only its own clients know.
    fn latest_end(&self, entry: &str, time: u64) -> u64 {
        let own = entry::read(entry).map_or(u64::MAX, |it| micros(it.lease));
        time.saturating_add(own.max(self.noted.unwrap_or(0) * 1000))
    }

    fn note_lease(&mut self, entry: &str, until: u64, time: u64) {
        if until > self.latest_end(entry, time) {
            self.noted = Some((until - time).div_ceil(1000));
        }
    }

    /// How many hold the lock, without entries that are kept without an owner.
    pub(super) fn count(&self) -> u32 {
        let living = self.holders.keys().filter(|it| !entry::is_retired(it));
        u32::try_from(living.count()).unwrap_or(u32::MAX)
    }

    /// When the first one ends.
    pub(super) fn next_end(&self) -> Option<u64> {
        self.holders.values().map(|it| it.expires).min()
    }

    /// When the last one ends, and the key with it.
    #[cfg(test)]
    pub(super) fn last_end(&self) -> Option<u64> {
        self.holders.values().map(|it| it.expires).max()
    }

    /// The holder to name: the first to end, but a living one rather than an entry kept without an
    /// owner, if there is one among the first [`NAMED_AMONG`] members.
    pub(super) fn named(&self) -> Option<Arc<str>> {
        let mut holders: Vec<_> = self.holders.iter().collect();
        holders.sort_unstable_by_key(order);
        let mut members = 0;
        let mut looked_at = holders.iter().take_while(|(_, holder)| {
            members += holder.take;
            members - holder.take < NAMED_AMONG
        });
        let living = looked_at.find(|(it, _)| !entry::is_retired(it));
        living.or(holders.first()).map(|(it, _)| (*it).clone())
    }

    /// Each entry and its end, the first to end first.
    pub(super) fn by_end(&self) -> Vec<(Arc<str>, u64)> {
        let mut holders: Vec<_> = self.holders.iter().collect();
        holders.sort_unstable_by_key(order);
        let holders = holders.into_iter();
        holders
            .map(|(it, holder)| (it.clone(), holder.expires))
            .collect()
    }

    fn first(&self) -> Option<Arc<str>> {
        let first = self.holders.iter().min_by_key(order);
        first.map(|(entry, _)| entry.clone())
    }

    /// Sets an entry's end, even to sooner than promised.
    #[cfg(test)]
    pub(super) fn end_at(&mut self, entry: &str, until: u64) {
        if let Some(holder) = self.holders.get_mut(entry) {
            holder.expires = until;
        }
    }

    /// The members as in the scripts' set: by their ends, each permit as one member.
    #[cfg(test)]
    pub(super) fn members(&self) -> Vec<(String, u64)> {
        let mut members = Vec::new();
        for (entry, SetEntry { expires, take }) in &self.holders {
            members.push((*expires, entry.to_string()));
            members.extend((2..=*take).map(|number| (*expires, format!("{entry}#{number}"))));
        }
        members.sort_unstable();
        members
            .into_iter()
            .map(|(expires, member)| (member, expires))
            .collect()
    }
}

fn order<'a>((entry, holder): &(&'a Arc<str>, &SetEntry)) -> (u64, &'a Arc<str>) {
    (holder.expires, *entry)
}

impl Meta {
    /// Whether an entry is of this set's kind, even if it does not fit now.
    pub(super) fn is_kind_of(&self, entry: &Entry<'_>) -> bool {
        matches!(
            (self, entry.letter),
            (Meta::ReadWrite, Letter::Reader | Letter::Writer)
                | (Meta::Permits, Letter::Permits)
                | (Meta::Owner { .. }, Letter::Owner)
        )
    }

    /// Raises the epoch that all entries of a hold share.
    pub(super) fn adopt(&mut self, higher: u64) {
        if let Meta::Owner { epoch, .. } = self {
            *epoch = (*epoch).max(higher);
        }
    }

    /// The epoch that all entries of a hold share.
    pub(super) fn epoch(&self) -> Option<u64> {
        match self {
            Meta::Owner { epoch, .. } => Some(*epoch),
            _ => None,
        }
    }
}

/// The meta member of the scripts' set.
impl fmt::Display for Set {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.meta.fmt(f)?;
        self.noted.map_or(Ok(()), |ms| write!(f, "||{ms}"))
    }
}

/// The same, as long as no entry was given more than its own lease.
impl fmt::Display for Meta {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Meta::ReadWrite => write!(f, "{META}rw"),
            Meta::Permits => write!(f, "{META}p"),
            Meta::Owner { owner, epoch } => write!(f, "{META}o|{owner}|{epoch}"),
        }
    }
}
