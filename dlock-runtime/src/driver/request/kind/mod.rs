//! Which kind of lock a request asks for: the words that were said, and whether they go together.
//!
//! `dlock_grammar::kind` decides that, for the attribute too.
//!
//! Never in this folder: a rule that the attribute does not have.

use std::fmt::{self, Display, Write as _};

use dlock_grammar::kind::{self, Word};

use super::LockRequest;
use crate::values::about;
use crate::values::kind::Kind;

impl LockRequest {
    /// Shares the key with other readers, and excludes writers. Default: exclusive.
    ///
    /// Readers and [writers](Self::write) are served in order of arrival. A waiting writer goes
    /// before readers that come later, so neither starves; a reader with
    /// [`Wait::Once`](crate::Wait::Once) then fails with [`Busy`](crate::LockError::Busy). Each
    /// reader has its own lease. Inside a scope that reads the key, reading again costs nothing,
    /// and writing is an error.
    ///
    /// A reader's [fence](crate::LockGuard::fence) is unique but gives no order, because several
    /// readers hold the lock at once.
    ///
    /// Refused with [`without_scripts`](crate::Config::without_scripts).
    ///
    /// # Examples
    ///
    /// ```
    /// # use dlock_runtime::{LockPool, LockError};
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), LockError> {
    /// let pool = LockPool::connect("memory://").await?;
    /// let one = pool.lock("catalogue").read().acquire().await?;
    /// let other = pool.lock("catalogue").read().acquire().await?;
    /// assert!(pool.lock("catalogue").write().try_acquire().await?.is_none());
    /// # drop((one, other)); Ok(()) }
    /// ```
    pub fn read(mut self) -> Self {
        self.wanted.say(Word::Read);
        self
    }

    /// Excludes [readers](Self::read) and other writers. Default: exclusive.
    ///
    /// Without readers it behaves like an exclusive lock with a queue in order of arrival. The two
    /// are still different kinds: while one of them holds the key, the other waits for its turn,
    /// and is [refused](crate::Refusal::WrongKind) when its wait is over.
    ///
    /// Refused with [`without_scripts`](crate::Config::without_scripts).
    ///
    /// # Examples
    ///
    /// ```
    /// # use dlock_runtime::{LockPool, LockError, Refusal};
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), LockError> {
    /// let pool = LockPool::connect("memory://").await?;
    /// let writer = pool.lock("catalogue").write().acquire().await?;
    /// assert!(pool.lock("catalogue").read().try_acquire().await?.is_none());
    ///
    /// let error = pool.lock("catalogue").try_acquire().await.unwrap_err(); // exclusive
    /// assert!(matches!(error, LockError::Refused { reason: Refusal::WrongKind, .. }));
    ///
    /// // One lock is of one kind:
    /// let error = pool.lock("other").read().write().acquire().await.unwrap_err();
    /// assert!(error.to_string().contains("remove either"));
    /// # drop(writer); Ok(()) }
    /// ```
    pub fn write(mut self) -> Self {
        self.wanted.say(Word::Write);
        self
    }

    /// Makes the lock a semaphore: at most this many permits of the key are held at the same time,
    /// 1 to 1,000,000. Default: exclusive.
    ///
    /// Each permit has its own lease, so the permit of a dead holder becomes free. All callers of a
    /// key should name the same number: each request is checked against its own number, so the
    /// largest one is the limit.
    ///
    /// A permit's [fence](crate::LockGuard::fence) is unique but gives no order, because there are
    /// several holders at once.
    ///
    /// Refused with `redlock://` and [`without_scripts`](crate::Config::without_scripts).
    ///
    /// # Examples
    ///
    /// ```
    /// # use dlock_runtime::{LockPool, LockError};
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), LockError> {
    /// let pool = LockPool::connect("memory://").await?;
    /// let render = || pool.lock("render").permits(2);
    /// let (one, two) = (render().acquire().await?, render().acquire().await?);
    /// assert!(render().try_acquire().await?.is_none());
    /// let third = pool.lock("render").permits(3).acquire().await?;
    ///
    /// let error = pool.lock("other").permits(0).acquire().await.unwrap_err();
    /// assert!(error.to_string().contains("at least 1"));
    /// # drop((one, two, third)); Ok(()) }
    /// ```
    pub fn permits(mut self, permits: u32) -> Self {
        self.wanted.say(Word::Permits(Some(permits)));
        self
    }

    /// Takes this many of the [permits](Self::permits), all or none, 1 to 1,000. Default: one.
    ///
    /// A waiter for many permits is not overtaken by waiters for few: permits stay unused
    /// meanwhile. The server checks each permit, and serves nobody else meanwhile, so count in
    /// large units: checking 100 is fast, 1,000 takes milliseconds.
    ///
    /// # Examples
    ///
    /// ```
    /// # use dlock_runtime::{LockPool, LockError};
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), LockError> {
    /// let pool = LockPool::connect("memory://").await?;
    /// let large = pool.lock("render").permits(5).take(4).acquire().await?;
    /// assert!(pool.lock("render").permits(5).take(2).try_acquire().await?.is_none());
    ///
    /// let error = pool.lock("other").permits(5).take(6).acquire().await.unwrap_err();
    /// assert!(error.to_string().contains("more than the 5 permits"));
    /// # drop(large); Ok(()) }
    /// ```
    pub fn take(mut self, take: u32) -> Self {
        self.wanted.say(Word::Take(Some(take)));
        self
    }

    /// Lets the holder of the exclusive lock take it again. Default: taking it again fails with
    /// [`WouldDeadlock`](crate::LockError::WouldDeadlock).
    ///
    /// The holder is the scope: what runs inside [`run`](Self::run) or an annotated function, but
    /// not the tasks that it spawns, nor a sibling under `join!`. Taking the lock again joins the
    /// same lease, without a command to the server; the lock is free when the outermost scope ends.
    /// To share it across tasks and processes, name an [owner](Self::owner).
    ///
    /// # Examples
    ///
    /// ```
    /// # use dlock_runtime::{LockPool, LockError};
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), LockError> {
    /// let pool = LockPool::connect("memory://").await?;
    /// let account = || pool.lock("account:7").reentrant();
    /// let sum = account().run(async |_| account().run(async |_| 40 + 2).await).await??;
    /// assert_eq!(sum, 42);
    /// # Ok(()) }
    /// ```
    pub fn reentrant(mut self) -> Self {
        self.wanted.say(Word::Reentrant);
        self
    }

    /// Names the owner of a [`reentrant`](Self::reentrant) lock: all calls of this owner may hold
    /// the lock at once, in any task or process. Default: the scope.
    ///
    /// Use it for the steps of one workflow that run in several places. The lock excludes other
    /// owners, never a call with the same name: choose a name that no other owner has by chance,
    /// such as the workflow's id. It may have 1 to 256 bytes.
    ///
    /// Refused with [`without_scripts`](crate::Config::without_scripts).
    ///
    /// # Examples
    ///
    /// ```
    /// # use dlock_runtime::{LockPool, LockError};
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), LockError> {
    /// let pool = LockPool::connect("memory://").await?;
    /// let account = |workflow: u64| pool.lock("account:7").reentrant().owner(workflow);
    /// let step = account(1).acquire().await?;
    /// let another_step = account(1).acquire().await?; // perhaps in another process
    /// assert!(account(2).try_acquire().await?.is_none());
    ///
    /// let error = pool.lock("other").owner(1).acquire().await.unwrap_err();
    /// assert!(error.to_string().contains("add `reentrant`"));
    /// # drop((step, another_step)); Ok(()) }
    /// ```
    pub fn owner(mut self, owner: impl Display) -> Self {
        self.wanted.say(Word::Owner);
        self.wanted.owner = Some(OwnerName::new(&owner));
        self
    }

    /// Grants the lock strictly in order of arrival at the server, over all processes. Default: the
    /// waiters of a process share one queue entry, and processes take turns, which costs the server
    /// less.
    ///
    /// It applies to the exclusive and the [`reentrant`](Self::reentrant) lock; the other kinds are
    /// always served in order of arrival. A waiter that is silent for 3.5 s loses its place in the
    /// queue.
    ///
    /// Refused with `redlock://` and [`without_scripts`](crate::Config::without_scripts).
    ///
    /// # Examples
    ///
    /// ```
    /// # use dlock_runtime::{LockPool, LockError};
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), LockError> {
    /// let pool = LockPool::connect("memory://").await?;
    /// let ticket = pool.lock("ticket:7").fair().acquire().await?;
    ///
    /// let error = pool.lock("other").read().fair().acquire().await.unwrap_err();
    /// assert!(error.to_string().contains("in order of arrival anyway"));
    /// # drop(ticket); Ok(()) }
    /// ```
    pub fn fair(mut self) -> Self {
        self.wanted.say(Word::Fair);
        self
    }
}

