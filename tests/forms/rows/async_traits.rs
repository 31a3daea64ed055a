//! `#[async_trait]` beyond the plain case in `traits.rs`: without `Send`, generic, with lifetimes,
//! receivers, methods without arguments.

use std::cell::Cell;
use std::fmt::Display;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;

use async_trait::async_trait;
use dlock_runtime::{Key, LockError, LockPool, distributed_lock};

use super::{held, memory};

#[async_trait(?Send)]
trait Local {
    async fn turn(&self, count: Rc<Cell<u8>>) -> Result<String, LockError>;

    #[distributed_lock(key = "local:<count.get()>")]
    async fn provided(&self, count: Rc<Cell<u8>>) -> Result<String, LockError> {
        count.set(count.get() + 1);
        Ok(format!("{} {}", count.get(), held()))
    }
}

struct Shop {
    shard: &'static str,
}

#[async_trait(?Send)]
impl Local for Shop {
    #[distributed_lock(key = "local:<self.shard>")]
    async fn turn(&self, count: Rc<Cell<u8>>) -> Result<String, LockError> {
        tokio::task::yield_now().await;
        Ok(format!("{} {}", count.replace(9), held()))
    }
}

#[async_trait]
trait Store<'s, K, const N: usize>: Send + Sync
where
    K: Display + Send + Sync + 's,
{
    type Value: Send;

    async fn load(&'s self, key: &'s K) -> Result<(&'s K, Self::Value), LockError>;

    async fn store<V>(&self, key: &K, values: [V; N]) -> Result<(Vec<V>, String), LockError>
    where
        V: Send + Clone + 's;

    #[distributed_lock(key = "default:<key>:<more>")]
    async fn default<'a, D: Display + Send + Sync>(
        &self,
        key: &'a K,
        more: D,
    ) -> Result<(&'a K, String), LockError>
    where
        's: 'a,
    {
        tokio::task::yield_now().await;
        Ok((key, held()))
    }
}

#[async_trait]
impl<'s, K> Store<'s, K, 2> for Shop
where
    K: Display + Send + Sync + 's,
{
    type Value = String;

    #[distributed_lock(key = "load:<self.shard>:<key>")]
    async fn load(&'s self, key: &'s K) -> Result<(&'s K, Self::Value), LockError> {
        Ok((key, held()))
    }

    #[distributed_lock(key = "store:<key>:<values.len()>", on_lost = "finish", guard = lock)]
    async fn store<V>(&self, key: &K, values: [V; 2]) -> Result<(Vec<V>, String), LockError>
    where
        V: Send + Clone + 's,
    {
        assert_eq!(lock.key().to_string(), held());
        Ok((values.to_vec(), key.to_string()))
    }
}

#[async_trait]
trait Receivers: Sized + Send + Sync + 'static {
    async fn new() -> Result<(Self, String), LockError>;
    async fn by_value(mut self) -> Result<String, LockError>;
    async fn by_reference(&mut self, more: &str) -> Result<&mut String, LockError>;
    async fn by_arc(self: Arc<Self>, locks: LockPool) -> Result<String, LockError>;
    async fn by_arc_reference(self: &Arc<Self>) -> Result<Arc<Self>, LockError>;
    async fn by_pin(self: Pin<&mut Self>) -> String;
    async fn never_said(&self, _: u8, (): ());
}

struct Text(String);

#[async_trait]
impl Receivers for Text {
    #[distributed_lock(key = "new")]
    async fn new() -> Result<(Self, String), LockError> {
        Ok((Self("new".to_owned()), held()))
    }

    #[distributed_lock(key = "value:<self.0>")]
    async fn by_value(mut self) -> Result<String, LockError> {
        self.0.push_str("! ");
        Ok(self.0 + &held())
    }

    /// Documented.
    #[distributed_lock(key = "reference:<more>")]
    #[inline]
    async fn by_reference(
        &mut self,
        #[allow(unused_mut, reason = "without this the test would not compile")] mut more: &str,
    ) -> Result<&mut String, LockError> {
        self.0 = [more, &held()].join(" ");
        Ok(&mut self.0)
    }

    #[distributed_lock(key = "arc:<self.0>", pool = locks)]
    async fn by_arc(self: Arc<Self>, locks: LockPool) -> Result<String, LockError> {
        Ok(held())
    }

    #[distributed_lock(key = Key::verbatim(format!("arc reference:{}", self.0)))]
    async fn by_arc_reference(self: &Arc<Self>) -> Result<Arc<Self>, LockError> {
        assert_eq!(held(), "arc reference:new");
        Ok(Arc::clone(self))
    }

