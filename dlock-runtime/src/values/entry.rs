//! The entry of one attempt at the server: the value of an exclusive lock or a member of the set of
//! a kind with many holders, and for both the member of the queue. One layout and one parser here;
//! `lua/value.lua` has the other parser.
//!
//! `1|<kind>|<token>|<reply address>|<lease ms>|<take>|<of>|<owner>|<host>|<pid>|<function>|<since ms>`,
//! and any fields that a later version of this layout appends. The same bytes stand at the key, in
//! the queue and in every command, so that nothing is looked up by scanning. `take` and `of` are 0
//! except for permits, and except that the `of` of an exclusive entry which runs once per period is
//! that period, in ms; `owner` is empty except for owners. The last member of a set is its *meta*,
//! which says what all its entries have in common.
//!
//! Invariant: an entry at the server is never rewritten from its fields, so fields that this
//! version does not know stay in it.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use super::about::About;
use super::kind::Kind;
use super::shared_text;
use super::token::Token;
use super::ttl::{self, Ttl};

/// The layout that this version writes, and the only one that it reads.
const LAYOUT: &str = "1|";

/// The prefix of a set's meta member.
pub(crate) const META: &str = "1|#|";

/// What a node of a quorum names as the holder of a free lock that it leaves to a writer.
pub(crate) const LEFT_TO_A_WRITER: &str = "1|w";

/// Who holds a row that a transaction of the user's keeps: nobody, and a holder of any kind may come next.
pub(crate) const KEPT: &str = "1|k";

/// No entry of ours has more bytes, and a script's reply tells no more of a stranger's value.
pub(crate) const LONGEST: usize = 4096;

/// A longer number is refused, so that the Rust and Lua parsers agree on what can be read.
const MOST_DIGITS: usize = 15;

/// The most permits that one lock may take: each is a member of the set.
const MOST_AT_ONCE: u32 = 1000;

/// A parsed entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Entry<'a> {
    pub(crate) letter: Letter,
    pub(crate) token: &'a str,
    /// Where its grant is published; empty: it has to poll.
    pub(crate) address: &'a str,
    pub(crate) lease: Duration,
    /// How many permits it takes; 1 for every other kind.
    pub(crate) take: u32,
    /// The total number of permits; 0 for every other kind.
    pub(crate) of: u32,
    /// Of an exclusive lock whose job runs once per period: that period.
    pub(crate) once_per: Option<Duration>,
    pub(crate) owner: &'a str,
    /// `host|pid|function|since`, and fields of later versions.
    pub(crate) description: &'a str,
}

/// The kind of an entry, as its letter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Letter {
    Exclusive,
    Reader,
    Writer,
    Permits,
    Owner,
}

/// The entry of one attempt.
pub(crate) fn write(
    kind: &Kind,
    token: Token,
    address: &str,
    (lease, once_per): (Ttl, Option<Duration>),
    about: &About<'_>,
) -> Arc<str> {
    let mut text = shared_text::begin();
    begin(kind, &mut text);
    token.write_wire(&mut text);
    go_on(kind, address, (lease, once_per), &mut text);
    about.write(&mut text);
    shared_text::finish(text)
}

/// An entry with a given token and description.
#[cfg(test)]
pub(crate) fn of_test(
    kind: &Kind,
    token: &str,
    address: &str,
    lease: Ttl,
    description: &str,
) -> String {
    let mut text = String::new();
    begin(kind, &mut text);
    text.push_str(token);
    go_on(kind, address, (lease, None), &mut text);
    text + description
}

/// Writes the part before the token.
fn begin(kind: &Kind, out: &mut String) {
    out.push_str(LAYOUT);
    out.push(Letter::of_kind(kind).as_char());
    out.push('|');
}

/// Writes the part between the token and the description.
fn go_on(kind: &Kind, address: &str, (lease, once_per): (Ttl, Option<Duration>), out: &mut String) {
    let mut digits = itoa::Buffer::new();
    for field in ["|", address, "|", digits.format(lease.as_millis())] {
        out.push_str(field);
    }
    match kind {
        Kind::Exclusive => {
            out.push_str("|0|");
            out.push_str(digits.format(once_per.map_or(0, ttl::millis)));
            out.push_str("||");
        }
        Kind::Read | Kind::Write => out.push_str("|0|0||"),
        Kind::Owned(owner) => {
            for field in ["|0|0|", owner, "|"] {
                out.push_str(field);
            }
        }
        Kind::Permits { of, take } => {
            for number in [take, of] {
                out.push('|');
                out.push_str(digits.format(*number));
            }
            out.push_str("||");
        }
    }
}

/// `None`: a foreign value, or an entry of another kind or version, which only its own clients may
/// touch.
pub(crate) fn read(entry: &str) -> Option<Entry<'_>> {
    let (letter, mut rest) = begun(entry)?;
    // A field has few bytes: a plain loop finds its end sooner than `splitn` does.
    let mut field = || {
        let at = rest.bytes().position(|byte| byte == b'|')?;
        let field = rest.get(..at)?;
        rest = rest.get(at + 1..)?;
        Some(field)
    };
    let (token, address) = (field()?, field()?);
    let (lease, take, of) = (number(field()?)?, number(field()?)?, number(field()?)?);
    let (owner, description) = (field()?, rest);
    let once_per = (letter == Letter::Exclusive && of > 0).then(|| Duration::from_millis(of));
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
        once_per,
        owner,
        description,
    })
}

