//! The calls of a case: what is called, how it ended, and the runtime that its caller may have.

use std::future::pending;
use std::thread;
use std::time::{Duration, Instant};

use dlock_harness::until;
use dlock_runtime::{Batch, LockError, LockGuard, LockRequest, Released};
use futures_util::future::{self, Aborted, abortable, join_all};
use tokio::runtime::{Builder, Handle, Runtime};
use tokio::sync::oneshot;
use tokio::task::{AbortHandle, JoinHandle};

use super::row::{Call, Caller};
use super::site::Met;
use crate::lab::CAP;

/// What a caller is to do.
pub(super) enum Given {
    Request(LockRequest),
    Guard(LockGuard),
    /// With a lease, or what to write to.
    Asking(Call, LockGuard, Duration, String),
    Run(LockRequest),
    Body(LockRequest),
    Keep(LockRequest),
}

#[derive(Debug)]
pub(super) enum Ended {
    Asked(Result<LockGuard, LockError>),
    Released(Result<Released, LockError>),
    Told(LockGuard, Result<(), LockError>),
    Ran(Result<u32, LockError>),
}

/// How a call ended and what time it took, if its caller stayed.
pub(super) type Outcome = Result<(Duration, Ended), Aborted>;

/// Calls under way, all on one task, so that they are made at once; and the locks that were got.
pub(super) struct Calls {
    pub(super) task: Option<JoinHandle<Vec<Outcome>>>,
    pub(super) each: Vec<future::AbortHandle>,
    /// Where the task is, if not on the test's runtime.
    runtime: Option<Doomed>,
    pub(super) undriven: Option<Runtime>,
    pub(super) held: Vec<LockGuard>,
}

impl Calls {
    pub(super) fn begin(runtime: Option<Doomed>, given: Vec<Given>) -> Self {
        let begun = Instant::now();
        let call = move |given| async move {
            let ended = match given {
                Given::Request(request) => Ended::Asked(request.acquire().await),
                Given::Guard(guard) => Ended::Released(guard.release().await),
                Given::Asking(call, guard, lease, data) => {
                    let told = match call {
                        Call::Extend => guard.extend(lease).await,
                        Call::Write => guard.write(&Batch::new().rpush(data, "once")).await,
                        _ => guard.verify().await,
                    };
                    Ended::Told(guard, told)
                }
                Given::Run(request) => Ended::Ran(request.run(async |_| 7).await),
                Given::Keep(request) => {
                    let _guard = request.acquire().await;
                    pending().await
                }
                Given::Body(request) => Ended::Ran(request.run(async |_| pending().await).await),
            };
            (begun.elapsed(), ended)
        };
        let (calls, each): (Vec<_>, _) = given.into_iter().map(|it| abortable(call(it))).unzip();
        let all = async move { join_all(calls).await };
        Self {
            task: Some(Doomed::handle(runtime.as_ref()).spawn(all)),
            each,
            runtime,
            undriven: None,
            held: Vec::new(),
        }
    }

    /// Whether they end without the fault.
    pub(super) async fn end_before(&mut self, met: &Met) -> bool {
        let Some(task) = &mut self.task else {
            return false;
        };
        tokio::select! {
            biased;
            () = met.seen() => false,
            ended = task => {
                self.task = None;
                matches!(ended.unwrap()[..], [Ok((_, Ended::Released(Ok(Released::Freed))))])
            }
        }
    }

    /// The callers drop their calls, or their locks if they may have them.
    pub(super) async fn go(&mut self, may_have: bool) {
        let task = self.task.take().unwrap();
        match self.runtime.take() {
            Some(doomed) => self.undriven = doomed.end(task.abort_handle()).await,
            None => task.abort(),
        }
        match task.await {
            Err(error) => assert!(error.is_cancelled()),
            Ok(ended) => assert!(may_have, "{ended:?}"),
        }
    }
}

/// A runtime that runs on a thread of its own until its end.
pub(super) struct Doomed {
    handle: Handle,
    ends: oneshot::Sender<AbortHandle>,
    thread: thread::JoinHandle<Option<Runtime>>,
}

impl Doomed {
    pub(super) fn of(caller: Caller) -> Option<Self> {
        let mut builder = match caller {
            Caller::Task => return None,
            Caller::CurrentThread | Caller::CurrentThreadInBackground | Caller::Undriven => {
                Builder::new_current_thread()
            }
            Caller::MultiThread | Caller::Background => Builder::new_multi_thread(),
        };
        let runtime = builder.enable_all().build().unwrap();
        let handle = runtime.handle().clone();
        let (ends, end) = oneshot::channel();
        let thread = thread::spawn(move || {
            runtime.block_on(async {
                let task: AbortHandle = end.await.unwrap();
                if caller == Caller::Undriven {
                    task.abort();
                    until("it is dropped", CAP, async || task.is_finished()).await;
                }
            });
            match caller {
                Caller::Undriven => return Some(runtime),
                Caller::Background | Caller::CurrentThreadInBackground => {
                    runtime.shutdown_background();
                }
                _ => drop(runtime),
            }
            None
        });
        Some(Self {
            handle,
            ends,
            thread,
        })
    }

    /// Where a caller's tasks run: without a runtime of its own, on the test's.
    pub(super) fn handle(runtime: Option<&Self>) -> Handle {
        runtime.map_or_else(Handle::current, |doomed| doomed.handle.clone())
    }

    /// Ends it; returns it if it lives on, and is not run.
    async fn end(self, task: AbortHandle) -> Option<Runtime> {
        self.ends.send(task).unwrap();
        let joined = tokio::task::spawn_blocking(|| self.thread.join());
        joined.await.unwrap().unwrap()
    }
}
