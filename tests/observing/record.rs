//! Records the spans and events of all threads of this process.

use std::cell::Cell;
use std::fmt::{Debug, Write as _};
use std::sync::{Mutex, OnceLock};

use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::subscriber::Interest;
use tracing::{Event, Level, Metadata, Subscriber};
use tracing_subscriber::layer::{Context, Layer, SubscriberExt as _};
use tracing_subscriber::registry::LookupSpan;

/// An event, or the end of a span.
#[derive(Clone, Debug)]
pub(crate) struct Told {
    pub(crate) level: Level,
    /// The fields, as ` name=value`; of a span with its name before them.
    pub(crate) text: String,
    /// The spans around it with their fields, the innermost first.
    pub(crate) spans: Vec<String>,
}

static TOLD: Mutex<Vec<Told>> = Mutex::new(Vec::new());

thread_local! {
    static ONLY_INFO: Cell<bool> = const { Cell::new(false) };
}

/// What is told of this key panics.
pub(crate) const HARMFUL: &str = "harmful";

struct Recorder;

impl Text {
    fn harms(self) -> Self {
        assert!(!self.0.contains(HARMFUL), "in a subscriber, on purpose");
        self
    }
}

struct Text(String);

impl Visit for Text {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        let _ = write!(self.0, " {}={value:?}", field.name());
    }
}

impl<S: Subscriber + for<'a> LookupSpan<'a>> Layer<S> for Recorder {
    /// Never remembered, so that `enabled` is asked each time.
    fn register_callsite(&self, _: &'static Metadata<'static>) -> Interest {
        Interest::sometimes()
    }

    fn enabled(&self, metadata: &Metadata<'_>, _: Context<'_, S>) -> bool {
        let most = if ONLY_INFO.get() {
            Level::INFO
        } else {
            Level::DEBUG
        };
        *metadata.level() <= most
    }

    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        let mut text = Text(attributes.metadata().name().to_owned());
        attributes.record(&mut text);
        let text = text.harms();
        context.span(id).unwrap().extensions_mut().insert(text);
    }

    fn on_record(&self, id: &Id, values: &Record<'_>, context: Context<'_, S>) {
        let span = context.span(id).unwrap();
        values.record(span.extensions_mut().get_mut::<Text>().unwrap());
    }

    fn on_event(&self, event: &Event<'_>, context: Context<'_, S>) {
        let mut text = Text(String::new());
        event.record(&mut text);
        let text = text.harms();
        let scope = context.event_scope(event).into_iter().flatten();
        let spans = scope.map(|span| span.extensions().get::<Text>().unwrap().0.clone());
        TOLD.lock().unwrap().push(Told {
            level: *event.metadata().level(),
            text: text.0,
            spans: spans.collect(),
        });
    }

    fn on_close(&self, id: Id, context: Context<'_, S>) {
        let span = context.span(&id).unwrap();
        let text = span.extensions().get::<Text>().unwrap().0.clone();
        TOLD.lock().unwrap().push(Told {
            level: *span.metadata().level(),
            text: format!("closed {text}"),
            spans: Vec::new(),
        });
    }
}

/// To be called before what is to be recorded.
pub(crate) fn record() {
    static IS_ON: OnceLock<()> = OnceLock::new();
    IS_ON.get_or_init(|| {
        let subscriber = tracing_subscriber::registry().with(Recorder);
        tracing::subscriber::set_global_default(subscriber).unwrap();
    });
}

/// As [`record`]; on this thread nothing below INFO.
pub(crate) fn record_at_info() {
    record();
    ONLY_INFO.set(true);
}

/// What was told so far that contains all of these words.
pub(crate) fn told(words: &[&str]) -> Vec<Told> {
    let told = TOLD.lock().unwrap();
    let has = |it: &&Told| words.iter().all(|word| it.text.contains(word));
    told.iter().filter(has).cloned().collect()
}
