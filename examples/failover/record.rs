//! What happened, and when. Each event is printed as it comes, and kept for the picture.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use dlock_runtime::{Fence, LostCause};
use tracing::Subscriber;
use tracing::field::{Field, Visit};
use tracing_subscriber::layer::{Context, Layer};

/// Who did it, or to whom it happened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Who {
    Servers,
    Holder,
    Waiter,
    Resource,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum What {
    /// Most sentinels name this server.
    Master(usize),
    Killed,
    CutOff,
    Asked,
    Granted(Fence),
    Renewed,
    /// The first renewal of an outage failed.
    NotRenewed,
    Lost(LostCause),
    Releases,
    /// The release got no clear answer, and is repeated.
    ReleaseUnclear,
    /// The resource refused a write; whether the lock's server still says that it is held, if it
    /// answers.
    Stopped {
        is_held: Option<bool>,
    },
    Accepted(Who),
    Refused(Who),
}

impl What {
    /// Whether the holder or the waiter no longer works under the lock from here on.
    pub(crate) fn ends_work(self) -> bool {
        matches!(self, Self::Lost(_) | Self::Releases | Self::Stopped { .. })
    }
}

#[derive(Debug, Clone)]
pub(crate) struct Event {
    /// Since the story began.
    pub(crate) at: Duration,
    pub(crate) who: Who,
    pub(crate) what: What,
}

#[derive(Debug, Clone)]
pub(crate) struct Story {
    pub(crate) title: &'static str,
    began: Instant,
    pub(crate) events: Vec<Event>,
}

impl Story {
    pub(crate) fn of(&self, who: Who) -> impl DoubleEndedIterator<Item = &Event> {
        self.events.iter().filter(move |event| event.who == who)
    }

    /// When `who` did this first.
    pub(crate) fn first(&self, who: Who, is: impl Fn(What) -> bool) -> Option<Duration> {
        let event = self.of(who).find(|event| is(event.what));
        event.map(|event| event.at)
    }

    /// Until the last event.
    pub(crate) fn length(&self) -> Duration {
        self.events.last().map(|it| it.at).unwrap_or_default()
    }

    /// When the holder's server answered it last.
    pub(crate) fn last_answer(&self) -> Option<Duration> {
        let answered = |what| {
            let said = matches!(what, What::Stopped { is_held: Some(_) });
            said || matches!(what, What::Granted(_) | What::Renewed)
        };
        let mut last = self.of(Who::Holder).filter(|it| answered(it.what));
        last.next_back().map(|event| event.at)
    }

    /// From when to when both had the lock, as far as they knew.
    pub(crate) fn overlap(&self) -> Option<(Duration, Duration)> {
        let granted = |what| matches!(what, What::Granted(_));
        let from = self.first(Who::Waiter, granted)?;
        let to = self.first(Who::Holder, What::ends_work)?;
        (from < to).then_some((from, to))
    }

    /// The place of the fence that was granted to `who`, from 1 for the lowest. For the picture: the
    /// fences themselves have 19 digits.
    pub(crate) fn rank(&self, who: Who) -> usize {
        let fence = |event: &Event| match event.what {
            What::Granted(fence) => Some(fence),
            _ => None,
        };
        let own = self.of(who).find_map(fence);
        let lower = self.events.iter().filter_map(fence);
        1 + lower.filter(|it| Some(*it) < own).count()
    }

    pub(crate) fn count(&self, what: What) -> usize {
        self.events.iter().filter(|it| it.what == what).count()
    }
}

/// All stories so far; the last is under way.
#[derive(Default)]
pub(crate) struct Record(Mutex<Vec<Story>>);

impl Record {
    pub(crate) fn begin(&self, title: &'static str) {
        println!("\n{title}\n");
        self.lock().push(Story {
            title,
            began: Instant::now(),
            events: Vec::new(),
        });
    }

    /// Keeps an event. It is printed unless it repeats the last one of its kind.
    pub(crate) fn add(&self, who: Who, what: What) {
        let mut stories = self.lock();
        let Some(story) = stories.last_mut() else {
            return;
        };
        let at = story.began.elapsed();
        let before = story.of(who).next_back().map(|event| event.what);
        if before != Some(what) {
            let seconds = at.as_secs_f64();
            println!("{seconds:>7.3} s  {who:<9} {what}");
        }
        story.events.push(Event { at, who, what });
    }

    pub(crate) fn stories(&self) -> Vec<Story> {
        self.lock().clone()
    }

    /// A look at the story that is under way.
    pub(crate) fn look<T>(&self, look: impl FnOnce(&Story) -> T) -> Option<T> {
        self.lock().last().map(look)
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Story>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Display for Who {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Servers => "servers",
            Self::Holder => "holder",
            Self::Waiter => "waiter",
            Self::Resource => "resource",
        })
    }
}

impl fmt::Display for What {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Master(server) => {
                write!(f, "most sentinels name server {} the master", server + 1)
            }
            Self::Killed => f.write_str("server 1, the master, is killed"),
            Self::CutOff => f.write_str(
                "server 1, the master, and the holder are cut off from replicas and sentinels",
            ),
            Self::Asked => f.write_str("asks for the lock"),
            Self::Granted(fence) => write!(f, "has the lock, with fence {fence}"),
            Self::Renewed => f.write_str("its lease is renewed"),
            Self::NotRenewed => {
                f.write_str("a renewal got no answer; it is tried again until the deadline")
            }
            Self::Lost(cause) => write!(f, "lost the lock: {cause}"),
            Self::Releases => f.write_str("releases the lock"),
            Self::ReleaseUnclear => {
                f.write_str("its release got no clear answer, and is repeated in the background")
            }
            Self::Stopped { is_held } => f.write_str(match is_held {
                Some(true) => {
                    "stops, because it was refused, although its server says that it has the lock"
                }
                Some(false) => "stops, because it was refused; its server says the same",
                None => "stops, because it was refused; its server gives no clear answer",
            }),
            Self::Accepted(who) => write!(f, "accepts what the {who} writes"),
            Self::Refused(who) => write!(
                f,
                "refuses what the {who} writes: its fence is lower than one that was seen"
            ),
        }
    }
}

/// Takes from dlock's log what no method tells: that a renewal got no answer.
pub(crate) struct Log(pub(crate) Arc<Record>);

impl<S: Subscriber> Layer<S> for Log {
    fn on_event(&self, event: &tracing::Event<'_>, _: Context<'_, S>) {
        let mut message = Message::default();
        event.record(&mut message);
        if !message.0.starts_with("can't renew a lock") {
            return;
        }
        // The log does not say whose lease it is, so it is told only where one has the lock.
        let has_it = |story: &Story, who| {
            let granted = |what| matches!(what, What::Granted(_));
            story.first(who, granted).is_some() && story.first(who, What::ends_work).is_none()
        };
        let both = [Who::Holder, Who::Waiter];
        let have_it = self.0.look(|story| both.map(|who| has_it(story, who)));
        match have_it {
            Some([true, false]) => self.0.add(Who::Holder, What::NotRenewed),
            Some([false, true]) => self.0.add(Who::Waiter, What::NotRenewed),
            _ => {}
        }
    }
}

#[derive(Default)]
struct Message(String);

impl Visit for Message {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        if field.name() == "message" {
            self.0 = format!("{value:?}");
        }
    }
}
