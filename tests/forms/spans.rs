//! `#[tracing::instrument]` above and below: above, the span covers the body alone; below, it
//! covers the wait for the lock, too.

use std::sync::{Arc, Mutex};

use dlock_runtime::{LockError, LockPool, distributed_lock};
use futures_util::FutureExt as _;
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id};
use tracing::{Event, Metadata, Subscriber, instrument};
use tracing_subscriber::layer::{Context, Layer, SubscriberExt as _};

use crate::{held, memory};

/// The events of a target, a line each: `new buy{id=7}`, `close buy`, `event buy: error=…`.
#[derive(Clone)]
pub(crate) struct Log(Arc<Mutex<Vec<String>>>, &'static str);

impl Log {
    fn push(&self, line: String) {
        self.0.lock().unwrap().push(line);
    }

    pub(crate) fn take(&self) -> Vec<String> {
        std::mem::take(&mut *self.0.lock().unwrap())
    }
}

/// Fields as `a=1 b=2`.
struct Fields(Vec<String>);

impl Visit for Fields {
    fn record_debug(&mut self, field: &Field, value: &dyn std::fmt::Debug) {
        self.0.push(format!("{field}={value:?}"));
    }
}

impl<S: Subscriber + for<'a> tracing_subscriber::registry::LookupSpan<'a>> Layer<S> for Log {
    /// dlock's own spans are left out, as in a program that does not record them.
    fn enabled(&self, metadata: &Metadata<'_>, _: Context<'_, S>) -> bool {
        metadata.target() == self.1
    }

    fn on_new_span(&self, span: &Attributes<'_>, _: &Id, _: Context<'_, S>) {
        let mut fields = Fields(Vec::new());
        span.record(&mut fields);
        self.push(format!(
            "new {}{{{}}}",
            span.metadata().name(),
            fields.0.join(" ")
        ));
    }

    fn on_event(&self, event: &Event<'_>, context: Context<'_, S>) {
        let mut fields = Fields(Vec::new());
        event.record(&mut fields);
        let span = context.event_span(event).map(|span| span.name());
        self.push(format!(
            "event {}: {}",
            span.unwrap_or("-"),
            fields.0.join(" ")
        ));
    }

    fn on_close(&self, id: Id, context: Context<'_, S>) {
        let span = context.span(&id).unwrap();
        self.push(format!("close {}", span.name()));
    }
}

/// Runs a call behind a busy lock; returns the log during its wait, the log after it, and the
/// call's result.
async fn behind<T>(
    key: &str,
    pool: &LockPool,
    log: &Log,
    call: impl Future<Output = T>,
) -> (Vec<String>, Vec<String>, T) {
    let busy = pool.lock(key).acquire().await.unwrap();
    let mut call = Box::pin(pool.scope(call));
    assert!((&mut call).now_or_never().is_none());
    let waiting = log.take();
    busy.release().await.unwrap();
    let outcome = call.await;
    (waiting, log.take(), outcome)
}

fn logged() -> (Log, tracing::subscriber::DefaultGuard) {
    logged_of(module_path!())
}

/// The log of this thread, for as long as the guard lives.
pub(crate) fn logged_of(target: &'static str) -> (Log, tracing::subscriber::DefaultGuard) {
    let log = Log(Arc::default(), target);
    let subscriber = tracing_subscriber::registry().with(log.clone());
    (log, tracing::subscriber::set_default(subscriber))
}

fn current_span() -> &'static str {
    tracing::Span::current().metadata().unwrap().name()
}

#[instrument(skip(secret), fields(length = secret.len()), err)]
#[distributed_lock(key = "above:<id>")]
async fn above(id: u8, secret: &str) -> Result<String, LockError> {
    tracing::info!(secret.is_empty = secret.is_empty());
    Ok([current_span(), &held()].join(" "))
}

