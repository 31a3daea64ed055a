//! The token of one attempt: what makes a lock *ours*.
//!
//! 128 bits of OS randomness for the process, once, and a sequence number; a token is never used
//! for a second attempt. Whoever knows a token may release its lock, so it is never shown: no
//! `Display`, an empty `Debug`.

use std::fmt;
use std::fmt::Write as _;
use std::sync::Mutex;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicU64, Ordering};

/// Names one attempt to take one lock, unique in the fleet.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Token {
    /// First, for it alone tells those of one process apart.
    sequence: u64,
    instance: u128,
}

impl Token {
    /// No token is ordered behind this one.
    pub(crate) const LAST: Token = Token {
        instance: u128::MAX,
        sequence: u64::MAX,
    };

    /// A token that nobody has had before.
    pub(crate) fn fresh() -> Result<Self, getrandom::Error> {
        static SEQUENCE: AtomicU64 = AtomicU64::new(1);
        Ok(Self {
            instance: instance()?,
            sequence: SEQUENCE.fetch_add(1, Ordering::Relaxed),
        })
    }

    #[cfg(test)]
    pub(crate) fn of_test(sequence: u64) -> Self {
        Self {
            instance: 7,
            sequence,
        }
    }

    /// As it stands in the lock's value.
    pub(crate) fn to_wire(self) -> String {
        let mut wire = String::with_capacity(WIRE_AT_MOST);
        self.write_wire(&mut wire);
        wire
    }

    pub(crate) fn write_wire(self, out: &mut String) {
        let _ = write!(out, "{:032x}-{:x}", self.instance, self.sequence); // a String takes everything
    }

    /// The token in a lock's value, if it was made by this process.
    pub(crate) fn of_this_process(wire: &str) -> Option<Self> {
        let (theirs, sequence) = wire.split_once('-')?;
        let instance = instance().ok()?;
        (u128::from_str_radix(theirs, 16) == Ok(instance)).then_some(Self {
            instance,
            sequence: u64::from_str_radix(sequence, 16).ok()?,
        })
    }

    /// A number to scatter timers with: spread over all 64 bits, different for each attempt.
    pub(crate) fn scatter(self) -> u64 {
        #[expect(
            clippy::cast_possible_truncation,
            reason = "any 64 of the random bits will do"
        )]
        let random = self.instance as u64;
        random ^ self.sequence.wrapping_mul(0x9E37_79B9_7F4A_7C15)
    }
}

/// The longest that a token is: two numbers in hexadecimal digits, and a dash.
pub(super) const WIRE_AT_MOST: usize = 32 + 1 + 16;

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token(..)")
    }
}

/// This process's random identity; a forked child draws its own.
fn instance() -> Result<u128, getrandom::Error> {
    static DRAWN: Mutex<Option<(u32, u128)>> = Mutex::new(None);
    let pid = std::process::id();
    let mut drawn = DRAWN.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some((of_pid, instance)) = *drawn
        && of_pid == pid
    {
        return Ok(instance);
    }
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes)?;
    let instance = u128::from_le_bytes(bytes);
    *drawn = Some((pid, instance));
    Ok(instance)
}
