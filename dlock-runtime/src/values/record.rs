//! The record of a job's last run, which stands beside its lock: who ran it, when, and for how long
//! nobody runs it again.
//!
//! `1|<start µs>|<end µs>|<period ms>|<epoch>|<host>|<pid>|<function>`, and any fields that a later
//! version of this layout appends. Both times are the server's; the end is 0 for a run that was noted
//! before its body began. One layout; `lua/record.lua` writes and reads the same. Nothing is decided
//! here (→ `rules/last_run`). Invariant: reading never fails on what this version did not write; it is
//! `None` then.

use std::fmt;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use super::about::shown_name;
use super::fence::Fence;
use super::ttl;

/// The layout that this version writes, and the only one that it reads.
const LAYOUT: &str = "1";

/// Longer numbers are refused, so that the Rust and Lua parsers agree on what can be read: of a time or an
/// epoch, and of a period, which is also more than 0.
const MOST_DIGITS: usize = 16;
const MOST_DIGITS_OF_A_PERIOD: usize = 12;

/// A parsed record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Record<'a> {
    pub(crate) start: u64,
    /// 0: it has not ended, or nobody noted that.
    pub(crate) end: u64,
    pub(crate) period: Duration,
    pub(crate) epoch: u64,
    /// `host|pid|function`, and fields of later versions.
    pub(crate) about: &'a str,
}

impl<'a> Record<'a> {
    pub(crate) fn read(text: &'a str) -> Option<Self> {
        let mut fields = text.splitn(6, '|');
        let is_ours = fields.next()? == LAYOUT;
        let mut number = |most_digits| {
            let digits = fields.next()?;
            let is_number =
                digits.len() <= most_digits && digits.bytes().all(|it| it.is_ascii_digit());
            is_number.then(|| digits.parse().ok())?
        };
        let (start, end) = (number(MOST_DIGITS)?, number(MOST_DIGITS)?);
        let period = number(MOST_DIGITS_OF_A_PERIOD)?;
        let (epoch, about) = (number(MOST_DIGITS)?, fields.next()?);
        (is_ours && period > 0).then_some(Self {
            start,
            end,
            period: Duration::from_millis(period),
            epoch,
            about,
        })
    }

    pub(crate) fn text(&self) -> String {
        let Self {
            start,
            end,
            period,
            epoch,
            about,
        } = self;
        let period = ttl::millis(*period);
        format!("{LAYOUT}|{start}|{end}|{period}|{epoch}|{about}")
    }
}

/// The part of an entry's description that its record repeats: `host|pid|function`.
pub(crate) fn about(description: &str) -> &str {
    let third = description.match_indices('|').nth(2);
    third.map_or(description, |(at, _)| description.get(..at).unwrap_or(""))
}

/// The last run of a job that runs once per period, as its record beside the lock says.
///
/// Any client that may write to the server can write a record; both names are made printable, as
/// those of a [`Process`](crate::Process).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LastRun {
    known: Option<KnownRun>,
    age: Duration,
    due_in: Duration,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct KnownRun {
    host: String,
    pid: u32,
    function: String,
    started: SystemTime,
    ended: Option<SystemTime>,
    period: Duration,
    fence: Option<Fence>,
}

impl LastRun {
    /// As the text of a record says at the server's `time`; `due_in`: how long it still counts.
    pub(crate) fn of(text: &str, time: u64, due_in: Duration) -> Self {
        let at = |micros| UNIX_EPOCH + Duration::from_micros(micros);
        let record = Record::read(text);
        let age = record.map_or(0, |it| time.saturating_sub(it.start));
        let known = record.map(|it| {
            let mut about = it.about.split('|');
            let mut next = || about.next().unwrap_or_default();
            let (host, pid, function) = (next(), next(), next());
            KnownRun {
                host: shown_name(host),
                pid: pid.parse().unwrap_or_default(),
                function: shown_name(function),
                started: at(it.start),
                ended: (it.end > 0).then(|| at(it.end)),
                period: it.period,
                fence: (it.epoch > 0).then(|| Fence::new(it.epoch, 0)),
            }
        });
        Self {
            known,
            age: Duration::from_micros(age),
            due_in,
        }
    }

    /// Returns how long it was, when it was read, until the job may run again: by the period of the
    /// call that was refused, or by the record's own.
    #[must_use]
    pub fn due_in(&self) -> Duration {
        self.due_in
    }

    /// Returns when the run began, by the server's clock; `None` if the record can't be read.
    #[must_use]
    pub fn started(&self) -> Option<SystemTime> {
        self.known.as_ref().map(|it| it.started)
    }

    /// Returns when the run ended, by the server's clock; `None` if that is not noted: the run is not
    /// over, or its process has crashed, with [`AfterCrash::Skip`](crate::AfterCrash::Skip).
    #[must_use]
    pub fn ended(&self) -> Option<SystemTime> {
        self.known.as_ref()?.ended
    }

    /// Returns the period of the call that ran.
    #[must_use]
    pub fn period(&self) -> Option<Duration> {
        self.known.as_ref().map(|it| it.period)
    }

    /// Returns the fence under which it ran; `None`, too, if the server's clock was far behind its counter.
    #[must_use]
    pub fn fence(&self) -> Option<Fence> {
        self.known.as_ref()?.fence
    }

    /// Returns the name of the host that ran it; empty if the record can't be read.
    #[must_use]
    pub fn host(&self) -> &str {
        self.known.as_ref().map_or("", |it| &it.host)
    }

    /// Returns the id of the process that ran it, on its host; 0 if the record can't be read.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.known.as_ref().map_or(0, |it| it.pid)
    }

    /// Returns the function that ran; empty if the record can't be read.
    #[must_use]
    pub fn function(&self) -> &str {
        self.known.as_ref().map_or("", |it| &it.function)
    }
}

/// Who ran it, when, and when it may run again.
impl fmt::Display for LastRun {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.known {
            Some(run) => {
                let KnownRun {
                    function,
                    pid,
                    host,
                    ..
                } = run;
                let ago = InWords(self.age);
                write!(f, "{function} of process {pid} on {host} ran it {ago} ago")?;
                if run.ended.is_none() {
                    f.write_str(" (no end is recorded)")?;
                }
            }
            None => f.write_str("a record that this version can't read is stored beside it")?,
        }
        if self.known.is_none() && self.due_in.is_zero() {
            return f.write_str("; it ends a period after the next call");
        }
        write!(f, "; it may run again in {}", InWords(self.due_in))
    }
}

/// In the largest unit of which there are at least two.
struct InWords(Duration);

impl fmt::Display for InWords {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const UNITS: [(u64, &str); 3] = [(86_400, "days"), (3600, "h"), (60, "min")];
        let seconds = (self.0 + Duration::from_millis(500)).as_secs();
        match UNITS.iter().find(|(each, _)| seconds >= 2 * each) {
            Some((each, unit)) => write!(f, "{} {unit}", (seconds + each / 2) / each),
            None if seconds >= 2 => write!(f, "{seconds} s"),
            None => write!(f, "{} ms", self.0.as_millis()),
        }
    }
}
