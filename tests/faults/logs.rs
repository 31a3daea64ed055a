//! What an operator is told: all events that dlock logs in the tests of this program, with their
//! levels.

use std::fmt::{Debug, Write as _};
use std::sync::{Mutex, OnceLock, PoisonError};

use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Level, Metadata, Subscriber};

static HEARD: Mutex<Vec<String>> = Mutex::new(Vec::new());

/// Listens from now on; once for the program, because watchdogs are threads of their own.
pub(crate) fn listen() {
    static LISTENING: OnceLock<()> = OnceLock::new();
    LISTENING.get_or_init(|| tracing::subscriber::set_global_default(Listener).unwrap());
}

/// The events that contain all of these words, from any test.
pub(crate) fn told(words: &[&str]) -> Vec<String> {
    let heard = HEARD.lock().unwrap_or_else(PoisonError::into_inner);
    let fits = |text: &&String| words.iter().all(|word| text.contains(word));
    heard.iter().filter(fits).cloned().collect()
}

struct Listener;

impl Subscriber for Listener {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        *metadata.level() <= Level::DEBUG && metadata.target().starts_with("dlock")
    }

    fn event(&self, event: &Event<'_>) {
        let mut text = Text(format!("{} ", event.metadata().level()));
        event.record(&mut text);
        let mut heard = HEARD.lock().unwrap_or_else(PoisonError::into_inner);
        heard.push(text.0);
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

/// The level of an event, then its fields, each as `name=value` and a space.
struct Text(String);

impl Visit for Text {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        let _ = write!(self.0, "{}={value:?} ", field.name());
    }
}
