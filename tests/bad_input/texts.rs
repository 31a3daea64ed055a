//! Collects every text that a person could read: errors in every form, events, panic messages.

use std::error::Error;
use std::fmt::{Debug, Write as _};
use std::panic;
use std::sync::{Mutex, OnceLock, PoisonError};

use dlock_runtime::LockError;
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};

/// Events and panic messages, from any test of this program.
static HEARD: Mutex<Vec<String>> = Mutex::new(Vec::new());

fn hear(text: String) {
    HEARD
        .lock()
        .unwrap_or_else(PoisonError::into_inner)
        .push(text);
}

/// Starts recording; once per program, because watchdogs run on threads of their own.
pub(crate) fn listen() {
    static LISTENING: OnceLock<()> = OnceLock::new();
    LISTENING.get_or_init(|| {
        tracing::subscriber::set_global_default(Listener).unwrap();
        let before = panic::take_hook();
        panic::set_hook(Box::new(move |info| {
            hear(info.to_string());
            before(info);
        }));
    });
}

pub(crate) fn heard() -> Vec<String> {
    HEARD.lock().unwrap_or_else(PoisonError::into_inner).clone()
}

/// The texts of one test; [`Seen::none_has`] checks them and everything that was recorded.
#[derive(Default)]
pub(crate) struct Seen(Vec<String>);

impl Seen {
    pub(crate) fn debug(&mut self, value: &impl Debug) {
        self.0.push(format!("{value:?} {value:#?}"));
    }

    pub(crate) fn error(&mut self, error: &LockError) {
        self.debug(error);
        let mut next: Option<&dyn Error> = Some(error);
        while let Some(error) = next {
            self.0.push(format!("{error} {error:?}"));
            next = error.source();
        }
    }

    /// Records the error of a call that must fail.
    pub(crate) fn failure<T: Debug>(&mut self, outcome: Result<T, LockError>) {
        self.error(&outcome.unwrap_err());
    }

    pub(crate) fn text(&mut self, text: impl Into<String>) {
        self.0.push(text.into());
    }

    /// No text has a character that a terminal interprets, that breaks a line or that is invisible,
    /// and none is endless.
    #[track_caller]
    pub(crate) fn all_are_fit_to_be_printed(&self) {
        let is_hidden = |c: &char| {
            // Pretty `Debug` has line breaks of its own.
            (c.is_control() && *c != '\n')
                || matches!(c, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{feff}')
        };
        for text in self.0.iter().chain(&heard()) {
            let hidden = text.chars().find(is_hidden);
            assert!(hidden.is_none(), "{hidden:?} in {text:?}");
            assert!(text.len() < 20_000, "{} bytes", text.len());
            assert!(!text.contains("\nFORGED"), "a line of its own: {text}");
        }
    }

    pub(crate) fn count(&self) -> usize {
        self.0.len()
    }

    #[track_caller]
    pub(crate) fn none_has(&self, secrets: &[&str]) {
        for text in self.0.iter().chain(&heard()) {
            for secret in secrets {
                assert!(!text.contains(secret), "{text}");
            }
        }
    }
}

/// Records every event and span of every crate.
struct Listener;

impl Subscriber for Listener {
    fn enabled(&self, _: &Metadata<'_>) -> bool {
        true
    }

    fn new_span(&self, span: &Attributes<'_>) -> Id {
        let mut text = Text::default();
        span.record(&mut text);
        hear(text.0);
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, values: &Record<'_>) {
        let mut text = Text::default();
        values.record(&mut text);
        hear(text.0);
    }

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        let mut text = Text::default();
        event.record(&mut text);
        hear(text.0);
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

#[derive(Default)]
struct Text(String);

impl Visit for Text {
    /// Unescaped: not every subscriber escapes it.
    fn record_str(&mut self, field: &Field, value: &str) {
        let _ = write!(self.0, "{}={value} ", field.name());
    }

    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        let _ = write!(self.0, "{}={value:?} ", field.name());
    }
}
