//! A pass through the keys of a namespace, page by page.
//!
//! It keeps the server's cursor and never a lock. Invariant: no step asks the server for more than
//! a bounded number of keys.

use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;

use crate::driver::core::Core;
use crate::link::command_error::CommandError;
use crate::link::offers::WantedOffer;
use crate::link::{Answer, Link, joined};
use crate::rules::commands::NotDue;
use crate::values::error::LockError;
use crate::values::key::Key;
use crate::values::record::LastRun;
use crate::values::report::pattern::Pattern;
use crate::values::report::{LockReport, Part, Sought, Stored};

/// The most locks on one page.
const PAGE: usize = 50;

/// How many steps through the server's keys one page takes at most.
const STEPS: usize = 16;

/// How many holders and waiters of each lock are read.
const FIRST_FEW: usize = 4;

/// A pass through the locks that match a pattern, from [`Admin::list`](crate::Admin::list).
///
/// It walks through all keys of the database with `SCAN`, some hundred at a time, so that no
/// command blocks the server for long; a database of a million keys takes some seconds, however
/// many match. A lock that is held all the time is returned at least once, and may be returned
/// twice; one that is taken or freed meanwhile may be missing, and so may one that moves to another
/// master of a cluster. Locks that nobody holds are left out, even while somebody waits for them.
#[must_use = "it asks the server only when `next_page` is called"]
pub struct Listing {
    core: Arc<Core>,
    sought: Sought,
    pattern: Pattern,
    part: Part,
    is_connected: bool,
    /// The connection of this pass, if one is for all locks.
    link: Option<Arc<dyn Link>>,
    /// To the servers that have not been walked through; the cursor is the first one's.
    links: VecDeque<Arc<dyn Link>>,
    cursor: String,
    /// Whether all keys have been seen.
    is_over: bool,
    /// Names on the server of locks that are still to be looked at.
    found: VecDeque<String>,
    /// Whether a server may be left out.
    may_be_partial: bool,
    /// How many servers there are, and why some were left out.
    servers: usize,
    missing: Vec<LockError>,
}

impl Listing {
    pub(super) fn of(core: Arc<Core>, pattern: &str) -> Self {
        Self {
            sought: Sought::Locks,
            pattern: Pattern::parse(pattern),
            part: Part {
                from: 0,
                most: FIRST_FEW,
            },
            core,
            is_connected: false,
            link: None,
            links: VecDeque::new(),
            cursor: String::new(),
            is_over: false,
            found: VecDeque::new(),
            may_be_partial: false,
            servers: 1,
            missing: Vec::new(),
        }
    }

    /// Leaves out a master of a cluster that can't be reached or refuses, and slots that no master
    /// serves, instead of failing, as long as another master can be read:
    /// [`missing`](Self::missing) returns why.
    pub fn partial(mut self) -> Self {
        self.may_be_partial = true;
        self
    }

    /// Returns why masters were left out, one error for each: their locks are not in this list. It
    /// is complete after the last page, and empty without [`partial`](Self::partial).
    #[must_use]
    pub fn missing(&self) -> &[LockError] {
        &self.missing
    }

    /// Reads this many holders and waiters of each lock.
    pub(super) fn reading_at_most(mut self, most: usize) -> Self {
        self.part.most = most;
        self
    }

    /// Returns the next locks, at most 50; `None` after the last. A page may be empty, so that a
    /// long stretch between two matches does not keep the caller waiting.
    ///
    /// # Errors
    /// [`LockError::Unavailable`] or [`LockError::Refused`] when the server does not answer, or the
    /// user may not `SCAN`. The position is kept, so the call may be repeated; if the connection
    /// was lost, so is the position: begin a new list. [`LockError::Config`] behind a proxy that
    /// shards ([`Config::counter_per_slot`](crate::Config::counter_per_slot)), which could list one
    /// shard only. [`LockError::InvalidKey`] if the pattern has no wildcard and can't name a lock.
    ///
    /// # Cancel safety
    /// Dropping the future loses nothing: the next call returns the same locks.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), dlock_runtime::LockError> {
    /// # let pool = dlock_runtime::LockPool::connect("memory://").await?;
    /// # let _held = pool.lock("item:7").acquire().await?;
    /// let (mut list, mut waiting) = (pool.admin().list("item:*"), 0);
    /// while let Some(page) = list.next_page().await? {
    ///     waiting += page.iter().map(|lock| lock.waiter_count()).sum::<usize>();
    /// }
    /// assert_eq!(waiting, 0);
    /// # Ok(()) }
    /// ```
    pub async fn next_page(&mut self) -> Result<Option<Vec<LockReport>>, LockError> {
        let only = self.only()?;
        let page = self.page(only.as_ref()).await;
        page.map_err(|error| self.core.error(error, only.as_ref()))
    }

