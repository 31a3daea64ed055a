//! What the poll of a body finds around it: the locks it is under, and the pool to use.
//!
//! A slot of the thread that is set while a future is polled and put back afterwards, panic or not.
//! So scopes nest, siblings under `join!` are separate, and a spawned task starts with none; a task's
//! id alone would be of no use, for siblings share it. It tells the tasks of a `LocalSet` that a body
//! drives: they are polled inside its poll, and are none of it.

use std::cell::RefCell;
use std::ops::Deref;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use pin_project_lite::pin_project;
use tokio::task;

use super::guard::LockGuard;
use super::pool::LockPool;
use crate::values::key::Key;

thread_local! {
    static CURRENT: RefCell<Option<Inside>> = const { RefCell::new(None) };
}

/// The innermost scope, and the task that polls it; `None`: none does, as under `block_on`.
#[derive(Clone, Debug)]
struct Inside {
    frame: Arc<Frame>,
    task: Option<task::Id>,
}

/// One scope and those around it.
#[derive(Debug)]
pub(crate) struct Frame {
    kind: Kind,
    parent: Option<Arc<Frame>>,
}

#[derive(Debug)]
enum Kind {
    Pool(LockPool),
    Lock(Arc<LockGuard>),
}

impl Frame {
    /// The scope of a body under this lock, inside the current scope.
    pub(crate) fn lock(guard: Arc<LockGuard>) -> Arc<Self> {
        Arc::new(Self {
            kind: Kind::Lock(guard),
            parent: current(),
        })
    }

    fn pool(pool: LockPool) -> Arc<Self> {
        Arc::new(Self {
            kind: Kind::Pool(pool),
            parent: current(),
        })
    }

    pub(crate) fn guard(&self) -> Option<&Arc<LockGuard>> {
        match &self.kind {
            Kind::Lock(guard) => Some(guard),
            Kind::Pool(_) => None,
        }
    }

    fn innermost_pool(self: Arc<Self>) -> Option<LockPool> {
        self.outwards().find_map(|frame| match &frame.kind {
            Kind::Pool(pool) => Some(pool.clone()),
            Kind::Lock(_) => None,
        })
    }

    fn outwards(self: Arc<Self>) -> impl Iterator<Item = Arc<Frame>> {
        std::iter::successors(Some(self), |frame| frame.parent.clone())
    }
}

/// The pool of the innermost [`LockPool::scope`].
pub(crate) fn innermost_pool() -> Option<LockPool> {
    current()?.innermost_pool()
}

/// The innermost lock.
pub(crate) fn innermost_lock() -> Option<Arc<LockGuard>> {
    current()?
        .outwards()
        .find_map(|frame| frame.guard().cloned())
}

/// What enclosing scopes hold of this key of this pool, the innermost first.
pub(crate) fn holds(pool: &LockPool, key: &Key) -> Vec<Arc<LockGuard>> {
    let holds_it = |guard: &Arc<LockGuard>| guard.is_of(pool) && guard.holds(key);
    let guards = current().into_iter().flat_map(Frame::outwards);
    let guards = guards.filter_map(|frame| frame.guard().cloned());
    guards.filter(holds_it).collect()
}

/// The locks of this pool that enclosing scopes hold, from the innermost outwards.
pub(crate) fn held(pool: &LockPool) -> Vec<Arc<LockGuard>> {
    let Some(frame) = current() else {
        return Vec::new();
    };
    let guards = frame.outwards().filter_map(|frame| frame.guard().cloned());
    guards
        .filter(|guard| guard.is_of(pool) && guard.is_held())
        .collect()
}

fn current() -> Option<Arc<Frame>> {
    let inside = CURRENT.try_with(|slot| slot.borrow().clone());
    let Inside { frame, task } = inside.ok().flatten()?;
    if task == task::try_id() {
        return Some(frame);
    }
    // Another task's locks are not this one's to join; its pool is what tests run in.
    frame.innermost_pool().map(|pool| {
        let (kind, parent) = (Kind::Pool(pool), None);
        Arc::new(Frame { kind, parent })
    })
}

/// Makes `frame` the current scope until the result is dropped.
pub(crate) fn enter(frame: Arc<Frame>) -> Entered {
    let task = task::try_id();
    Entered {
        before: swap(Some(Inside { frame, task })),
    }
}

fn swap(inside: Option<Inside>) -> Option<Inside> {
    CURRENT.try_with(|slot| slot.replace(inside)).ok().flatten()
}

#[must_use = "the scope ends when this is dropped"]
pub(crate) struct Entered {
    before: Option<Inside>,
}

impl Drop for Entered {
    fn drop(&mut self) {
        drop(swap(self.before.take()));
    }
}

/// The guard of the innermost lock, for a body to look at; dropping it gives nothing back.
#[derive(Debug)]
pub struct ScopedGuard(Arc<LockGuard>);

impl ScopedGuard {
    pub(crate) fn innermost() -> Option<Self> {
        innermost_lock().map(Self)
    }
}

impl Deref for ScopedGuard {
    type Target = LockGuard;

    fn deref(&self) -> &LockGuard {
        &self.0
    }
}

pin_project! {
    /// A future inside which locked functions use a certain pool.
    #[must_use = "futures do nothing unless polled"]
    pub(crate) struct InPool<F> {
        #[pin]
        inner: F,
        pool: Option<LockPool>,
        frame: Option<Arc<Frame>>,
    }
}

impl<F> InPool<F> {
    pub(crate) fn new(pool: LockPool, inner: F) -> Self {
        Self {
            inner,
            pool: Some(pool),
            frame: None,
        }
    }
}

impl<F: Future> Future for InPool<F> {
    type Output = F::Output;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        let this = self.project();
        if let Some(pool) = this.pool.take() {
            *this.frame = Some(Frame::pool(pool));
        }
        let _entered = this.frame.clone().map(enter);
        this.inner.poll(cx)
    }
}
