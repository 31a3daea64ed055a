//! A layer for `tracing` that keeps how long each span of dlock lasted, and in which task.
//!
//! It knows dlock's spans only by their names and fields, as docs/reference/metrics.md has them.

use std::fmt::Debug;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id};
use tracing::{Metadata, Subscriber, span};
use tracing_subscriber::layer::{Context, Layer};
use tracing_subscriber::registry::{LookupSpan, SpanRef};

/// What a task did with the lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum What {
    Waits,
    Holds,
}

#[derive(Clone, Debug)]
pub(crate) struct Interval {
    pub(crate) task: String,
    pub(crate) what: What,
    pub(crate) from: Duration,
    pub(crate) to: Duration,
    /// `in_turn`, `in_time`, `lost` …; empty if it was still under way at the end.
    pub(crate) outcome: String,
}

pub(crate) struct History {
    pub(crate) length: Duration,
    /// In the order in which they ended.
    pub(crate) intervals: Vec<Interval>,
}

impl History {
    /// The names of all tasks, sorted.
    pub(crate) fn tasks(&self) -> Vec<&str> {
        let mut tasks: Vec<&str> = self.intervals.iter().map(|it| it.task.as_str()).collect();
        tasks.sort_unstable();
        tasks.dedup();
        tasks
    }

    pub(crate) fn of(&self, what: What) -> impl Iterator<Item = &Interval> {
        self.intervals.iter().filter(move |it| it.what == what)
    }

    pub(crate) fn count(&self, what: What, outcome: &str) -> usize {
        self.of(what).filter(|it| it.outcome == outcome).count()
    }
}

#[derive(Clone, Default)]
pub(crate) struct Record(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    begun: Option<Instant>,
    intervals: Vec<Interval>,
}

impl Record {
    pub(crate) fn begin(&self) {
        self.state().begun = Some(Instant::now());
    }

    pub(crate) fn history(&self) -> History {
        let mut state = self.state();
        History {
            length: state.begun.map_or(Duration::ZERO, |begun| begun.elapsed()),
            intervals: std::mem::take(&mut state.intervals),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What is kept with a span until it is closed.
struct Seen {
    opened: Instant,
    fields: Fields,
}

#[derive(Default)]
struct Fields {
    name: String,
    outcome: String,
}

impl Visit for Fields {
    fn record_str(&mut self, field: &Field, value: &str) {
        match field.name() {
            "name" => value.clone_into(&mut self.name),
            "outcome" => value.clone_into(&mut self.outcome),
            _ => {}
        }
    }

    fn record_debug(&mut self, _: &Field, _: &dyn Debug) {}
}

fn what(name: &str) -> Option<What> {
    match name {
        "dlock.acquire" => Some(What::Waits),
        "dlock.hold" => Some(What::Holds),
        _ => None,
    }
}

impl<S: Subscriber + for<'a> LookupSpan<'a>> Layer<S> for Record {
    fn enabled(&self, metadata: &Metadata<'_>, _: Context<'_, S>) -> bool {
        metadata.is_span() && (metadata.name() == "task" || what(metadata.name()).is_some())
    }

    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        let mut fields = Fields::default();
        attributes.record(&mut fields);
        if let Some(span) = context.span(id) {
            let opened = Instant::now();
            span.extensions_mut().insert(Seen { opened, fields });
        }
    }

    fn on_record(&self, id: &Id, record: &span::Record<'_>, context: Context<'_, S>) {
        if let Some(span) = context.span(id)
            && let Some(seen) = span.extensions_mut().get_mut::<Seen>()
        {
            record.record(&mut seen.fields);
        }
    }

    fn on_close(&self, id: Id, context: Context<'_, S>) {
        let Some(span) = context.span(&id) else {
            return;
        };
        if let (Some(what), Some(task)) = (what(span.name()), task(&span)) {
            self.ended(&span, what, task);
        }
    }
}

impl Record {
    fn ended<S: for<'a> LookupSpan<'a>>(&self, span: &SpanRef<'_, S>, what: What, task: String) {
        let mut state = self.state();
        let extensions = span.extensions();
        if let (Some(begun), Some(seen)) = (state.begun, extensions.get::<Seen>()) {
            let since = |at: Instant| at.saturating_duration_since(begun);
            state.intervals.push(Interval {
                task,
                what,
                from: since(seen.opened),
                to: since(Instant::now()),
                outcome: seen.fields.outcome.clone(),
            });
        }
    }
}

/// The name of the task that a span belongs to.
fn task<S: for<'a> LookupSpan<'a>>(span: &SpanRef<'_, S>) -> Option<String> {
    let task = span.scope().find(|it| it.name() == "task")?;
    let name = task.extensions().get::<Seen>()?.fields.name.clone();
    Some(name)
}
