//! Names what stands at a lock for one holder or waiter, without showing it.
//!
//! Whoever knows an entry may release its lock, so an entry is never shown. Invariant: a
//! fingerprint is one-way; an entry's token has 128 random bits, so nobody finds the entry by
//! trying.

use std::fmt;
use std::str::FromStr;

use sha1_smol::Sha1;

use crate::values::error::{LockError, Reason};
use crate::values::shown::{KEY_AT_MOST, quoted};

/// How many bytes of the hash are kept: enough that two holders of one lock never share them.
const BYTES: usize = 8;

/// A name of one holder or waiter of a lock that reveals nothing: the first 16 hexadecimal digits
/// of the SHA-1 of what the server stores for it.
///
/// It is the same in the queue and at the lock, so a waiter can be followed until it holds the
/// lock. All holders to which one process hands the lock on without a command share it
/// ([`Config::local_handoff`](crate::Config::local_handoff)). It changes with each attempt, and
/// when a writer becomes a reader. The fingerprint of another program's value, which may be as
/// simple as `1`, lets somebody confirm a guess.
///
/// # Examples
///
/// ```
/// use dlock_runtime::Fingerprint;
///
/// let typed: Fingerprint = "2fd4e1c67a2d28fc".parse()?;
/// assert_eq!(typed.to_string(), "2fd4e1c67a2d28fc");
///
/// let error = "2fd4".parse::<Fingerprint>().unwrap_err();
/// assert!(error.to_string().contains("16 hexadecimal digits"));
/// # Ok::<(), dlock_runtime::LockError>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Fingerprint([u8; BYTES]);

impl Fingerprint {
    /// That of a stored value or entry.
    pub(crate) fn of(stored: &[u8]) -> Self {
        let hash = Sha1::from(stored).digest().bytes();
        let mut first = [0; BYTES];
        for (to, from) in first.iter_mut().zip(hash) {
            *to = from;
        }
        Self(first)
    }
}

impl fmt::Display for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Reads 16 hexadecimal digits.
///
/// # Errors
/// [`LockError::Config`] for anything else.
impl FromStr for Fingerprint {
    type Err = LockError;

    fn from_str(text: &str) -> Result<Self, LockError> {
        let is_hex = text.len() == 2 * BYTES && text.bytes().all(|it| it.is_ascii_hexdigit());
        let number = is_hex.then(|| u64::from_str_radix(text, 16).ok()).flatten();
        number.map(|it| Self(it.to_be_bytes())).ok_or_else(|| {
            let text = quoted(text, KEY_AT_MOST);
            let why = Reason::new(format_args!(
                "{text} is not a holder's fingerprint: that has 16 hexadecimal digits, as `show` prints them"
            ));
            LockError::Config { why }
        })
    }
}
