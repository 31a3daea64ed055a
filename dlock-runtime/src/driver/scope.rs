//! What surrounds the poll of a body: the locks that it runs under, and the pool to use.
//!
//! The scope is a slot of the thread that is set while a future is polled and restored afterwards,
//! also by a panic. So scopes nest, siblings under `join!` are separate, and a spawned task starts
//! with none. A task's id alone would not do, for siblings share it; but it tells apart the tasks
//! of a `LocalSet` that a body drives: they are polled inside its poll and are not part of the
//! body.

use std::cell::RefCell;
use std::ops::Deref;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use pin_project_lite::pin_project;
use tokio::task;

use super::core::Core;
use super::guard::LockGuard;
use super::lock_handle::LockHandle;
use crate::values::key::Key;

thread_local! {
    static CURRENT: RefCell<Option<Inside>> = const { RefCell::new(None) };
}

/// The innermost scope, and the task that polls it; `None` without a task, as under `block_on`.
#[derive(Clone, Debug)]
struct Inside {
    frame: Frame,
    task: Option<task::Id>,
}

/// One scope, and through its parent those around it.
#[derive(Clone, Debug)]
pub(crate) enum Frame {
    Pool(Arc<PoolFrame>),
    Lock(Arc<LockFrame>),
}

#[derive(Debug)]
pub(crate) struct PoolFrame {
    core: Arc<Core>,
    parent: Option<Frame>,
}

/// The scope of a body under its lock.
#[derive(Debug)]
pub(crate) struct LockFrame {
    pub(super) guard: LockGuard,
    parent: Option<Frame>,
}

impl LockFrame {
    /// Inside the current scope.
    pub(super) fn new(guard: LockGuard) -> Arc<Self> {
        let parent = current_frame();
        Arc::new(Self { guard, parent })
    }

    /// The guard of the body around this one, unless that has only joined the locks around itself.
    pub(super) fn outer(&self) -> Option<ScopedGuard> {
        locks_from(self.parent.clone()?).find(|guard| guard.holds_more())
    }
}

impl Frame {
    fn pool(core: Arc<Core>, parent: Option<Frame>) -> Self {
        Frame::Pool(Arc::new(PoolFrame { core, parent }))
    }

    fn innermost_pool(self) -> Option<Arc<Core>> {
        self.outwards().find_map(|frame| match frame {
            Frame::Pool(it) => Some(it.core.clone()),
            Frame::Lock(_) => None,
        })
    }

    fn outwards(self) -> impl Iterator<Item = Frame> {
        std::iter::successors(Some(self), |frame| match frame {
            Frame::Pool(it) => it.parent.clone(),
            Frame::Lock(it) => it.parent.clone(),
        })
    }
}

/// The pool of the innermost [`LockPool::scope`](crate::LockPool::scope).
pub(crate) fn innermost_pool() -> Option<Arc<Core>> {
    current_frame()?.innermost_pool()
}

/// Returns the innermost lock that the calling code runs under, at any depth of calls inside a
/// locked function or a [`run`](crate::LockRequest::run); `None` elsewhere.
///
/// It covers what the body polls, not tasks that it spawns, and not guards from
/// [`acquire`](crate::LockRequest::acquire), which do not open a scope.
///
/// # Examples
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), dlock_runtime::LockError> {
/// use dlock_runtime::{LockPool, current};
///
/// async fn write_row() -> Option<u64> {
///     Some(current()?.fence().get())
/// }
///
/// let pool = LockPool::connect("memory://").await?;
/// assert!(pool.lock("row").run(async |_| write_row().await).await?.is_some());
/// assert!(write_row().await.is_none());
/// # Ok(()) }
/// ```
#[must_use]
pub fn current() -> Option<LockHandle> {
    ScopedGuard::innermost().map(|guard| guard.held())
}

/// The guards of enclosing scopes that hold this key of this pool, innermost first.
pub(crate) fn holds(core: &Arc<Core>, key: &Key) -> Vec<ScopedGuard> {
    let Some(innermost) = current_frame() else {
        return Vec::new(); // most calls are in no scope
    };
    let holds_it = |guard: &ScopedGuard| guard.is_of(core) && guard.holds(key);
    locks_from(innermost).filter(holds_it).collect()
}

/// The locks of this pool that enclosing scopes hold, innermost first.
pub(crate) fn held(core: &Arc<Core>) -> Vec<ScopedGuard> {
    let is_held = |guard: &ScopedGuard| guard.is_of(core) && guard.is_held();
    locks().filter(is_held).collect()
}

/// Innermost first.
fn locks() -> impl Iterator<Item = ScopedGuard> {
    current_frame().into_iter().flat_map(locks_from)
}

fn locks_from(innermost: Frame) -> impl Iterator<Item = ScopedGuard> {
    innermost.outwards().filter_map(|frame| match frame {
        Frame::Lock(it) => Some(ScopedGuard(it)),
        Frame::Pool(_) => None,
    })
}

fn current_frame() -> Option<Frame> {
    let inside = CURRENT.try_with(|slot| slot.borrow().clone());
    let Inside { frame, task } = inside.ok().flatten()?;
    if task == task::try_id() {
        return Some(frame);
    }
    // A task can't join another task's locks; but it uses its pool, which is what tests rely on.
    let core = frame.innermost_pool()?;
    Some(Frame::pool(core, None))
}

/// Makes `frame` the current scope until the result is dropped.
pub(crate) fn enter(frame: Frame) -> Entered {
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

/// The guard of the innermost lock, for a body to read; dropping it gives nothing back.
#[derive(Debug)]
pub struct ScopedGuard(Arc<LockFrame>);

impl ScopedGuard {
    pub(crate) fn innermost() -> Option<Self> {
        locks().next()
    }
}

impl Deref for ScopedGuard {
    type Target = LockGuard;

    fn deref(&self) -> &LockGuard {
        &self.0.guard
    }
}

pin_project! {
    /// A future inside which locked functions use this pool.
    #[must_use = "futures do nothing unless polled"]
    pub(crate) struct InPool<F> {
        #[pin]
        inner: F,
        core: Option<Arc<Core>>,
        frame: Option<Frame>,
    }
}

impl<F> InPool<F> {
    pub(crate) fn new(core: Arc<Core>, inner: F) -> Self {
        Self {
            inner,
            core: Some(core),
            frame: None,
        }
    }
}

impl<F: Future> Future for InPool<F> {
    type Output = F::Output;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        let this = self.project();
        if let Some(core) = this.core.take() {
            *this.frame = Some(Frame::pool(core, current_frame()));
        }
        let _entered = this.frame.clone().map(enter);
        this.inner.poll(cx)
    }
}
