//! The token of one attempt: what makes a lock *ours*.
//!
//! 128 bits of OS randomness for the process, once, and a sequence number; a token is never used
//! for a second attempt. Whoever knows a token may release its lock, so it is never shown: no
//! `Display`, an empty `Debug`.

use std::cmp::Ordering;
use std::fmt;
use std::fmt::Write as _;
use std::hash::{Hash, Hasher};
use std::sync::Mutex;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicU64, Ordering as Memory};

/// Names one attempt to take one lock, unique in the fleet.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Token {
    /// First, for it alone tells those of one process apart.
    sequence: u64,
    instance: &'static Instance,
}

impl Token {
    /// A token that nobody has had before.
    pub(crate) fn fresh() -> Result<Self, getrandom::Error> {
        static SEQUENCE: AtomicU64 = AtomicU64::new(1);
        Ok(Self {
            instance: Instance::ours()?,
            sequence: SEQUENCE.fetch_add(1, Memory::Relaxed),
        })
    }

    #[cfg(test)]
    pub(crate) fn of_test(sequence: u64) -> Self {
        const OF_TEST: &Instance = &Instance {
            random: 7,
            text: "00000000000000000000000000000007",
            pid: 7,
            pid_text: "7",
        };
        Self {
            instance: OF_TEST,
            sequence,
        }
    }

    /// The id of the process that it was made by.
    pub(crate) fn pid(self) -> &'static str {
        self.instance.pid_text
    }

    /// As it stands in the lock's value.
    pub(crate) fn to_wire(self) -> String {
        let mut wire = String::with_capacity(WIRE_AT_MOST);
        self.write_wire(&mut wire);
        wire
    }

    pub(crate) fn write_wire(self, out: &mut String) {
        out.push_str(self.instance.text);
        let _ = write!(out, "-{:x}", self.sequence); // a String takes everything
    }

    /// The token in a lock's value, if it was made by this process.
    pub(crate) fn of_this_process(wire: &str) -> Option<Self> {
        let (theirs, sequence) = wire.split_once('-')?;
        let instance = Instance::ours().ok()?;
        (u128::from_str_radix(theirs, 16) == Ok(instance.random)).then_some(Self {
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
        let random = self.instance.random as u64;
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

/// A process. Its texts are as old as it is.
struct Instance {
    /// Its identity.
    random: u128,
    /// The same, as it stands in each of its tokens.
    text: &'static str,
    pid: u32,
    pid_text: &'static str,
}

impl Instance {
    /// This process; a forked child draws its own.
    fn ours() -> Result<&'static Self, getrandom::Error> {
        static DRAWN: Mutex<Option<&Instance>> = Mutex::new(None);
        let pid = std::process::id();
        let mut drawn = DRAWN.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(ours) = *drawn
            && ours.pid == pid
        {
            return Ok(ours);
        }
        let mut bytes = [0; 16];
        getrandom::fill(&mut bytes)?;
        let random = u128::from_le_bytes(bytes);
        let ours = Self {
            random,
            text: format!("{random:032x}").leak(),
            pid,
            pid_text: pid.to_string().leak(),
        };
        Ok(drawn.insert(Box::leak(Box::new(ours)))) // one for each process
    }
}

impl PartialEq for Instance {
    fn eq(&self, other: &Self) -> bool {
        self.random == other.random
    }
}

impl Eq for Instance {}

impl Hash for Instance {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.random.hash(state);
    }
}

impl PartialOrd for Instance {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Instance {
    fn cmp(&self, other: &Self) -> Ordering {
        self.random.cmp(&other.random)
    }
}
