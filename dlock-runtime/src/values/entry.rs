//! An entry of the kinds with many holders: what stands for one of them in the set at the key, and for one
//! who waits in its queue.
//!
//! `<letter>|<token>|<reply address>|<lease ms>|<take>|<of>|<owner>|<host>|<pid>|<function>|<since ms>`: the
//! same bytes in the set, in the queue and in every command, so that nothing is looked up by scanning. The
//! letter is `r`, `w`, `p` or `o`; `take` and `of` are 0 but for permits, `owner` is empty but for owners. The
//! set's last member is its *meta*, which says what has to be equal of all that are in it.

use std::fmt;
use std::time::Duration;

use super::kind::Kind;
use super::ttl::Ttl;

/// Layout 1 of the set; the meta member begins with it.
pub(crate) const META: &str = "#|1|";

/// Numbers of more digits are none; so that both sides agree on what can be read.
const MOST_DIGITS: usize = 15;

/// So many permits may be taken at once: each is a member of the set.
const MOST_AT_ONCE: u32 = 1000;

/// An entry, read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Entry<'a> {
    pub(crate) letter: Letter,
    pub(crate) token: &'a str,
    /// The channel that its grant is published to; empty: it has to poll.
    pub(crate) address: &'a str,
    pub(crate) lease: Duration,
    /// How many permits it takes; 1 for every other kind.
    pub(crate) take: u32,
    /// Of how many permits in all; 0 for every other kind.
    pub(crate) of: u32,
    pub(crate) owner: &'a str,
    /// `host|pid|function|since`, as in the value of an exclusive lock.
    pub(crate) description: &'a str,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Letter {
    Reader,
    Writer,
    Permits,
    Owner,
}

/// Whether a value is an entry of a kind with many holders; else it is one of an exclusive lock.
pub(crate) fn is_entry(value: &str) -> bool {
    let mut bytes = value.bytes();
    bytes.next().and_then(Letter::of).is_some() && bytes.next() == Some(b'|')
}

/// `None` for an exclusive lock, which has no entry.
pub(crate) fn write(
    kind: &Kind,
    token: &str,
    address: &str,
    lease: Ttl,
    description: &str,
) -> Option<String> {
    let (letter, take, of, owner) = match kind {
        Kind::Exclusive => return None,
        Kind::Read => ('r', 0, 0, ""),
        Kind::Write => ('w', 0, 0, ""),
        Kind::Permits { of, take } => ('p', *take, *of, ""),
        Kind::Owned(owner) => ('o', 0, 0, &**owner),
    };
    let lease = lease.as_millis();
    Some(format!(
        "{letter}|{token}|{address}|{lease}|{take}|{of}|{owner}|{description}"
    ))
}

/// `None`: of another kind or version, which only its own clients may touch.
pub(crate) fn read(entry: &str) -> Option<Entry<'_>> {
    let mut fields = entry.splitn(8, '|');
    let mut field = || fields.next();
    let letter = match field()?.as_bytes() {
        [letter] => Letter::of(*letter)?,
        _ => return None,
    };
    let (token, address) = (field()?, field()?);
    let (lease, take, of) = (number(field()?)?, number(field()?)?, number(field()?)?);
    let (owner, description) = (field()?, field()?);
    let (take, of) = match letter {
        Letter::Permits => (u32::try_from(take).ok()?, u32::try_from(of).ok()?),
        _ => (1, 0),
    };
    let fits = letter != Letter::Permits || (take <= of && take <= MOST_AT_ONCE);
    (lease > 0 && take > 0 && fits && !token.is_empty()).then_some(Entry {
        letter,
        token,
        address,
        lease: Duration::from_millis(lease),
        take,
        of,
        owner,
        description,
    })
}

/// What a writer that was downgraded holds the lock with; `None` for every other entry.
pub(crate) fn reader_form(entry: &str) -> Option<String> {
    entry.strip_prefix("w|").map(|rest| format!("r|{rest}"))
}

/// What is kept for `min_hold` when its holder has done: it counts, and answers to no token. Of an owner it is the same for all
/// entries, so that nobody has to count those that live.
pub(crate) fn retired(entry: &str) -> String {
    if let Some(Entry {
        letter: Letter::Owner,
        owner,
        ..
    }) = read(entry)
    {
        return format!("o|-||1|0|0|{owner}|-|0|min_hold|0");
    }
    match entry.split_once('|') {
        Some((letter, rest)) => format!("{letter}|-{rest}"),
        None => entry.to_owned(),
    }
}

pub(crate) fn is_retired(entry: &str) -> bool {
    entry.as_bytes().get(1..3) == Some(b"|-")
}

/// A place in a queue as others are told of it: without what grants the right to give it up.
pub(crate) fn without_token(entry: &str) -> String {
    let mut fields = entry.splitn(3, '|');
    match (fields.next(), fields.next(), fields.next()) {
        (Some(letter), Some(_), Some(rest)) if is_entry(entry) => format!("{letter}|-|{rest}"),
        _ => "x|".to_owned(),
    }
}

/// What stands in the way of another kind.
#[derive(Debug)]
pub(crate) struct There {
    /// `None`: of another version.
    pub(crate) kind: Option<Kind>,
    /// It stands in the queue only.
    pub(crate) waits: bool,
}

impl There {
    /// From a meta member, a place in a queue, or a value.
    pub(crate) fn read(there: &str) -> Self {
        let (kind, waits) = match (there.strip_prefix(META), read(there)) {
            (Some(meta), _) => (kind_of_meta(meta), false),
            (None, Some(entry)) => (Some(entry.kind()), true),
            (None, None) => (Some(Kind::Exclusive), there.starts_with("x|")),
        };
        Self { kind, waits }
    }
}

impl fmt::Display for There {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.kind {
            Some(kind) if self.waits => write!(f, "somebody who waits for {kind}"),
            Some(Kind::Permits { of: 0, .. }) => f.write_str("a lock with permits"),
            Some(kind) => kind.fmt(f),
            None => f.write_str("a lock of another version"),
        }
    }
}

fn kind_of_meta(meta: &str) -> Option<Kind> {
    let mut fields = meta.split('|');
    match (fields.next()?, fields.next()) {
        ("rw", _) => Some(Kind::Read),
        ("p", _) => Some(Kind::Permits { of: 0, take: 0 }), // of any number
        ("o", Some(owner)) => Some(Kind::Owned(owner.into())),
        _ => None,
    }
}

fn number(text: &str) -> Option<u64> {
    let is_number = text.len() <= MOST_DIGITS && text.bytes().all(|it| it.is_ascii_digit());
    is_number.then(|| text.parse().ok())?
}

impl Entry<'_> {
    fn kind(&self) -> Kind {
        match self.letter {
            Letter::Reader => Kind::Read,
            Letter::Writer => Kind::Write,
            Letter::Permits => Kind::Permits {
                of: self.of,
                take: self.take,
            },
            Letter::Owner => Kind::Owned(self.owner.into()),
        }
    }
}

impl Letter {
    fn of(letter: u8) -> Option<Self> {
        Some(match letter {
            b'r' => Letter::Reader,
            b'w' => Letter::Writer,
            b'p' => Letter::Permits,
            b'o' => Letter::Owner,
            _ => return None,
        })
    }
}