#[distributed_lock(key = "below:<id>")]
#[instrument(skip(secret), fields(length = secret.len()), err)]
async fn below(id: u8, secret: &str) -> Result<String, LockError> {
    tracing::info!(secret.is_empty = secret.is_empty());
    Ok([current_span(), &held()].join(" "))
}

#[distributed_lock(key = "first:<id>")]
#[instrument(name = "between", skip_all)]
#[distributed_lock(key = "second:<id>")]
async fn between(id: u8) -> Result<String, LockError> {
    Ok([current_span(), &held()].join(" "))
}

struct NotRecorded;

/// What the signature does not name is not recorded, and what it names can be skipped.
#[distributed_lock(key = "below:<id>")]
#[instrument(skip(part))]
async fn ignores_arguments(
    id: u8,
    _: NotRecorded,
    (part, _): (NotRecorded, NotRecorded),
) -> Result<String, LockError> {
    let NotRecorded = part;
    Ok([current_span(), &held()].join(" "))
}

#[tokio::test]
async fn arguments_without_a_name_are_not_recorded() {
    let (log, _default) = logged();
    let pool = memory().await;
    let call = ignores_arguments(1, NotRecorded, (NotRecorded, NotRecorded));
    let (waiting, after, outcome) = behind("below:1", &pool, &log, call).await;
    assert_eq!(outcome.unwrap(), "ignores_arguments below:1");
    assert_eq!(waiting, ["new ignores_arguments{id=1}"]);
    assert_eq!(after, ["close ignores_arguments"]);
}

#[tokio::test]
async fn above_it_covers_the_body_alone() {
    let (log, _default) = logged();
    let pool = memory().await;
    let (waiting, after, outcome) = behind("above:1", &pool, &log, above(1, "abc")).await;
    assert_eq!(outcome.unwrap(), "above above:1");
    assert_eq!(waiting, Vec::<String>::new());
    let event = "event above: secret.is_empty=false";
    assert_eq!(after, ["new above{id=1 length=3}", event, "close above"]);
}

#[tokio::test]
async fn below_it_covers_the_wait_too() {
    let (log, _default) = logged();
    let pool = memory().await;
    let (waiting, after, outcome) = behind("below:1", &pool, &log, below(1, "abc")).await;
    assert_eq!(outcome.unwrap(), "below below:1");
    assert_eq!(waiting, ["new below{id=1 length=3}"]);
    let event = "event below: secret.is_empty=false";
    assert_eq!(after, [event, "close below"]);
    // Between two locks: one expansion writes both, so the span covers both waits.
    for key in ["first:1", "second:1"] {
        let (waiting, after, outcome) = behind(key, &pool, &log, between(1)).await;
        assert_eq!(outcome.unwrap(), "between second:1");
        assert_eq!(
            (waiting.as_slice(), after.as_slice()),
            (
                ["new between{}".to_owned()].as_slice(),
                ["close between".to_owned()].as_slice()
            )
        );
    }
}

/// Without a pool: `err` below sees that the lock failed; above, its span was never entered.
#[tokio::test]
async fn err_reports_what_its_span_covers() {
    let (log, _default) = logged();
    assert!(above(1, "").await.is_err());
    assert_eq!(log.take(), Vec::<String>::new());
    let error = below(1, "").await.unwrap_err();
    let event = format!("event below: error={error}");
    assert_eq!(
        log.take(),
        [
            "new below{id=1 length=0}".to_owned(),
            event,
            "close below".to_owned()
        ]
    );
}

struct Shop {
    shard: &'static str,
}

impl Shop {
    #[instrument(skip_all, fields(shard = self.shard, id), ret)]
    #[distributed_lock(key = "method:<self.shard>:<id>")]
    async fn above(&mut self, id: u8) -> Result<u8, LockError> {
        tracing::Span::current().record("id", id);
        assert_eq!(held(), "method:eu:1");
        Ok(id)
    }