/// The words that were said about the kind.
#[derive(Debug, Default)]
pub(super) struct KindWords {
    /// Each once, in the order in which they were first said.
    words: Vec<Word>,
    owner: Option<OwnerName>,
}

impl KindWords {
    /// If a word is said twice, the last number counts, as for all settings.
    fn say(&mut self, word: Word) {
        match self.words.iter_mut().find(|it| it.name() == word.name()) {
            Some(before) => *before = word,
            None => self.words.push(word),
        }
    }

    pub(super) fn has_several_keys(&mut self) {
        self.say(Word::Keys);
    }

    pub(super) fn has_a_period(&mut self) {
        self.say(Word::OncePer);
    }

    pub(super) fn has_a_rule_for_crashes(&mut self) {
        self.say(Word::AfterCrash);
    }

    /// The kind, and everything that is wrong with it.
    pub(super) fn check(&self, wrong: &mut Vec<String>) -> Kind {
        wrong.extend(kind::check(&self.words).iter().map(ToString::to_string));
        if let Some(owner) = &self.owner {
            wrong.extend(owner.check().err());
        }
        let of_word = |word: &Word| match word {
            Word::Read => Some(Kind::Read),
            Word::Write => Some(Kind::Write),
            Word::Permits(of) => Some(Kind::Permits {
                of: of.unwrap_or_default(),
                take: self.take(),
            }),
            _ => None,
        };
        let owned = self.owner.as_ref().map(OwnerName::kind);
        let kind = self.words.iter().find_map(of_word).or(owned);
        kind.unwrap_or_default()
    }

