//! Selects the request that a trigger acts on.

use std::fmt;

use crate::resp::words;

/// A condition on a request, and which of the matching requests is meant: the first, unless
/// [`nth`](Self::nth) says otherwise.
///
/// ```
/// # use dlock_harness::Matcher;
/// let second_renewal = Matcher::script().containing("{orders:42}").nth(2);
/// ```
#[must_use = "it does nothing before `Proxy::on`"]
pub struct Matcher {
    conditions: Vec<Condition>,
    nth: u64,
    every: bool,
    text: String,
}

/// Gets the raw bytes of one request.
type Condition = Box<dyn Fn(&[u8]) -> bool + Send + Sync>;

impl Matcher {
    /// Any request, those with which a client library opens its connection included.
    pub fn any() -> Self {
        Self {
            conditions: Vec::new(),
            nth: 1,
            every: false,
            text: "request".to_owned(),
        }
    }

    /// Requests of this command, in upper or lower case.
    pub fn command(name: &str) -> Self {
        let owned = name.to_owned();
        Self::any().and(name, move |request| is_command(request, &owned))
    }

    /// `EVAL` and `EVALSHA`.
    pub fn script() -> Self {
        Self::any().and("EVAL or EVALSHA", |request| {
            is_command(request, "EVAL") || is_command(request, "EVALSHA")
        })
    }

    /// Requests whose raw bytes meet a condition; [`words`] splits them into arguments.
    pub fn when(condition: impl Fn(&[u8]) -> bool + Send + Sync + 'static) -> Self {
        Self::any().and("meeting a condition", condition)
    }

    /// Also requires that the request contains these bytes anywhere: a key, a token, an argument.
    pub fn containing(self, needle: impl AsRef<[u8]>) -> Self {
        let needle = needle.as_ref().to_vec();
        let text = format!("containing {:?}", String::from_utf8_lossy(&needle));
        self.and(&text, move |request| contains(request, &needle))
    }

    /// Means the nth match, counted from 1 since the trigger was registered.
    pub fn nth(mut self, n: u64) -> Self {
        assert!(n > 0, "the first is 1");
        self.nth = n;
        self
    }

    /// Means every later match too: the trigger no longer fires only once.
    pub fn every(mut self) -> Self {
        self.every = true;
        self
    }

    pub(super) fn matches(&self, request: &[u8]) -> bool {
        self.conditions.iter().all(|meets| meets(request))
    }

    /// Whether the match with this number, from 1, is meant.
    pub(super) fn means(&self, number: u64) -> bool {
        number == self.nth || (self.every && number > self.nth)
    }

    fn and(mut self, text: &str, meets: impl Fn(&[u8]) -> bool + Send + Sync + 'static) -> Self {
        self.conditions.push(Box::new(meets));
        self.text.push(' ');
        self.text.push_str(text);
        self
    }
}

/// In words: `request SET containing "key", number 2`.
impl fmt::Debug for Matcher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let onwards = if self.every {
            " and every later one"
        } else {
            ""
        };
        write!(f, "{}, number {}{onwards}", self.text, self.nth)
    }
}

fn is_command(request: &[u8], name: &str) -> bool {
    let words = words(request);
    words
        .first()
        .is_some_and(|word| word.eq_ignore_ascii_case(name.as_bytes()))
}

fn contains(request: &[u8], needle: &[u8]) -> bool {
    needle.is_empty() || request.windows(needle.len()).any(|part| part == needle)
}
