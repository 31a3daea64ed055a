//! One leader among many processes: an exclusive lock that is asked for again and again.
//!
//! [`Candidate`] asks, [`Campaigns`] says what follows each answer, for the attribute's `lead` too,
//! [`Term`] is the lead while it lasts, [`LeaderWatch`] tells anybody who leads. A term is a hold like any
//! other. Never in this folder: a command, or a decision about a lock; a term that was lost is campaigned
//! for anew, at the end of the queue.

mod campaigns;
mod term;
mod watch;

use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

pub(crate) use self::campaigns::Campaigns;
pub use self::term::{Term, TermOutcome};
pub use self::watch::{LeaderReport, LeaderWatch};
use crate::driver::core::Core;
use crate::driver::request::{Keys, LockRequest, tell_dropped};
use crate::driver::scope::ScopedGuard;
use crate::values::class::Site;
use crate::values::error::LockError;
use crate::values::key::Key;
use crate::values::wait::Wait;

/// A candidate for the lead of a key, from [`LockPool::leader`](crate::LockPool::leader).
///
/// The leader is the holder of an exclusive lock, which is renewed. As with any lease, two processes may
/// consider themselves the leader for a short time, for example after a failover: [`Term::is_leader`]
/// never says yes after the deadline, and what must not come late needs the [`Term::fence`]. Candidates
/// get their turn in the order in which they asked, except with [several
/// servers](crate::Config::redlock) and [without scripts](crate::Config::without_scripts).
#[derive(Clone, Debug)]
#[must_use = "nothing is asked for before `run` or `campaign` is awaited"]
pub struct Candidate {
    core: Arc<Core>,
    key: Key,
    site: Site,
    ttl: Option<Duration>,
    max_hold: Option<Duration>,
}

impl Candidate {
    pub(crate) fn new(core: Arc<Core>, key: Key, site: Site) -> Self {
        Self {
            core,
            key: key.of_constant(),
            site,
            ttl: None,
            max_hold: None,
        }
    }

    /// Sets the lease: 10 ms to 24 h, renewed every third of it. Default: the pool's
    /// [`default_ttl`](crate::Config::default_ttl), 30 s.
    ///
    /// It is how long nobody leads after the leader was killed. A leader that ends in order is followed
    /// at once.
    pub fn ttl(mut self, ttl: Duration) -> Self {
        self.ttl = Some(ttl);
        self
    }

    /// Ends a term after this long, at least the ttl, so that another candidate leads next, and a body
    /// that hangs does not lead for ever. Default: the pool's
    /// [`default_max_hold`](crate::Config::default_max_hold), no bound.
    pub fn max_hold(mut self, max_hold: Duration) -> Self {
        self.max_hold = Some(max_hold);
        self
    }

    /// Sets the name under which others see this candidate, instead of the `file:line` of the call.
    pub fn function(mut self, name: &'static str) -> Self {
        self.site = self.site.named(name);
        self
    }

    /// Waits until this process leads, and returns its term.
    ///
    /// The term lasts until it is dropped, [resigned](Term::resign) or lost. When it is lost, nothing stops
    /// your work, and a shutdown does not end it, as it would end the body of [`run`](Self::run). Outages
    /// are waited out.
    ///
    /// # Errors
    /// [`LockError::ShutDown`] when the pool is being shut down; [`LockError::Refused`] for what does not
    /// pass by itself, such as a missing right; [`LockError::WouldDeadlock`] inside a body that leads
    /// already; [`LockError::InvalidKey`] and [`LockError::Config`] before anything is sent.
    ///
    /// # Cancel safety
    /// May be dropped at any time: it leaves nothing behind.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), dlock_runtime::LockError> {
    /// # let pool = dlock_runtime::LockPool::connect("memory://").await?;
    /// let term = pool.leader("mailer").campaign().await?;
    /// assert!(term.is_leader());
    /// term.resign().await?;
    ///
    /// let error = pool.leader("@mailer").campaign().await.unwrap_err();
    /// assert!(error.to_string().contains("@mailer"));
    /// # Ok(()) }
    /// ```
    pub async fn campaign(self) -> Result<Term, LockError> {
        let mut campaigns = Campaigns::default();
        loop {
            if let ControlFlow::Break(ended) = campaigns.win(self.request()).await {
                return ended.map(Term::owned);
            }
        }
    }

