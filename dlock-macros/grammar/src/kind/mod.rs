//! Which words about the kind of a lock go together: words that name a kind, and words that need
//! another.
//!
//! A lock without any of them is exclusive. They are checked in the order in which they were
//! written, so that of two that exclude each other the second is at fault.

use std::fmt;

/// The most permits that a lock can have.
pub const PERMITS_MAX: u32 = 1_000_000;

/// The most permits that one holder can take: the server handles each of them, and serves no other
/// client meanwhile.
pub const TAKE_MAX: u32 = 1_000;

/// The most keys that one call can lock.
pub const KEYS_MAX: usize = 1_000;

/// The longest name of an owner, in bytes: it stands in each of the owner's entries on the server.
pub const OWNER_MAX_BYTES: usize = 256;

/// What an argument of the attribute or a method of the builder can say about the kind of a lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Word {
    /// One of many readers.
    Read,
    /// The one writer.
    Write,
    /// Up to this many holders at the same time; `None`: the number is not known yet.
    Permits(Option<u32>),
    /// This many of the permits at once; `None`: the number is not known yet.
    Take(Option<u32>),
    /// The holder may take it again.
    Reentrant,
    /// Who counts as the holder.
    Owner,
    /// In order of arrival.
    Fair,
    /// One holder, and then none for a time.
    OncePer,
    /// What becomes of a period in which the holder crashed.
    AfterCrash,
    /// One leader, which asks for the lock again after each term.
    Lead,
    /// Several keys at once.
    Keys,
}

impl Word {
    /// The word as it is written.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Write => "write",
            Self::Permits(_) => "permits",
            Self::Take(_) => "take",
            Self::Reentrant => "reentrant",
            Self::Owner => "owner",
            Self::Fair => "fair",
            Self::OncePer => "once_per",
            Self::AfterCrash => "after_crash",
            Self::Lead => "lead",
            Self::Keys => "keys",
        }
    }

    fn is_kind(self) -> bool {
        matches!(
            self,
            Self::Read | Self::Write | Self::Permits(_) | Self::Reentrant | Self::Lead
        )
    }

    /// What is wrong with its number.
    fn check_number(self) -> Option<KindError> {
        match self {
            Self::Permits(Some(0)) => Some(KindError::NoPermits),
            Self::Permits(Some(of)) if of > PERMITS_MAX => Some(KindError::TooManyPermits),
            Self::Take(Some(0)) => Some(KindError::TakeNothing),
            Self::Take(Some(take)) if take > TAKE_MAX => Some(KindError::TakeTooMany),
            _ => None,
        }
    }

    /// What is wrong with it beside the other words.
    fn check_beside(self, words: &[Word]) -> Option<KindError> {
        let find = |wanted: fn(Word) -> bool| words.iter().copied().find(|word| wanted(*word));
        let reentrant = words.contains(&Self::Reentrant);
        match self {
            Self::Take(take) => match (take, find(|word| matches!(word, Self::Permits(_)))) {
                (_, None) => Some(KindError::TakeWithoutPermits),
                (Some(take), Some(Self::Permits(Some(of)))) if take > of && of > 0 => {
                    (take <= TAKE_MAX).then_some(KindError::TakeOverPermits { take, of })
                }
                _ => None,
            },
            Self::Owner if !reentrant => Some(KindError::OwnerWithoutReentrant),
            Self::Fair => {
                let in_order = find(|word| {
                    matches!(
                        word,
                        Self::Read | Self::Write | Self::Permits(_) | Self::Owner
                    )
                })?;
                let kind = in_order.name();
                Some(KindError::FairAnyway { kind })
            }
            Self::OncePer => {
                let other =
                    find(|word| !matches!(word, Self::OncePer | Self::AfterCrash | Self::Fair))?;
                Some(KindError::OncePerOf {
                    other: other.name(),
                })
            }
            Self::AfterCrash if !words.contains(&Self::OncePer) => {
                Some(KindError::AfterCrashWithoutOncePer)
            }
            Self::Permits(_) | Self::Reentrant | Self::Owner | Self::Lead
                if words.contains(&Self::Keys) =>
            {
                let kind = self.name();
                Some(KindError::KindOfManyKeys { kind })
            }
            _ => None,
        }
    }
}

/// All errors; empty if the words go together.
///
/// # Examples
///
/// ```
/// use dlock_grammar::kind::{KindError, Word, check};
///
/// assert!(check(&[Word::Permits(Some(5)), Word::Take(Some(2))]).is_empty());
/// let [wrong] = check(&[Word::Read, Word::Write])[..] else { panic!() };
/// assert_eq!(wrong, KindError::TwoKinds { first: "read", second: "write" });
/// ```
#[must_use]
pub fn check(words: &[Word]) -> Vec<KindError> {
    if words.is_empty() {
        return Vec::new(); // usual, at each call of a function with an exclusive lock
    }
    let mut kinds = words.iter().filter(|word| word.is_kind());
    let first = kinds.next().map_or("", |word| word.name());
    let two_kinds = kinds.map(|second| KindError::TwoKinds {
        first,
        second: second.name(),
    });
    let of_each = words
        .iter()
        .flat_map(|word| [word.check_number(), word.check_beside(words)]);
    two_kinds.chain(of_each.flatten()).collect()
}

/// Checks the number of keys that are locked at once, before duplicates are removed.
///
/// # Errors
///
/// [`KindError`], whose text says the bound and the fix.
pub fn check_keys(count: usize) -> Result<(), KindError> {
    match count {
        0 => Err(KindError::NoKeys),
        1..=KEYS_MAX => Ok(()),
        _ => Err(KindError::TooManyKeys { count }),
    }
}

