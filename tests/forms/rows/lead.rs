//! `lead`: what each term gets of the arguments, by every receiver, and where the future may go.
//!
//! A body campaigns again after its first term, which has changed what it was given; the second term
//! finds it as the caller passed it.

use std::cell::Cell;
use std::fmt::Display;
use std::ops::ControlFlow;
use std::rc::Rc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use dlock_runtime::{LockError, LockPool, distributed_lock};
use tokio::task::yield_now;

use super::{held, memory};

type Ended = ControlFlow<Result<String, LockError>>;

/// Ends with the text in the second term.
async fn second(terms: &AtomicU32, text: impl Display) -> Ended {
    yield_now().await;
    if terms.fetch_add(1, Ordering::SeqCst) == 0 {
        return ControlFlow::Continue(());
    }
    ControlFlow::Break(Ok(format!("{} {}", text, held())))
}

/// No `Clone`: the key alone uses it.
struct Shard(u8);

impl Display for Shard {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}", self.0)
    }
}

#[derive(Clone)]
struct Parts {
    one: String,
    other: Vec<u8>,
}

#[distributed_lock(
    key = "each:<shard>:<r#fn>",
    ttl = "15s",
    renew = "2s",
    max_hold = "1h",
    max_renewals = 1000,
    fair,
    lead,
    on_shutdown = "finish",
    release = "background",
    guard = lead,
    pool = pool
)]
#[allow(clippy::too_many_arguments, reason = "every sort of them")]
async fn each<T: Display + Clone>(
    shard: Shard,
    mut text: String,
    mut number: u8,
    r#fn: Arc<u8>,
    (mut left, ref right): (String, String),
    Parts { one, mut other, .. }: Parts,
    generic: T,
    any: impl Display + Clone,
    mut slice: &[u8],
    #[allow(unused_mut, reason = "it is not changed")] mut same: String,
    _: Shard,
    _unused: Shard,
    pool: &LockPool,
    terms: Arc<AtomicU32>,
) -> Ended {
    assert!(lead.is_held());
    for text in [&mut text, &mut left] {
        text.push('!');
    }
    number += 1;
    other.push(number);
    slice = &slice[1..];
    let parts = (right.as_str(), one, other, slice);
    let all = (text, left, parts, same, *r#fn);
    let shown = format!("{:?} {} {}", all, generic, any);
    assert_eq!(pool.status().unwrap().held, 1);
    second(&terms, shown).await
}

#[distributed_lock(key = "plain:<id>", lead)]
async fn plain(id: u64, text: &str) -> Result<String, LockError> {
    Ok(format!("{} {}", text, held()))
}

#[distributed_lock(key = "unit", lead, on_error = |error| panic!("{}", error))]
async fn unit(count: &Cell<u8>) {
    count.set(count.get() + 1);
}

#[derive(Clone)]
struct Mailer {
    name: String,
    terms: Arc<AtomicU32>,
    pool: LockPool,
}

impl Mailer {
    #[distributed_lock(key = "value:<self.name>", lead, pool = self.pool)]
    async fn by_value(mut self, more: String) -> Ended {
        self.name.push_str(&more);
        let name = self.name;
        second(&self.terms, name).await
    }

    #[distributed_lock(
        key = "moved:<self.name>",
        lead,
        pool = self.pool,
        on_error = |error| ControlFlow::Break(format!("{} {}", self.name, error))
    )]
    async fn not_changed(self) -> ControlFlow<String> {
        let Mailer { name, terms, .. } = self;
        second(&terms, name).await.map_break(Result::unwrap)
    }

    #[distributed_lock(key = "reference:<self.name>", lead, pool = self.pool)]
    async fn by_reference(&self) -> Ended {
        second(&self.terms, &self.name).await
    }

    #[distributed_lock(key = "arc:<self.name>", lead, pool = self.pool)]
    async fn by_arc(self: Arc<Self>) -> Ended {
        second(&self.terms, &self.name).await
    }

    #[distributed_lock(key = "box:<self.name>", lead, pool = self.pool)]
    async fn by_box(mut self: Box<Self>) -> Ended {
        self.name.push('!');
        second(&self.terms, &self.name).await
    }

    #[distributed_lock(key = "arc reference:<self.name>", lead, pool = self.pool)]
    async fn by_arc_reference(self: &Arc<Self>) -> Ended {
        second(&self.terms, &self.name).await
    }

    /// What the body does not mention is not cloned.
    #[distributed_lock(key = "unmentioned:<self.name>:<shard>", lead, pool = self.pool)]
    async fn unmentioned(self, shard: Shard) -> Result<String, LockError> {
        Ok(held())
    }

    fn new(pool: &LockPool) -> Self {
        Self {
            name: "m".to_owned(),
            terms: Arc::default(),
            pool: pool.clone(),
        }
    }
}