    #[distributed_lock(key = "method:<self.shard>:<id>")]
    #[instrument(skip_all, fields(shard = self.shard, id), ret)]
    async fn below(&mut self, id: u8) -> Result<u8, LockError> {
        tracing::Span::current().record("id", id);
        assert_eq!(held(), "method:eu:1");
        Ok(id)
    }
}

#[async_trait::async_trait]
trait Dynamic {
    async fn above(&self, id: u8, name: &str) -> Result<String, LockError>;
    async fn below(&self, id: u8, name: &str) -> Result<String, LockError>;
    async fn above_unit(&self);
    async fn below_unit(&self);
}

#[async_trait::async_trait]
impl Dynamic for Shop {
    #[instrument(skip(self), fields(shard = self.shard))]
    #[distributed_lock(key = "dynamic:<self.shard>:<id>")]
    async fn above(&self, id: u8, name: &str) -> Result<String, LockError> {
        assert_eq!(id, 1);
        Ok([current_span(), self.shard, name, &held()].join(" "))
    }

    #[distributed_lock(key = "dynamic:<self.shard>:<id>")]
    #[instrument(skip(self), fields(shard = self.shard))]
    async fn below(&self, id: u8, name: &str) -> Result<String, LockError> {
        assert_eq!(id, 1);
        Ok([current_span(), self.shard, name, &held()].join(" "))
    }

    #[instrument(skip_all)]
    #[distributed_lock(key = "unit:<self.shard>", on_error = |error| panic!("{error}"))]
    async fn above_unit(&self) {
        assert_eq!((held().as_str(), current_span()), ("unit:eu", "above_unit"));
    }

    #[distributed_lock(key = "unit:<self.shard>", on_error = |error| panic!("{error}"))]
    #[instrument(skip_all)]
    async fn below_unit(&self) {
        assert_eq!((held().as_str(), current_span()), ("unit:eu", "below_unit"));
    }
}

#[tokio::test]
async fn on_methods() {
    let (log, _default) = logged();
    let pool = memory().await;
    let mut shop = Shop { shard: "eu" };
    let (waiting, after, outcome) =
        behind("method:eu:1", &pool, &log, Shop::above(&mut shop, 1)).await;
    assert_eq!((outcome.unwrap(), waiting.len()), (1, 0));
    assert_eq!(
        after,
        [
            r#"new above{shard="eu"}"#,
            "event above: return=Ok(1)",
            "close above"
        ]
    );
    let (waiting, after, outcome) =
        behind("method:eu:1", &pool, &log, Shop::below(&mut shop, 1)).await;
    assert_eq!(
        (outcome.unwrap(), waiting),
        (1, vec![r#"new below{shard="eu"}"#.to_owned()])
    );
    assert_eq!(after, ["event below: return=Ok(1)", "close below"]);
}

#[tokio::test]
async fn under_async_trait() {
    let (log, _default) = logged();
    let pool = memory().await;
    let shop = Shop { shard: "eu" };
    let call = Dynamic::above(&shop, 1, "n");
    let (waiting, after, outcome) = behind("dynamic:eu:1", &pool, &log, call).await;
    assert_eq!(outcome.unwrap(), "above eu n dynamic:eu:1");
    assert_eq!(waiting, Vec::<String>::new());
    assert_eq!(after.len(), 2, "{after:?}");
    let call = Dynamic::below(&shop, 1, "n");
    let (waiting, after, outcome) = behind("dynamic:eu:1", &pool, &log, call).await;
    assert_eq!(outcome.unwrap(), "below eu n dynamic:eu:1");
    assert_eq!(waiting, [r#"new below{id=1 name="n" shard="eu"}"#]);
    assert_eq!(after, ["close below"]);
    let (waiting, after, ()) = behind("unit:eu", &pool, &log, shop.above_unit()).await;
    assert_eq!((waiting.len(), after.len()), (0, 2));
    let (waiting, after, ()) = behind("unit:eu", &pool, &log, shop.below_unit()).await;
    assert_eq!((waiting.len(), after.len()), (1, 1));
}