    /// The one key that is asked for, if the pattern names one.
    fn only(&self) -> Result<Option<Key>, LockError> {
        self.core.check_process()?;
        let literal = self.pattern.literal();
        let only = literal.map(|literal| self.name(literal)).transpose()?;
        if only.is_none() && self.core.settings().is_behind_a_proxy() {
            return Err(LockError::config(
                "a list walks through the keys of one server, and with `counter_per_slot` a proxy shards: give the whole key of a lock, or list with a pool for each shard",
            ));
        }
        Ok(only)
    }

    async fn page(&mut self, only: Option<&Key>) -> Result<Option<Vec<LockReport>>, CommandError> {
        if !self.find(only).await? {
            return Ok(None);
        }
        self.read_page().await.map(Some)
    }

    /// Looks for the next page; `false` after the last.
    async fn find(&mut self, only: Option<&Key>) -> Result<bool, CommandError> {
        self.connect(only).await?;
        if let Some(key) = only.filter(|_| !self.is_over) {
            self.found.push_back(key.as_str().to_owned());
            self.is_over = true;
        }
        let mut steps = 0;
        while !self.is_over && self.found.len() < PAGE && steps < STEPS {
            self.step().await?;
            steps += 1;
        }
        Ok(!(self.found.is_empty() && self.is_over))
    }

    /// The connections of this pass.
    async fn connect(&mut self, only: Option<&Key>) -> Result<(), CommandError> {
        if self.is_connected {
            return Ok(());
        }
        let (backend, within) = (self.core.backend(), self.core.settings().connect_timeout);
        if let Some(only) = only {
            self.link = Some(backend.link(only.as_str(), within).await?);
        } else {
            let (links, mut away) = self.core.links_to_reachable(within).await?;
            away.extend(backend.unserved());
            self.servers = links.len() + away.len();
            self.links = links.into();
            for error in away {
                self.leave_out(error)?;
            }
            let is_for_all = self.core.backend().links_are_for_all();
            self.link = self.links.front().filter(|_| is_for_all).cloned();
        }
        self.is_connected = true;
        Ok(())
    }

    /// Looks at some more of a server's keys.
    async fn step(&mut self) -> Result<(), CommandError> {
        let settings = self.core.settings();
        let Some(link) = self.links.front() else {
            self.is_over = true;
            return Ok(());
        };
        let prefix = settings.namespace.clone() + &self.pattern.prefix();
        let within = settings.command_timeout;
        let scan = link.scan(self.sought, &prefix, &self.cursor, within);
        let step = match scan.await {
            Ok(step) => step,
            Err(error) => {
                self.leave_out(error)?;
                self.next_server();
                return Ok(());
            }
        };
        let is_wanted = |key: &String| {
            let bare = key.strip_prefix(&settings.namespace);
            // No lock can have the name of a queue or a counter, in whichever namespace.
            bare.is_some_and(|it| self.pattern.matches(it) && self.name(it.to_owned()).is_ok())
        };
        let mut wanted: Vec<String> = step.keys.into_iter().filter(is_wanted).collect();
        // Each node of a quorum tells of the same lock, and what reads it asks them all. Of the keys
        // found only a page is kept, so this compares with few.
        wanted.retain(|key| !self.found.contains(key));
        self.found.extend(wanted);
        self.cursor = step.cursor;
        if self.cursor.is_empty() {
            self.next_server();
        }
        Ok(())
    }

    fn next_server(&mut self) {
        self.cursor.clear();
        self.links.pop_front();
        self.is_over = self.links.is_empty();
    }

    /// Goes on without a server, if that is asked for and others are left.
    fn leave_out(&mut self, error: CommandError) -> Result<(), CommandError> {
        let told = error.clone().into_error(None);
        let text = format!("{told:?}");
        if self.missing.iter().any(|it| format!("{it:?}") == text) {
            return Ok(()); // several of its locks were found
        }
        if !self.may_be_partial || self.missing.len() + 1 >= self.servers {
            return Err(error);
        }
        self.missing.push(told);
        Ok(())
    }

