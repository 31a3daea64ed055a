//! The token of one attempt: it makes a lock *ours*.
//!
//! `<instance>-<pool>-<number>`, in hexadecimal digits: 64 bits of OS randomness for the process, 64
//! for the pool that drew it, so that two copies of a machine share no pool that is made afterwards,
//! and a sequence number. Each digit costs: the server's Lua hashes all of a value, three times a
//! cycle.
//!
//! Invariants: a token is never used for a second attempt; a pool recognizes its own tokens, and
//! only those that it has drawn, so guessing a later number is useless; a token is never shown (no
//! `Display`, an empty `Debug`), for any client that knows it may release its lock.

use std::cmp::Ordering;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::atomic::{AtomicU64, Ordering as Memory};

use once_cell::sync::OnceCell;
use sha1_smol::Sha1;

use super::holder;
use super::process::PerProcess;

/// Identifies one attempt to take one lock; unique in the fleet.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Token {
    /// First, because it alone distinguishes most tokens of one process.
    sequence: u64,
    pool: u64,
    instance: &'static Instance,
}

impl Hash for Token {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u64((self.sequence ^ self.pool).wrapping_mul(SPREAD));
    }
}

/// The golden ratio: it spreads consecutive numbers.
const SPREAD: u64 = 0x9E37_79B9_7F4A_7C15;

/// Draws the tokens of one pool, and recognizes them.
#[derive(Debug)]
pub(crate) struct TokenSource {
    /// Identifies the pool; random, because a clone of this process goes on with the same sequence.
    pool: u64,
    instance: &'static Instance,
    /// The next sequence number.
    next: AtomicU64,
}

impl TokenSource {
    pub(crate) fn new() -> Result<Self, getrandom::Error> {
        let mut bytes = [0; 8];
        getrandom::fill(&mut bytes)?;
        Ok(Self {
            pool: u64::from_le_bytes(bytes),
            instance: Instance::ours()?,
            next: AtomicU64::new(1),
        })
    }

    /// A token that was never drawn before.
    pub(crate) fn draw(&self) -> Token {
        self.token(self.next.fetch_add(1, Memory::Relaxed))
    }

    /// The token in a lock's value, if this pool drew it. Only in the form that we write: two texts
    /// of one token would be two values at the server.
    pub(crate) fn recognize(&self, wire: &str) -> Option<Token> {
        let (_, sequence) = wire.rsplit_once('-')?;
        let sequence = u64::from_str_radix(sequence, 16).ok()?;
        let is_drawn = sequence > 0 && sequence < self.next.load(Memory::Relaxed);
        let token = self.token(sequence);
        (is_drawn && token.to_wire() == wire).then_some(token)
    }

    /// As [`recognize`](Self::recognize), in a lock's whole value.
    pub(crate) fn recognize_in(&self, value: &str) -> Option<Token> {
        self.recognize(holder::token_in(value)?)
    }

    /// As [`number_of_pool`], of this one.
    pub(crate) fn number(&self) -> u64 {
        let token = self.token(0).to_wire();
        number_of_pool(&token).unwrap_or_default() // each has dashes
    }

    fn token(&self, sequence: u64) -> Token {
        Token {
            sequence,
            pool: self.pool,
            instance: self.instance,
        }
    }
}

impl Token {
    #[cfg(test)]
    pub(crate) fn of_test(sequence: u64) -> Self {
        const OF_TEST: &Instance = &Instance {
            random: 7,
            text: "0000000000000007",
            pid_text: "7",
        };
        Self {
            instance: OF_TEST,
            pool: 0,
            sequence,
        }
    }

    /// The id of the process that made it.
    pub(crate) fn pid(self) -> &'static str {
        self.instance.pid_text
    }

    /// Its text in the lock's value.
    pub(crate) fn to_wire(self) -> String {
        let mut wire = String::with_capacity(WIRE_AT_MOST);
        self.write_wire(&mut wire);
        wire
    }

    pub(crate) fn write_wire(self, out: &mut String) {
        out.push_str(self.instance.text);
        for number in [self.pool, self.sequence] {
            out.push('-');
            push_hex(number, out);
        }
    }

    /// Whether a pool of this process may have drawn the token in a lock's value. For people:
    /// nothing is decided by it.
    pub(crate) fn is_of_this_process(wire: &str) -> bool {
        let instance = wire.split_once('-').map(|(instance, _)| instance);
        Instance::ours().is_ok_and(|ours| instance == Some(ours.text))
    }

    /// A number to spread timers with: random in all 64 bits, different for each attempt.
    pub(crate) fn scatter(self) -> u64 {
        let number = self.sequence ^ self.pool;
        self.instance.random ^ number.wrapping_mul(SPREAD)
    }
}

/// A number that all tokens of one pool have in common. It is made of a hash, because a part of a
/// token must not be shown.
pub(crate) fn number_of_pool(wire: &str) -> Option<u64> {
    let (pool, _) = wire.rsplit_once('-')?;
    let hash = Sha1::from(pool).digest().bytes();
    Some(u64::from_be_bytes(*hash.first_chunk()?))
}

/// Digits where a check of text reads eight at a time.
#[repr(align(8))]
struct Digits([u8; 16]);

/// As `{:x}` writes it, in a tenth of the time: each attempt has a token.
fn push_hex(number: u64, out: &mut String) {
    let [high, low] = [number >> 32, number & 0xffff_ffff].map(hex_digits);
    let digits = Digits((u128::from(high) << 64 | u128::from(low)).to_be_bytes());
    let text = str::from_utf8(&digits.0).unwrap_or_default(); // they are ASCII
    let zeros = usize::try_from((number | 1).leading_zeros() / 4).unwrap_or_default();
    out.push_str(text.get(zeros..).unwrap_or_default());
}

/// The eight digits of a number of 32 bits, one in each byte.
fn hex_digits(number: u64) -> u64 {
    let number = (number | number << 16) & 0x0000_ffff_0000_ffff;
    let number = (number | number << 8) & 0x00ff_00ff_00ff_00ff;
    let number = (number | number << 4) & 0x0f0f_0f0f_0f0f_0f0f;
    let above_nine = ((number + 0x0606_0606_0606_0606) >> 4) & 0x0101_0101_0101_0101;
    number + 0x3030_3030_3030_3030 + above_nine * u64::from(b'a' - b'0' - 10)
}

/// The longest text of a token: three numbers in hexadecimal digits, joined by dashes.
const WIRE_AT_MOST: usize = 16 + 1 + 16 + 1 + 16;

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token(..)")
    }
}

/// A process. Its texts live as long as the process.
struct Instance {
    /// Its identity.
    random: u64,
    /// The same, as text in each of its tokens.
    text: &'static str,
    pid_text: &'static str,
}

impl Instance {
    /// This process; a forked child draws its own.
    fn ours() -> Result<&'static Self, getrandom::Error> {
        static DRAWN: PerProcess<OnceCell<Instance>> = PerProcess::new(OnceCell::new());
        DRAWN.ours().get_or_try_init(Self::draw)
    }

    fn draw() -> Result<Self, getrandom::Error> {
        let mut bytes = [0; 8];
        getrandom::fill(&mut bytes)?;
        let random = u64::from_le_bytes(bytes);
        Ok(Self {
            random,
            text: format!("{random:016x}").leak(), // once per process
            pid_text: std::process::id().to_string().leak(),
        })
    }
}

impl fmt::Debug for Instance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Instance(..)")
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
