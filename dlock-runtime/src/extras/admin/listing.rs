//! A pass through the keys of a namespace, page by page.
//!
//! It keeps the server's cursor and never a lock. Invariant: no step asks the server for more than
//! a bounded number of keys.

use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;

use crate::driver::core::Core;
use crate::link::command_error::CommandError;
use crate::link::{Answer, Link, joined};
use crate::values::error::LockError;
use crate::values::key::Key;
use crate::values::report::pattern::Pattern;
use crate::values::report::{LockReport, Part, Stored};

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
    pattern: Pattern,
    part: Part,
    is_connected: bool,
    /// The connection of this pass, if one is for all locks.
    link: Option<Arc<dyn Link>>,
    /// To the servers that have not been walked through; the cursor is the first one's.
    links: VecDeque<Arc<dyn Link>>,
    cursor: u64,
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
            pattern: Pattern::parse(pattern),
            part: Part {
                from: 0,
                most: FIRST_FEW,
            },
            core,
            is_connected: false,
            link: None,
            links: VecDeque::new(),
            cursor: 0,
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
        self.core.check_process()?;
        let literal = self.pattern.literal();
        let only = literal.map(|literal| self.name(literal)).transpose()?;
        if only.is_none() && self.core.settings().is_behind_a_proxy() {
            return Err(LockError::config(
                "a list walks through the keys of one server, and with `counter_per_slot` a proxy shards: give the whole key of a lock, or list with a pool for each shard",
            ));
        }
        let page = self.page(only.as_ref()).await;
        page.map_err(|error| self.core.error(error, only.as_ref()))
    }

    async fn page(&mut self, only: Option<&Key>) -> Result<Option<Vec<LockReport>>, CommandError> {
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
        if self.found.is_empty() && self.is_over {
            return Ok(None);
        }
        self.read_page().await.map(Some)
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
        let scan = link.scan(&prefix, self.cursor, settings.command_timeout);
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
        if step.cursor == 0 {
            self.next_server();
        }
        Ok(())
    }

    fn next_server(&mut self) {
        self.cursor = 0;
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
        failed
            .into_iter()
            .try_for_each(|error| self.leave_out(error))?;
        self.found.drain(..done);
        Ok(reports)
    }

    fn name(&self, bare: String) -> Result<Key, LockError> {
        Ok(Key::verbatim(bare).in_namespace(&self.core.settings().namespace)?)
    }
}

impl fmt::Debug for Listing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("Listing");
        shown.field("core", &self.core);
        shown.finish_non_exhaustive()
    }
}