    /// The next page of those that were found.
    async fn read_page(&mut self) -> Result<Vec<LockReport>, CommandError> {
        let (settings, backend) = (self.core.settings(), self.core.backend());
        let (connect, within) = (settings.connect_timeout, settings.command_timeout);
        let keys: Vec<&str> = self.found.iter().take(PAGE).map(String::as_str).collect();
        let mut looked = Vec::new();
        if let Some(link) = &self.link {
            let stored = link.inspect(&keys, self.part, within).await?;
            looked.extend(stored.into_iter().map(Ok));
        } else {
            let part = self.part;
            let each = keys.iter().map(|key| -> Answer<'_, Vec<Stored>> {
                Box::pin(async move {
                    let link = backend.link(key, connect).await?;
                    link.inspect(&[*key], part, within).await
                })
            });
            for one in joined::all(each.collect()).await {
                match one {
                    Ok(stored) => looked.extend(stored.into_iter().map(Ok)),
                    Err(error) => looked.push(Err(error)),
                }
            }
        }
        let (mut reports, mut failed) = (Vec::new(), Vec::new());
        for (key, stored) in keys.iter().zip(looked) {
            let bare = key.strip_prefix(&settings.namespace).unwrap_or(key);
            match stored {
                Ok(stored) => reports.extend(stored.report(bare).filter(|it| it.kind().is_some())),
                Err(error) => failed.push(error),
            }
        }
        let done = keys.len();
        self.done(done, failed)?;
        Ok(reports)
    }

    /// So many of those found are read, or failed.
    fn done(&mut self, keys: usize, failed: Vec<CommandError>) -> Result<(), CommandError> {
        let mut failed = failed.into_iter();
        failed.try_for_each(|error| self.leave_out(error))?;
        self.found.drain(..keys);
        Ok(())
    }

    fn name(&self, bare: String) -> Result<Key, LockError> {
        Ok(Key::verbatim(bare).in_namespace(&self.core.settings().namespace)?)
    }
}

/// A pass through the records of last runs of the jobs that run [once per
/// period](crate::LockRequest::once_per), from [`Admin::records`](crate::Admin::records).
///
/// It goes through the keys as a [`Listing`] does, and returns a record that is stored all the time at
/// least once.
#[must_use = "it asks the server only when `next_page` is called"]
pub struct Records(Listing);

impl Records {
    pub(super) fn of(core: Arc<Core>, pattern: &str) -> Self {
        Self(Listing {
            sought: Sought::Records,
            ..Listing::of(core, pattern)
        })
    }

    /// Leaves out masters, as [`Listing::partial`].
    pub fn partial(self) -> Self {
        Self(self.0.partial())
    }

    /// Returns why masters were left out, as [`Listing::missing`].
    #[must_use]
    pub fn missing(&self) -> &[LockError] {
        self.0.missing()
    }

    /// Returns the next records, at most 50, each with its job's key; `None` after the last. A page may
    /// be empty.
    ///
    /// # Errors
    /// As [`Listing::next_page`]; [`LockError::Config`] with several servers, where no job runs once per
    /// period.
    ///
    /// # Cancel safety
    /// Dropping the future loses nothing: the next call returns the same records.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), dlock_runtime::LockError> {
    /// # let pool = dlock_runtime::LockPool::connect("memory://").await?;
    /// use std::time::Duration;
    ///
    /// let nightly = pool.lock("job:nightly").once_per(Duration::from_secs(20 * 3600));
    /// nightly.acquire().await?.release_done().await?;
    ///
    /// let (mut records, mut keys) = (pool.admin().records("job:*"), Vec::new());
    /// while let Some(page) = records.next_page().await? {
    ///     keys.extend(page.into_iter().map(|(key, _)| key));
    /// }
    /// assert_eq!(keys, ["job:nightly"]);
    /// # Ok(()) }
    /// ```
    pub async fn next_page(&mut self) -> Result<Option<Vec<(String, LastRun)>>, LockError> {
        self.0.core.offers(WantedOffer::Records)?;
        let only = self.0.only()?;
        let page = self.page(only.as_ref()).await;
        page.map_err(|error| self.0.core.error(error, only.as_ref()))
    }

    async fn page(
        &mut self,
        only: Option<&Key>,
    ) -> Result<Option<Vec<(String, LastRun)>>, CommandError> {
        if !self.0.find(only).await? {
            return Ok(None);
        }
        let (settings, backend) = (self.0.core.settings(), self.0.core.backend());
        let (connect, within) = (settings.connect_timeout, settings.command_timeout);
        let keys: Vec<&str> = self.0.found.iter().take(PAGE).map(String::as_str).collect();
        let each = keys.iter().map(|key| -> Answer<'_, Option<NotDue>> {
            Box::pin(async move {
                let link = backend.link(key, connect).await?;
                link.last_run(key, within).await
            })
        });
        let (mut records, mut failed) = (Vec::new(), Vec::new());
        for (key, read) in keys.iter().zip(joined::all(each.collect()).await) {
            let bare = key.strip_prefix(&settings.namespace).unwrap_or(key);
            match read {
                Ok(Some(it)) => {
                    let run = LastRun::of(&it.record, it.time, it.left);
                    records.push((bare.to_owned(), run));
                }
                Ok(None) => {} // its period is over
                Err(error) => failed.push(error),
            }
        }
        let done = keys.len();
        self.0.done(done, failed)?;
        Ok(Some(records))
    }
}

impl fmt::Debug for Records {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Records").field(&self.0).finish()
    }
}

impl fmt::Debug for Listing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("Listing");
        shown.field("core", &self.core);
        shown.finish_non_exhaustive()
    }
}
