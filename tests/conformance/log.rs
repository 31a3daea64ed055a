//! Records dlock's events on this thread, on which a test's runtime polls everything.

use std::fmt::{Debug, Write as _};
use std::sync::{Arc, Mutex, OnceLock};

use tracing::field::Field;
use tracing::subscriber::DefaultGuard;
use tracing::{Dispatch, Event, Subscriber};
use tracing_subscriber::layer::{Context, Layer, SubscriberExt as _};

#[derive(Clone, Default)]
pub(crate) struct Log(Arc<Mutex<Vec<String>>>);

impl<S: Subscriber> Layer<S> for Log {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        let mut text = event.metadata().level().to_string();
        event.record(&mut |field: &Field, value: &dyn Debug| {
            let _ = write!(text, " {}={value:?}", field.name());
        });
        self.0.lock().unwrap().push(text);
    }
}

impl Log {
    /// Records until the guard is dropped.
    pub(crate) fn listen() -> (Self, DefaultGuard) {
        // With one listener alone, tracing asks that of the thread that first comes to an event whether
        // anybody hears it, and then believes that for all threads.
        static BESIDE: OnceLock<Dispatch> = OnceLock::new();
        BESIDE.get_or_init(|| Dispatch::new(tracing_subscriber::registry()));
        let log = Log::default();
        let subscriber = tracing_subscriber::registry().with(log.clone());
        (log, tracing::subscriber::set_default(subscriber))
    }

    /// The events since the last call that contain these words.
    pub(crate) fn take(&self, words: &str) -> Vec<String> {
        let told = std::mem::take(&mut *self.0.lock().unwrap());
        told.into_iter().filter(|it| it.contains(words)).collect()
    }
}