    /// Runs the body whenever this process leads, until the body returns.
    ///
    /// The body gets its [`Term`]. What it returns decides what follows ([`TermOutcome`]):
    ///
    /// - a `Result` or `()` resigns, and is returned, `Err` too: this process is no candidate any more. A
    ///   panic resigns;
    /// - [`ControlFlow::Break`] resigns, and its value is returned;
    /// - [`ControlFlow::Continue`] resigns, and campaigns again at the end of the queue.
    ///
    /// When the term is lost, the body is stopped, and the process campaigns again. Outages are waited
    /// out. After a [`shutdown`](crate::shutdown) began, the body has
    /// [`shutdown_grace`](crate::Config::shutdown_grace) to return, best as soon as [`Term::closing`] is
    /// ready; then it is stopped, and the next candidate leads at once.
    ///
    /// # Errors
    /// As [`campaign`](Self::campaign), and [`LockError::Lost`] if a shutdown stopped the body, or if the
    /// body returned something else than `Continue` after its term was lost.
    ///
    /// # Cancel safety
    /// May be dropped at any time: the body is dropped, and the lead resigned in the background.
    ///
    /// # In a spawned task
    /// Give the body what it uses, `async move |term: &Term| …`: of one that captures a reference, today's
    /// compiler says that "implementation of `Send` is not general enough". The attribute's `lead` has no
    /// such limit.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), dlock_runtime::LockError> {
    /// use dlock_runtime::{LockError, LockPool, Term};
    ///
    /// let pool = LockPool::connect("memory://").await?;
    /// let mailer = pool.leader("mailer").run(async |term: &Term| {
    ///     let mut closing = std::pin::pin!(term.closing());
    ///     loop {
    ///         let mail = tokio::select! { // the arm that is not ready is dropped: it only waits
    ///             () = &mut closing => return Ok::<_, LockError>("resigned"),
    ///             mail = next() => mail,
    ///         };
    ///         send(mail, term.fence()).await; // not cut short
    ///     }
    /// });
    /// let (ended, drained) = tokio::join!(mailer, pool.shutdown());
    /// assert_eq!(ended??, "resigned");
    /// assert!(drained.is_complete());
    /// # Ok(()) }
    /// # async fn next() { tokio::task::yield_now().await }
    /// # async fn send(_: (), _: dlock_runtime::Fence) {}
    /// ```
    pub async fn run<R: TermOutcome>(
        self,
        mut body: impl AsyncFnMut(&Term) -> R,
    ) -> Result<R::Value, LockError> {
        let mut campaigns = Campaigns::default();
        loop {
            let body = async {
                match ScopedGuard::innermost().map(Term::of_body) {
                    Some(term) => Some(body(&term).await),
                    None => None, // unreachable: a body is polled inside its lock's scope
                }
            };
            let request = self.request().stopped_at_shutdown();
            let term = campaigns.term(request, body, in_its_term, |_| None);
            if let ControlFlow::Break(ended) = term.await {
                return ended.inspect_err(tell_dropped)?;
            }
        }
    }

    /// Begins to watch who leads this key: for any process, a candidate or not.
    pub fn watch(&self) -> LeaderWatch {
        LeaderWatch::new(self.core.clone(), self.key.clone())
    }

    fn request(&self) -> LockRequest {
        let keys = Keys::One(self.key.clone());
        let mut request = LockRequest::new(self.core.clone(), keys, self.site);
        if let Some(ttl) = self.ttl {
            request = request.ttl(ttl);
        }
        if let Some(max_hold) = self.max_hold {
            request = request.max_hold(max_hold);
        }
        request.renew().wait(Wait::Forever)
    }
}

/// What a body says of the next term; `None`: it was polled outside its own.
fn in_its_term<R: TermOutcome>(value: Option<R>) -> ControlFlow<Result<R::Value, LockError>> {
    match value.map(R::into_flow) {
        Some(ControlFlow::Break(value)) => ControlFlow::Break(Ok(value)),
        Some(ControlFlow::Continue(())) => ControlFlow::Continue(()),
        None => ControlFlow::Break(Err(LockError::config(
            "the body was polled outside its term; please report this",
        ))),
    }
}