    fn take(&self) -> u32 {
        let taken = self.words.iter().find_map(|word| match word {
            Word::Take(take) => *take,
            _ => None,
        });
        taken.unwrap_or(1)
    }

    pub(super) fn is_fair(&self) -> bool {
        self.words.contains(&Word::Fair)
    }

    pub(super) fn is_reentrant(&self) -> bool {
        self.words.contains(&Word::Reentrant)
    }
}

/// The owner's name as it was given; `None` if its `Display` failed.
#[derive(Debug)]
struct OwnerName(Option<String>);

impl OwnerName {
    fn new(owner: &dyn Display) -> Self {
        let mut text = String::new();
        let written: fmt::Result = write!(text, "{owner}");
        // A key whose own value failed begins with a NUL, which its `Display` escapes; it is no
        // owner's name either.
        let is_none = |text: &String| text.starts_with('\0') || text.starts_with("\\u{0}");
        Self(written.ok().map(|()| text).filter(|text| !is_none(text)))
    }

    fn check(&self) -> Result<(), String> {
        match &self.0 {
            Some(owner) => kind::check_owner(owner).map_err(|why| why.to_string()),
            None => Err(
                "the `Display` of the owner failed, or it begins with a NUL: mend that, or name another value".to_owned(),
            ),
        }
    }

    /// Escaped like the other fields of an entry: a `|` would end the field.
    fn kind(&self) -> Kind {
        let mut owner = String::new();
        about::escape(self.0.as_deref().unwrap_or_default(), &mut owner);
        Kind::Owned(owner.into())
    }
}

#[cfg(test)]
mod tests;
