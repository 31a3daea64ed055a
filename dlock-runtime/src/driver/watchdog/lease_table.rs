//! What a watchdog does about tokens: the commands, and the reports on how they went.
//!
//! Each function may run on any runtime, or be polled once where answers come at once. Invariant:
//! one that is dropped half-way reports a failure, so no token stays `busy` for ever.

use std::iter::repeat_with;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::runtime::Handle;

use super::look::Look;
use crate::client::tokens::Action;
use crate::driver::lease_cell::LeaseCell;
use crate::driver::shared::{PoolTokens, SharedClient};
use crate::link::command_error::CommandError;
use crate::link::{Backend, Link, RENEWALS_AT_ONCE};
use crate::observe::{self, Observers};
use crate::rules::commands::{Cancelled, Claim, Keep, Renewal, RenewalCount, Renewed};
use crate::values::error::Reason;
use crate::values::moment::Moment;
use crate::values::token::Token;

/// The tokens, and the server that they are on.
#[derive(Debug)]
pub(super) struct LeaseTable {
    pub(super) shared: Arc<SharedClient>,
    pub(super) backend: Arc<dyn Backend>,
    /// A warning that renewals fail has been logged.
    pub(super) warned: AtomicBool,
    pub(super) observers: Arc<Observers>,
    /// The runtime of the watchdog's thread, if it has one.
    pub(super) runtime: Mutex<Option<Handle>>,
    /// What the tasks of `memory://` look with, one at a time.
    pub(super) look: Mutex<Look>,
}

/// Why an answer renewed less than it was asked for.
const NOT_RENEWED: &str = "the server answered, but did not renew it: this user may lack a right, which `LockPool::check` names, or it is a replica by now, or too few replicas confirmed it";

/// Commands to send.
pub(super) enum Job {
    Renew(RenewalBatch),
    Verify {
        token: Token,
        claim: Claim,
        within: Duration,
    },
    Cancel {
        token: Token,
        claim: Claim,
        keep: Keep,
        not_after: u64,
    },
}

/// The renewals of one command, the shortest lease first, and their tokens.
pub(super) struct RenewalBatch {
    tokens: Vec<Token>,
    items: Vec<Renewal>,
    within: Duration,
}

impl RenewalBatch {
    fn new(within: Duration, room: usize) -> Self {
        Self {
            tokens: Vec::with_capacity(room),
            items: Vec::with_capacity(room),
            within,
        }
    }

    fn push(&mut self, token: Token, renewal: Renewal) {
        self.tokens.push(token);
        self.items.push(renewal);
    }
}

impl LeaseTable {
    /// A lease has begun that will be renewed: the watchdog connects to its server now, and not
    /// when the first renewal is due, because then it may no longer be able to.
    pub(super) fn prepare(&self, key: &str) {
        let runtime = self.runtime.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(runtime) = &*runtime {
            self.backend.prepare(runtime, key);
        }
    }

    /// The watchdog's own connection or, while it can't be made, another one to the lock's server.
    async fn link(&self, key: &str, within: Duration) -> Result<Arc<dyn Link>, CommandError> {
        if let Some(link) = self.backend.ready(key, self.shared.clock.now()) {
            return Ok(link);
        }
        // The other one may be of a runtime that stands still, so the own one comes first.
        let patience = match self.backend.any_ready(key) {
            Some(_) => within / 4,
            None => within,
        };
        let connected = self.backend.connect(key, patience).await;
        connected.or_else(|error| self.backend.any_ready(key).ok_or(error))
    }

    /// The same for a question, which no order binds to others: a connection that works, of whatever
    /// runtime, comes before one that has to be made.
    async fn any_link(&self, key: &str, within: Duration) -> Result<Arc<dyn Link>, CommandError> {
        let ready = self.backend.ready(key, self.shared.clock.now());
        match ready.or_else(|| self.backend.any_ready(key)) {
            Some(link) => Ok(link),
            None => self.backend.connect(key, within).await,
        }
    }