/// The kind of an entry; `None`: it does not begin like one of this version.
pub(crate) fn letter_of(entry: &str) -> Option<Letter> {
    begun(entry).map(|(letter, _)| letter)
}

/// The kind of an entry, and the text after it.
fn begun(entry: &str) -> Option<(Letter, &str)> {
    let rest = entry.strip_prefix(LAYOUT)?;
    match rest.as_bytes() {
        [letter, b'|', ..] => Some((Letter::of(*letter)?, rest.get(2..)?)),
        _ => None,
    }
}

/// Whether it is an entry of another layout or of an unknown kind, so that its rules are not known.
/// All layouts begin with a number and a bar, and a program without dlock has no reason to put a
/// kind behind them.
pub(crate) fn is_other_layout(value: &str) -> bool {
    let is_kind = |it: &str| matches!(it.as_bytes(), [b'a'..=b'z', b'|', ..]);
    match value.split_once('|') {
        Some(("1", rest)) => is_kind(rest) && letter_of(value).is_none(),
        Some((layout, _)) => !layout.is_empty() && layout.bytes().all(|it| it.is_ascii_digit()),
        None => false,
    }
}

/// The entry with which a downgraded writer holds the lock; `None` for every other entry.
pub(crate) fn reader_form(entry: &str) -> Option<String> {
    let rest = entry.strip_prefix("1|w|")?;
    Some(format!("1|r|{rest}"))
}

/// The entry that `min_hold` keeps after its holder is done: it still counts, and no
/// token can renew or release it. All kept entries of an owner are this same text, so they are one member of the set and
/// the living entries are counted without a search.
pub(crate) fn retired(entry: &str) -> String {
    if let Some(Entry {
        letter: Letter::Owner,
        owner,
        ..
    }) = read(entry)
    {
        return format!("1|o|-||1|0|0|{owner}|-|0|min_hold|0");
    }
    match begun(entry) {
        Some((letter, rest)) => format!("{LAYOUT}{}|-{rest}", letter.as_char()),
        None => entry.to_owned(),
    }
}

/// The entry of a holder that may still count on it.
pub(crate) fn of_holder(entry: &str) -> Option<Entry<'_>> {
    read(entry).filter(|_| !is_retired(entry))
}

pub(crate) fn is_retired(entry: &str) -> bool {
    begun(entry).is_some_and(|(_, rest)| rest.starts_with('-'))
}

/// What stands at the key, for a claim of another kind.
#[derive(Debug)]
pub(crate) struct There {
    /// `None`: of an unknown kind.
    pub(crate) kind: Option<Kind>,
}

impl There {
    /// From a meta member, or the beginning of a value.
    pub(crate) fn read(there: &str) -> Self {
        let kind = match there.strip_prefix(META) {
            Some(meta) => kind_of_meta(meta),
            None => Some(Kind::Exclusive),
        };
        Self { kind }
    }
}

impl fmt::Display for There {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.kind {
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

/// The epoch of an owner's hold, from its set's meta member.
pub(crate) fn epoch_of_meta(meta: &str) -> Option<u64> {
    let mut fields = meta.strip_prefix(META)?.split('|');
    match (fields.next()?, fields.next(), fields.next()) {
        ("o", Some(_), Some(epoch)) => epoch.parse().ok(),
        _ => None,
    }
}

fn number(text: &str) -> Option<u64> {
    let is_number = text.len() <= MOST_DIGITS && text.bytes().all(|it| it.is_ascii_digit());
    is_number.then(|| text.parse().ok())?
}

impl<'a> Entry<'a> {
    /// The channel of its address.
    pub(crate) fn channel(&self) -> Option<&'a str> {
        let (_, channel) = self.address.split_once(';')?;
        Some(channel)
    }
}

impl Letter {
    fn of(letter: u8) -> Option<Self> {
        Some(match letter {
            b'x' => Letter::Exclusive,
            b'r' => Letter::Reader,
            b'w' => Letter::Writer,
            b'p' => Letter::Permits,
            b'o' => Letter::Owner,
            _ => return None,
        })
    }

    fn of_kind(kind: &Kind) -> Self {
        match kind {
            Kind::Exclusive => Letter::Exclusive,
            Kind::Read => Letter::Reader,
            Kind::Write => Letter::Writer,
            Kind::Permits { .. } => Letter::Permits,
            Kind::Owned(_) => Letter::Owner,
        }
    }

    fn as_char(self) -> char {
        match self {
            Letter::Exclusive => 'x',
            Letter::Reader => 'r',
            Letter::Writer => 'w',
            Letter::Permits => 'p',
            Letter::Owner => 'o',
        }
    }

    /// Whether its holders stand in a sorted set, each with its own expiry.
    pub(crate) fn is_shared(self) -> bool {
        self != Letter::Exclusive
    }
}
