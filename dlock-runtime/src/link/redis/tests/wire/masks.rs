//! Writes what is seen at a server so that it reads the same each time: an entry by its name, a time
//! by the step and by how many ms it is from there, an epoch by the step that drew it, a duration
//! rounded up. Times that belong together are the same number, and are told by one step.

use std::collections::HashMap;
use std::time::Duration;

const DAY: u64 = 86_400_000_000;
/// `BEHIND_ALL` in `hints.lua`.
const BEHIND_ALL: u64 = 1 << 52;
/// All times that are told from a step are so many µs from it, or a multiple.
const GRAIN: i64 = 500_000;
/// A time to live has whole ms, rounded by Redis and by the scripts.
const ROUNDED: u64 = 4_000;

/// The server's time before and after the step, and its counter of epochs.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Span {
    pub(super) begins: u64,
    pub(super) ends: u64,
    pub(super) counter_before: u64,
    pub(super) counter: u64,
}

#[derive(Debug, Default)]
pub(super) struct Masks {
    /// What stands for a text.
    names: Vec<(String, String)>,
    step: usize,
    span: Span,
    /// What was told of a number.
    told: HashMap<u64, String>,
    /// The same of the ends of keys, which are not exact.
    ends: HashMap<String, (u64, String)>,
}

impl Masks {
    pub(super) fn new(names: Vec<(String, String)>) -> Self {
        Self {
            names,
            ..Self::default()
        }
    }

    pub(super) fn clear(&mut self) {
        (self.step, self.span) = (0, Span::default());
        self.told.clear();
        self.ends.clear();
    }

    /// The latest step.
    pub(super) fn span(&self) -> Span {
        self.span
    }

    pub(super) fn begin_step(&mut self, span: Span) {
        (self.step, self.span) = (self.step + 1, span);
    }

    pub(super) fn text(&mut self, text: &str) -> String {
        let mut text = text.to_owned();
        for (name, of) in &self.names {
            text = text.replace(of, name);
        }
        let mut masked = String::new();
        while let Some(at) = text.find(|it: char| it.is_ascii_digit()) {
            let behind = text.split_off(at);
            let digits = behind.find(|it: char| !it.is_ascii_digit());
            let (number, rest) = behind.split_at(digits.unwrap_or(behind.len()));
            masked.push_str(&text);
            match number.parse() {
                Ok(exact) if number.len() == 16 => masked.push_str(&self.number(exact)),
                _ => masked.push_str(number),
            }
            text = rest.to_owned();
        }
        masked + &text
    }

    /// The text that a masked word stands for, if it is sent at this time.
    pub(super) fn unmasked(&self, word: &str, now: u64) -> String {
        let millis = word.strip_prefix('T').and_then(|it| {
            let at = it.find(['+', '-'])?;
            it[at..].parse::<i64>().ok()
        });
        if let Some(millis) = millis {
            return now.saturating_add_signed(millis * 1000).to_string();
        }
        let mut word = word.to_owned();
        for (name, of) in self.names.iter().rev() {
            word = word.replace(name, of);
        }
        word
    }

    /// The end of a key that has so many ms to live. It stays as it was told, or is that of a member,
    /// of these numbers, or counts from this step.
    pub(super) fn end(&mut self, key: &str, pttl: i64, members: &[String]) -> String {
        let Ok(pttl) = u64::try_from(pttl) else {
            return "never".to_owned();
        };
        let end = self.span.ends + pttl * 1000;
        let is_it = |other: u64| other.abs_diff(end) <= ROUNDED;
        if let Some((_, told)) = self.ends.get(key).filter(|it| is_it(it.0)) {
            return told.clone();
        }
        let scores = members.iter().filter_map(|it| it.parse().ok());
        let told = match scores.filter(|it| is_it(*it)).min() {
            Some(score) => self.number(score),
            None => self.time(end, ROUNDED),
        };
        self.ends.insert(key.to_owned(), (end, told.clone()));
        told
    }

    fn number(&mut self, number: u64) -> String {
        if let Some(told) = self.told.get(&number) {
            return told.clone();
        }
        let Span {
            counter_before,
            counter,
            ..
        } = self.span;
        let behind_last = counter.wrapping_sub(number);
        let told = if number > counter_before && behind_last < 16 {
            let behind_last = match behind_last {
                0 => String::new(),
                more => format!("-{more}"),
            };
            format!("E{}{behind_last}", self.step)
        } else if number > BEHIND_ALL + DAY {
            format!("2^52+{}", self.number(number - BEHIND_ALL))
        } else {
            self.time(number, 0)
        };
        self.told.insert(number, told.clone());
        told
    }

    fn time(&self, time: u64, slack: u64) -> String {
        if time.abs_diff(self.span.ends) > DAY {
            return time.to_string();
        }
        let from = |begins: u64| time.cast_signed() - begins.cast_signed();
        let latest = from(self.span.begins) + slack.cast_signed();
        let told = latest.div_euclid(GRAIN) * GRAIN;
        if told < from(self.span.ends) - slack.cast_signed() {
            return format!("T{}+about {}", self.step, latest / 1000);
        }
        format!("T{}{:+}", self.step, told / 1000)
    }
}

/// A time that is left, which began some steps ago.
pub(super) fn left(left: Duration) -> String {
    let seconds = match left.as_millis() {
        0..=4000 => 4, // of a claim, a heartbeat or a writer who waits
        more => more.div_ceil(10_000) * 10,
    };
    format!("at most {seconds} s")
}