    /// Announces what happened, and returns the commands to send, in batches.
    pub(super) fn sort(&self, actions: Vec<Action<Arc<LeaseCell>>>) -> Vec<Job> {
        let (mut jobs, mut renewals) = (Vec::new(), Vec::with_capacity(actions.len()));
        for action in actions {
            match action {
                Action::Renew {
                    token,
                    renewal,
                    within,
                } => renewals.push((token, renewal, within)),
                Action::Verify {
                    token,
                    claim,
                    within,
                } => jobs.push(Job::Verify {
                    token,
                    claim,
                    within,
                }),
                Action::Cancel {
                    token,
                    claim,
                    keep,
                    not_after,
                } => {
                    jobs.push(Job::Cancel {
                        token,
                        claim,
                        keep,
                        not_after,
                    });
                }
                news => self.shared.announce([news]),
            }
        }
        jobs.extend(self.batches(renewals));
        jobs
    }

    /// Batches leases at one server with about the same time left: the short timeout of one that is
    /// nearly over must not apply to long ones.
    fn batches(&self, renewals: Vec<(Token, Renewal, Duration)>) -> impl Iterator<Item = Job> {
        let room = renewals.len().min(RENEWALS_AT_ONCE);
        let server = |(_, renewal, _): &(_, Renewal, _)| self.backend.server_of(&renewal.claim.key);
        let mut renewals: Vec<_> = renewals.into_iter().map(|it| (server(&it), it)).collect();
        renewals.sort_by_key(|(server, (_, _, within))| (*server, *within));
        let mut batches: Vec<(usize, RenewalBatch)> = Vec::new();
        for (server, (token, renewal, within)) in renewals {
            let within = within.min(self.shared.command_timeout);
            let fits = |(at, last): &&mut (usize, RenewalBatch)| {
                *at == server && last.items.len() < RENEWALS_AT_ONCE && within <= last.within * 2
            };
            if let Some((_, last)) = batches.last_mut().filter(fits) {
                last.push(token, renewal);
            } else {
                let mut batch = RenewalBatch::new(within, room);
                batch.push(token, renewal);
                batches.push((server, batch));
            }
        }
        batches.into_iter().map(|(_, batch)| Job::Renew(batch))
    }

    fn report<News>(&self, change: impl FnOnce(&mut PoolTokens, Moment) -> News)
    where
        News: IntoIterator<Item = Action<Arc<LeaseCell>>>,
    {
        if self.shared.home.is_elsewhere() {
            return; // a runtime that a forked child inherited drops its tasks
        }
        let mut state = self.shared.lock();
        let now = self.shared.clock.now(); // under the mutex, so that reports are in order
        let news = change(&mut state.client.tokens, now);
        drop(state);
        self.shared.announce(news);
        self.shared.wake_if_needed();
    }
}

/// Sends what a job asks for.
pub(super) async fn carry_out(leases: Arc<LeaseTable>, job: Job) {
    match job {
        Job::Renew(batch) => renew(leases, batch).await,
        Job::Verify {
            token,
            claim,
            within,
        } => {
            let within = within.min(leases.shared.command_timeout);
            let mut report = VerifyReport {
                leases,
                token,
                is_ours: None,
            };
            if let Ok(link) = report.leases.any_link(&claim.key, within).await {
                report.is_ours = link.still_holds(&claim, within).await.ok();
            }
        }
        Job::Cancel {
            token,
            claim,
            keep,
            not_after,
        } => {
            let mut report = CancelReport::new(leases.clone(), token, false);
            let within = leases.shared.command_timeout;
            if let Ok(link) = leases.link(&claim.key, within).await {
                // A server in this process has executed the acquire, if it was ever sent, so
                // nothing can come later.
                report.behind_acquire = link.runtime().is_none();
                let cancelled = link.cancel(&claim, keep, not_after, within).await;
                report.answer = cancelled.ok();
            }
        }
    }
}