trait Leads: Clone {
    fn terms(&self) -> Arc<AtomicU32>;

    #[distributed_lock(key = "provided", lead)]
    async fn provided(self) -> Ended {
        second(&self.terms(), "provided").await
    }
}

impl Leads for Mailer {
    fn terms(&self) -> Arc<AtomicU32> {
        self.terms.clone()
    }
}

#[async_trait]
trait LeadsByBox: Sized {
    async fn boxed(self, id: u8, mut text: String, parts: (String, String)) -> Ended;
    async fn in_a_span(self, text: String) -> Ended;
    async fn boxed_reference(&self, mut text: String) -> Ended;
}

#[async_trait]
impl LeadsByBox for Mailer {
    #[distributed_lock(key = "boxed:<self.name>:<id>", lead, pool = self.pool)]
    async fn boxed(mut self, id: u8, mut text: String, (mut left, _): (String, String)) -> Ended {
        self.name.push('!');
        text.push_str(&self.name);
        left.push('!');
        second(&self.terms, format!("{} {}", text, left)).await
    }

    #[tracing::instrument(skip_all)]
    #[distributed_lock(key = "span:<self.name>", lead, pool = self.pool)]
    async fn in_a_span(mut self, mut text: String) -> Ended {
        self.name.push('!');
        text.push_str(&self.name);
        second(&self.terms, text).await
    }

    #[distributed_lock(key = "boxed reference:<self.name>", lead, pool = self.pool)]
    #[tracing::instrument(skip_all)]
    async fn boxed_reference(&self, mut text: String) -> Ended {
        text.push('!');
        second(&self.terms, text).await
    }
}