/// Checks the name of an owner.
///
/// # Errors
///
/// [`KindError`], whose text says the bound and the fix.
pub fn check_owner(owner: &str) -> Result<(), KindError> {
    let bytes = owner.len();
    if owner.is_empty() {
        Err(KindError::NoOwner)
    } else if bytes > OWNER_MAX_BYTES {
        Err(KindError::OwnerTooLong { bytes })
    } else {
        Ok(())
    }
}

/// Words that can't work; the `Display` states the bound and the fix.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum KindError {
    /// Two words name a kind; a lock has one.
    TwoKinds {
        /// The kind that was written first.
        first: &'static str,
        /// The other.
        second: &'static str,
    },
    /// `permits = 0`
    NoPermits,
    /// More than [`PERMITS_MAX`].
    TooManyPermits,
    /// `take = 0`
    TakeNothing,
    /// More than [`TAKE_MAX`].
    TakeTooMany,
    /// More than the lock has.
    TakeOverPermits {
        /// How many permits are requested.
        take: u32,
        /// How many permits there are.
        of: u32,
    },
    /// `take` without `permits`.
    TakeWithoutPermits,
    /// `owner` without `reentrant`.
    OwnerWithoutReentrant,
    /// `fair` with a kind that is always granted in order of arrival.
    FairAnyway {
        /// The word for that kind.
        kind: &'static str,
    },
    /// `once_per` with a lock that is not an exclusive one of one key.
    OncePerOf {
        /// The word for that lock.
        other: &'static str,
    },
    /// `after_crash` without `once_per`.
    AfterCrashWithoutOncePer,
    /// A kind that does not support several keys yet.
    KindOfManyKeys {
        /// The word for that kind.
        kind: &'static str,
    },
    /// No keys.
    NoKeys,
    /// More than [`KEYS_MAX`].
    TooManyKeys {
        /// How many keys there are.
        count: usize,
    },
    /// An owner without a name.
    NoOwner,
    /// More than [`OWNER_MAX_BYTES`].
    OwnerTooLong {
        /// Its length.
        bytes: usize,
    },
}

impl KindError {
    /// The argument that it is about, as written in the attribute.
    #[must_use]
    pub fn argument(self) -> &'static str {
        match self {
            Self::TwoKinds { second, .. } => second,
            Self::NoPermits | Self::TooManyPermits => "permits",
            Self::TakeNothing
            | Self::TakeTooMany
            | Self::TakeOverPermits { .. }
            | Self::TakeWithoutPermits => "take",
            Self::OwnerWithoutReentrant | Self::NoOwner | Self::OwnerTooLong { .. } => "owner",
            Self::FairAnyway { .. } => "fair",
            Self::OncePerOf { .. } => "once_per",
            Self::AfterCrashWithoutOncePer => "after_crash",
            Self::KindOfManyKeys { kind } => kind,
            Self::NoKeys | Self::TooManyKeys { .. } => "keys",
        }
    }
}

impl fmt::Display for KindError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::TwoKinds { first, second } => write!(
                f,
                "`{second}` and `{first}` are two kinds of lock, and a lock has one: remove either"
            ),
            Self::NoPermits => f.write_str("permits 0 would let nobody in: give at least 1"),
            Self::TooManyPermits => write!(
                f,
                "a lock has at most {PERMITS_MAX} permits: lower the number, or count in larger units"
            ),
            Self::TakeNothing => f.write_str(
                "take 0 would hold nothing: give at least 1, or leave `take` out to take one",
            ),
            Self::TakeTooMany => write!(
                f,
                "one holder takes at most {TAKE_MAX} permits: lower `take`, or count in larger units"
            ),
            Self::TakeOverPermits { take, of } => write!(
                f,
                "take {take} is more than the {of} permits that there are, so it would wait for ever: lower `take` or raise `permits`"
            ),
            Self::TakeWithoutPermits => f.write_str(
                "`take` says how many of the `permits` are taken at once, and this lock has none: add `permits`, or remove `take`",
            ),
            Self::OwnerWithoutReentrant => f.write_str(
                "`owner` says who may take the lock again, and this one can't be taken again: add `reentrant`, or remove `owner`",
            ),
            Self::FairAnyway { kind } => write!(
                f,
                "with `{kind}` a lock is granted in order of arrival anyway, and `fair` is for exclusive locks: remove it"
            ),
            Self::OncePerOf { other } => write!(
                f,
                "`once_per` is for a job that one process runs under an exclusive lock of one key, and `{other}` asks for another lock: remove either"
            ),
            Self::AfterCrashWithoutOncePer => f.write_str(
                "`after_crash` says whether a job that crashed runs again within its period, and this lock has none: add `once_per`, or remove `after_crash`",
            ),
            Self::KindOfManyKeys { kind } => write!(
                f,
                "`{kind}` with `keys` is not supported yet: remove it, or lock one `key`"
            ),
            Self::NoKeys => f.write_str("there are no keys to lock: give at least one"),
            Self::TooManyKeys { count } => write!(
                f,
                "{count} keys are more than the {KEYS_MAX} that can be locked at once: lock what they have in common"
            ),
            Self::NoOwner => f.write_str(
                "the owner is empty, so everybody would be the same one: name who may take the lock again",
            ),
            Self::OwnerTooLong { bytes } => write!(
                f,
                "the owner has {bytes} bytes, and at most {OWNER_MAX_BYTES} are allowed: hash the long part"
            ),
        }
    }
}

impl std::error::Error for KindError {}

#[cfg(test)]
mod tests;
