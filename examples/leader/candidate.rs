//! One of the processes. It writes mails whenever it leads, resigns at SIGUSR1, and ends at SIGTERM.
//!
//! It prints when its spans `dlock.hold` open and close, and each mail that it begins and ends, with the
//! fence: whoever started it is the mailbox.

use std::fmt::Debug;
use std::ops::ControlFlow;
use std::pin::pin;
use std::time::Duration;

use dlock_harness::now_ns;
use dlock_runtime::{Config, Term};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::Notify;
use tokio::time::sleep;
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Metadata, Subscriber};
use tracing_subscriber::layer::{Context, Layer, SubscriberExt as _};
use tracing_subscriber::registry::LookupSpan;
use tracing_subscriber::util::SubscriberInitExt as _;

use crate::{CAP, Failure};

pub(crate) const FLAG: &str = "--candidate";

/// How long one mail takes, and the time between two.
pub(crate) const MAIL: Duration = Duration::from_millis(20);
const BETWEEN: Duration = Duration::from_millis(60);

pub(crate) async fn stand(name: String, url: &str, ttl: Duration) -> Result<(), Failure> {
    tracing_subscriber::registry().with(Spans).init();
    let mut ends = signal(SignalKind::terminate())?;
    let mut resigns = signal(SignalKind::user_defined1())?;
    let config = Config::new(url).holder_name(name).connect_timeout(CAP);
    let pool = dlock_runtime::init(config.command_timeout(Duration::from_secs(2))).await?;
    println!("ready");

    let told: &'static Notify = Box::leak(Box::default());
    let leading = pool.leader("mailer").ttl(ttl);
    let leading = tokio::spawn(leading.run(async |term: &Term| write_mails(term, told).await));
    loop {
        tokio::select! {
            _ = ends.recv() => break,
            _ = resigns.recv() => told.notify_waiters(),
        }
    }
    let drained = dlock_runtime::shutdown().await;
    match leading.await? {
        // It was the leader, or waited for that.
        Ok(()) | Err(dlock_runtime::LockError::ShutDown) if drained.is_complete() => Ok(()),
        ended => Err(format!("{ended:?}, {drained:?}").into()),
    }
}

/// Looks only between two mails whether it must end.
async fn write_mails(term: &Term, resigns: &Notify) -> ControlFlow<()> {
    let mut closing = pin!(term.closing());
    let mut resigns = pin!(resigns.notified());
    loop {
        println!("begins {}", term.fence());
        sleep(MAIL).await;
        println!("ends {}", term.fence());
        tokio::select! {
            () = &mut closing => return ControlFlow::Break(()),
            () = &mut resigns => return ControlFlow::Continue(()),
            () = sleep(BETWEEN) => {}
        }
    }
}

/// Prints when a hold begins and ends, with the time since boot in nanoseconds, which all processes
/// share.
struct Spans;

/// How a hold ended.
#[derive(Default)]
struct Outcome(String);

impl Visit for Outcome {
    fn record_str(&mut self, field: &Field, value: &str) {
        if field.name() == "outcome" {
            value.clone_into(&mut self.0);
        }
    }

    fn record_debug(&mut self, _: &Field, _: &dyn Debug) {}
}

impl<S: Subscriber + for<'a> LookupSpan<'a>> Layer<S> for Spans {
    fn enabled(&self, metadata: &Metadata<'_>, _: Context<'_, S>) -> bool {
        metadata.is_span() && metadata.name() == "dlock.hold"
    }

    fn on_new_span(&self, _: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        println!("leads {}", now_ns());
        if let Some(span) = context.span(id) {
            span.extensions_mut().insert(Outcome::default());
        }
    }

    fn on_record(&self, id: &Id, record: &Record<'_>, context: Context<'_, S>) {
        if let Some(span) = context.span(id)
            && let Some(outcome) = span.extensions_mut().get_mut::<Outcome>()
        {
            record.record(outcome);
        }
    }

    fn on_close(&self, id: Id, context: Context<'_, S>) {
        let span = context.span(&id);
        let outcome = span.and_then(|span| Some(span.extensions().get::<Outcome>()?.0.clone()));
        println!("led {} {}", now_ns(), outcome.unwrap_or_default());
    }
}