async fn renew(leases: Arc<LeaseTable>, batch: RenewalBatch) {
    let RenewalBatch {
        tokens,
        items,
        within,
    } = batch;
    let Some(first) = items.first() else {
        return;
    };
    let mut report = RenewReport {
        leases: &leases,
        tokens: &tokens,
        sent: None,
    };
    let key = &first.claim.key;
    let answered = async {
        let link = leases.link(key, within).await?;
        let sent = leases.shared.clock.now();
        Ok::<_, CommandError>((sent, link.renew(&items, within).await?))
    };
    let failed = match answered.await {
        Ok((sent, answers)) => {
            let at = Renewed::first_failed(&answers);
            report.sent = Some((sent, answers));
            at.and_then(|at| items.get(at)).map(|it| {
                (
                    &it.claim.key,
                    CommandError::Unsent(Reason::new(NOT_RENEWED)),
                )
            })
        }
        Err(why) => Some((key, why)),
    };
    let had_failed = leases.warned.swap(failed.is_some(), Ordering::Relaxed);
    match failed {
        Some((key, why)) if !had_failed => {
            observe::renewals_fail(leases.shared.parts(key), items.len(), &why);
        }
        None if had_failed => observe::renewals_go_on(leases.shared.parts(key)),
        _ => {}
    }
}

impl RenewReport<'_> {
    fn tell(&self) {
        let answers = self.sent.as_ref().map(|(_, answers)| &**answers);
        let RenewalCount {
            renewed,
            gone,
            failed,
        } = RenewalCount::of(answers.unwrap_or_default(), self.tokens.len());
        let now = self.leases.shared.clock.now();
        let took = self.sent.as_ref().map(|(sent, _)| sent.until(now));
        observe::renewals(renewed, gone, failed, took);
    }
}

/// Reports a renewal on drop, as failed unless it was answered.
struct RenewReport<'a> {
    leases: &'a LeaseTable,
    tokens: &'a [Token],
    sent: Option<(Moment, Vec<Renewed>)>,
}

impl Drop for RenewReport<'_> {
    fn drop(&mut self) {
        self.tell();
        self.leases.report(|tokens, now| {
            let (sent, outcomes) = self.sent.take().unwrap_or((now, Vec::new()));
            let outcomes = outcomes.into_iter().chain(repeat_with(Renewed::default));
            let each = self.tokens.iter().zip(outcomes);
            let news =
                each.filter_map(|(token, outcome)| tokens.renewed(*token, sent, outcome, now));
            news.collect::<Vec<_>>()
        });
    }
}

/// Reports a question about a holder on drop, as failed unless it was answered.
struct VerifyReport {
    leases: Arc<LeaseTable>,
    token: Token,
    is_ours: Option<bool>,
}

impl Drop for VerifyReport {
    fn drop(&mut self) {
        let (token, is_ours) = (self.token, self.is_ours);
        self.leases
            .report(|tokens, now| tokens.verified(token, is_ours, now));
    }
}

/// The first clean-up after an acquire, sent behind it on the acquire's own connection.
///
/// The report exists before the first poll: a runtime that has ended drops a future unpolled.
pub(super) fn cancel_behind(
    leases: Arc<LeaseTable>,
    token: Token,
    claim: Claim,
    not_after: u64,
    link: Arc<dyn Link>,
) -> impl Future<Output = ()> + Send + 'static {
    let mut report = CancelReport::new(leases.clone(), token, true);
    async move {
        let cancelled = link
            .cancel(&claim, Keep::NOT, not_after, leases.shared.command_timeout)
            .await;
        report.answer = cancelled.ok();
        drop(report);
    }
}

/// Reports a cancel on drop, as failed unless it was answered.
struct CancelReport {
    leases: Arc<LeaseTable>,
    token: Token,
    behind_acquire: bool,
    answer: Option<Cancelled>,
}

impl CancelReport {
    fn new(leases: Arc<LeaseTable>, token: Token, behind_acquire: bool) -> Self {
        Self {
            leases,
            token,
            behind_acquire,
            answer: None,
        }
    }
}

impl Drop for CancelReport {
    fn drop(&mut self) {
        let (token, behind_acquire) = (self.token, self.behind_acquire);
        self.leases.report(|tokens, now| {
            let Some(answer) = self.answer else {
                tokens.cancel_failed(token, now);
                return None;
            };
            tokens.cancelled(token, answer, behind_acquire, now)
        });
    }
}
