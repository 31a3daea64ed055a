//! Records what all threads of this process log; a test finds its own lines by the ports of its
//! servers.

use std::fmt::{Debug, Write as _};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use tracing::field::Field;
use tracing::{Event, Subscriber};
use tracing_subscriber::layer::{Context, Layer, SubscriberExt as _};

static LINES: Mutex<Vec<String>> = Mutex::new(Vec::new());

struct Log;

impl<S: Subscriber> Layer<S> for Log {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        let mut text = event.metadata().level().to_string();
        event.record(&mut |field: &Field, value: &dyn Debug| {
            let _ = write!(text, " {}={value:?}", field.name());
        });
        lines_so_far().push(text);
    }
}

/// To be called before what is to be recorded.
/// # Panics
/// If the program has another global subscriber.
pub fn record() {
    static IS_ON: OnceLock<()> = OnceLock::new();
    IS_ON.get_or_init(|| {
        let subscriber = tracing_subscriber::registry().with(Log);
        if let Err(error) = tracing::subscriber::set_global_default(subscriber) {
            panic!("{error}");
        }
    });
}

/// The lines so far that contain all of these words.
#[must_use]
pub fn lines(words: &[&str]) -> Vec<String> {
    let lines = lines_so_far();
    let found = lines
        .iter()
        .filter(|line| words.iter().all(|it| line.contains(it)));
    found.cloned().collect()
}

fn lines_so_far() -> MutexGuard<'static, Vec<String>> {
    LINES.lock().unwrap_or_else(PoisonError::into_inner)
}