    #[distributed_lock(key = "pin:<self.0>", on_error = |error| format!("{} {error}", self.0.len()))]
    async fn by_pin(self: Pin<&mut Self>) -> String {
        held()
    }

    #[distributed_lock(key = "never said", on_error = drop)]
    async fn never_said(&self, _: u8, (): ()) {
        assert_eq!(held(), "never said");
        if self.0.is_empty() {
            return;
        }
        panic!("{}", self.0);
    }
}

thread_local! {
    static DROPPED: Cell<String> = const { Cell::new(String::new()) };
}

/// Notes its end; with `!` if no lock is held then.
struct Noisy(&'static str);

impl Drop for Noisy {
    fn drop(&mut self) {
        let end = dlock_runtime::current().map_or("!", |_| "");
        DROPPED.set([&DROPPED.take(), self.0, end].concat());
    }
}

macro_rules! dropping {
    ($($name:ident: $(#[$lock:meta])*;)*) => {
        #[async_trait(?Send)]
        trait Dropping: Sized {
            $(async fn $name(self, first: Noisy, _: Noisy, parts: (Noisy, Noisy), last: Noisy) -> Result<(), LockError>;)*
        }

        #[async_trait(?Send)]
        impl Dropping for Noisy {
            $($(#[$lock])*
            async fn $name(self, first: Noisy, _: Noisy, (part, _): (Noisy, Noisy), _last: Noisy) -> Result<(), LockError> {
                tokio::task::yield_now().await;
                drop((first, part));
                Ok(())
            })*
        }
    };
}

dropping! {
    plain:;
    locked: #[distributed_lock(key = "drops")];
    locked_below: #[tracing::instrument(skip_all)] #[distributed_lock(key = "drops")];
    locked_above: #[distributed_lock(key = "drops")] #[tracing::instrument(skip_all)];
}

pub(super) async fn rows() {
    let shop = Shop { shard: "eu" };
    let count = Rc::new(Cell::new(1));
    ok!(shop.turn(count.clone()), "1 local:eu");
    ok!(shop.provided(count), "10 local:9");
    let key = "k".to_owned();
    ok!(Store::<_, 2>::load(&shop, &key), ("k", "load:eu:k"));
    ok!(Store::<_, 2>::store(&shop, &key, [1, 2]), ([1, 2], "k"));
    ok!(
        Store::<_, 2>::default(&shop, &key, 1.5),
        ("k", "default:k:1.5")
    );
    receivers().await;
    arguments_are_dropped_under_the_lock().await;
}

async fn receivers() {
    let (mut text, held) = Text::new().await.unwrap();
    assert_eq!(held, "new");
    ok!(text.by_reference("more"), "more reference:more");
    let held = "more reference:more! value:more%20reference%3Amore";
    ok!(text.by_value(), held);
    let text = Arc::new(Text("new".to_owned()));
    let same = text.by_arc_reference().await.unwrap();
    assert!(Arc::ptr_eq(&same, &text));
    let task = tokio::spawn(same.by_arc(memory().await));
    ok!(async { task.await.unwrap() }, "arc:new");
    let mut pinned = Box::pin(Text(String::new()));
    gives!(pinned.as_mut().by_pin(), "pin:");
    pinned.never_said(1, ()).await;
    // Without a pool the lock fails: `on_error` may use `self`, too.
    let without_a_pool =
        tokio::spawn(async { Box::pin(Text("ab".to_owned())).as_mut().by_pin().await });
    let said = without_a_pool.await.unwrap();
    assert!(said.starts_with("2 "), "{}", said);
}

/// `#[async_trait]` itself drops what a pattern ignores before the body, so before the lock.
async fn arguments_are_dropped_under_the_lock() {
    macro_rules! dropped {
        ($method:ident) => {{
            let parts = (Noisy("3 "), Noisy("ignored "));
            let call = Noisy("self ").$method(Noisy("1 "), Noisy("2 "), parts, Noisy("4 "));
            call.await.unwrap();
            DROPPED.take().replace("ignored !", "ignored ")
        }};
    }
    let order = "ignored 1 3 4 2 self ";
    assert_eq!(dropped!(plain).replace('!', ""), order);
    assert_eq!(dropped!(locked), order);
    assert_eq!(dropped!(locked_below), order);
    assert_eq!(dropped!(locked_above), order);
}