/// Notes that it is cloned, `+`, and its end, with `!` if no lock is held then.
struct Noisy(&'static str, Arc<Mutex<String>>);

impl Noisy {
    fn note(&self, parts: [&str; 3]) {
        self.1.lock().unwrap().push_str(&parts.concat());
    }

    /// The body mentions them in another order.
    #[distributed_lock(key = "drops", lead)]
    async fn drops(self, one: Noisy, two: Noisy, _: Noisy, terms: &AtomicU32) -> Ended {
        let names = (one.0, self.0, two.0);
        second(terms, format!("{:?}", names)).await
    }
}

impl Clone for Noisy {
    fn clone(&self) -> Self {
        self.note(["+", self.0, " "]);
        Self(self.0, self.1.clone())
    }
}

impl Drop for Noisy {
    fn drop(&mut self) {
        let end = dlock_runtime::current().map_or("! ", |_| " ");
        self.note([self.0, end, ""]);
    }
}

/// Clones are dropped under the lock, in the order of a function without one; what was passed,
/// after the last term.
async fn drops() {
    let log = Arc::<Mutex<String>>::default();
    let noisy = |name| Noisy(name, log.clone());
    let terms = AtomicU32::new(0);
    let call = noisy("self").drops(noisy("1"), noisy("2"), noisy("3"), &terms);
    let names = r#"("1", "self", "2") drops"#.to_owned();
    gives!(call, Ended::Break(Ok(names)));
    let term = "+self +1 +2 2 1 self ";
    let dropped = [term, term, "3! 2! 1! self! "].concat();
    assert_eq!(*log.lock().unwrap(), dropped);
}

/// It needs no `Send`.
#[distributed_lock(key = "local", lead)]
async fn local(count: Rc<Cell<u8>>) -> Result<u8, LockError> {
    yield_now().await;
    Ok(count.get())
}

#[distributed_lock(key = "spawned:<text>", lead, pool = pool)]
async fn spawned<T: Clone + Send + Sync>(
    text: &str,
    list: &[T],
    own: Vec<T>,
    cell: Cell<u8>,
    pool: &LockPool,
    terms: Arc<AtomicU32>,
) -> Ended {
    yield_now().await;
    second(&terms, list.len() + own.len() + usize::from(cell.get())).await
}

pub(super) async fn rows() {
    let pool = memory().await;
    let (text, terms) = (str::to_owned, Arc::<AtomicU32>::default);
    let parts = Parts {
        one: text("one"),
        other: vec![1],
    };
    let (pair, shard) = ((text("l"), text("r")), || Shard(3));
    let call = each(
        shard(),
        text("t"),
        1,
        Arc::new(7),
        pair,
        parts,
        1.5,
        'x',
        &[5, 6],
        text("s"),
        shard(),
        shard(),
        &pool,
        terms(),
    );
    let all = r#"("t!", "l!", ("r", "one", [1, 2], [6]), "s", 7) 1.5 x each:3:7"#;
    gives!(call, Ended::Break(Ok(text(all))));
    ok!(plain(7, "text"), "text plain:7");
    let count = Cell::new(0);
    unit(&count).await;
    assert_eq!(count.get(), 1);
    drops().await;
    ok!(local(Rc::new(Cell::new(7))), 7);
    by_each_receiver(&pool).await;
    in_a_task(&pool).await;
}

async fn by_each_receiver(pool: &LockPool) {
    let mailer = || Mailer::new(pool);
    macro_rules! leads {
        ($call:expr, $expected:expr) => {
            gives!($call, Ended::Break(Ok($expected.to_owned())))
        };
    }
    leads!(mailer().by_value("!".to_owned()), "m! value:m");
    gives!(mailer().not_changed(), ControlFlow::<_>::Break("m moved:m"));
    leads!(mailer().by_reference(), "m reference:m");
    leads!(Arc::new(mailer()).by_arc(), "m arc:m");
    leads!(Box::new(mailer()).by_box(), "m! box:m");
    leads!(
        Arc::new(mailer()).by_arc_reference(),
        "m arc%20reference:m".replace("%20", " ")
    );
    ok!(mailer().unmentioned(Shard(1)), "unmentioned:m:1");
    leads!(mailer().provided(), "provided provided");
    let pair = ("l".to_owned(), String::new());
    leads!(mailer().boxed(1, "t".to_owned(), pair), "tm! l! boxed:m:1");
    leads!(mailer().in_a_span("t".to_owned()), "tm! span:m");
    leads!(
        mailer().boxed_reference("t".to_owned()),
        "t! boxed reference:m"
    );
}

/// As other functions: `Send` arguments, borrowed ones too, make a future that is `Send`.
async fn in_a_task(pool: &LockPool) {
    let pool = pool.clone();
    let task = tokio::spawn(async move {
        let (text, list) = (String::from("a b"), [1, 2]);
        let terms = Arc::default();
        spawned(&text, &list, vec![3], Cell::new(4), &pool, terms).await
    });
    gives!(
        async { task.await.unwrap() },
        Ended::Break(Ok(String::from("7 spawned:a%20b")))
    );
    let direct = Mailer::new(&memory().await).by_value("?".to_owned());
    let task = tokio::spawn(direct);
    gives!(
        async { task.await.unwrap() },
        Ended::Break(Ok(String::from("m? value:m")))
    );
}
