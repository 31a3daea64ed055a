//! The list of all locks that attributes of this program take, gathered before `main` begins.
//!
//! It only shows what the attributes say. Invariant: the list is the same for each run of a program.

use std::fmt;
use std::time::Duration;

use super::{Spec, SpecKind};
use crate::values::ttl::Renew;
use crate::values::wait::Wait;

inventory::collect!(AnnotatedLock);

/// Every lock that a `#[distributed_lock]` of this program takes, in the order of their functions'
/// names; needs the feature `sites`.
///
/// For a test that holds a program to the locks it is meant to take, and for a service that lists
/// them in its documentation. Locks taken by [`LockPool::lock`](crate::LockPool::lock) are not in
/// it, nor are those of a library that nothing of the program uses, because the linker leaves it
/// out.
///
/// # Examples
///
/// ```
/// use dlock_runtime::{LockError, distributed_lock, sites};
///
/// #[distributed_lock(key = "item:<id>", ttl = "10s", renew)]
/// async fn restock(id: u64) -> Result<u64, LockError> {
///     Ok(id)
/// }
///
/// # fn main() {
/// let sites = sites();
/// let restock = sites.iter().find(|site| site.function().ends_with("::restock")).unwrap();
/// assert_eq!(restock.kind(), "exclusive");
/// assert!(restock.to_string().ends_with("::restock: item:<id> (exclusive, ttl 10s, renewed)"));
/// # }
/// ```
#[must_use]
pub fn sites() -> Vec<&'static AnnotatedLock> {
    let mut sites: Vec<_> = inventory::iter::<AnnotatedLock>.into_iter().collect();
    sites.sort_by_key(|site| (site.function(), site.file(), site.line()));
    sites
}

/// One `#[distributed_lock]` of the program, from [`sites`].
#[derive(Debug)]
pub struct AnnotatedLock {
    spec: &'static Spec,
    kind: &'static str,
    keys: &'static [(&'static str, bool)],
}

/// For generated code. `keys`: their texts, and whether each is a template.
#[must_use]
pub const fn site(
    spec: &'static Spec,
    kind: &'static str,
    keys: &'static [(&'static str, bool)],
) -> AnnotatedLock {
    AnnotatedLock { spec, kind, keys }
}

/// What an attribute says of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum KeySource {
    /// `item:<id>`, a template.
    Template(&'static str),
    /// An expression, as source text with the compiler's spaces; `Display` puts it in braces.
    Expression(&'static str),
}

impl AnnotatedLock {
    /// `shop::orders::purchase`; of a method, with its type: `shop::Shop::buy`,
    /// `<shop::Shop as shop::Buy>::buy`. The compiler's version may write it otherwise.
    #[must_use]
    pub fn function(&self) -> &'static str {
        self.spec.function()
    }

    /// The file of the attribute, as the compiler was given it.
    #[must_use]
    pub fn file(&self) -> &'static str {
        self.spec.site.at().file()
    }

    /// The line of the attribute.
    #[must_use]
    pub fn line(&self) -> u32 {
        self.spec.site.at().line()
    }

    /// Its keys: several for `keys = […]`; an expression for a whole list is one.
    pub fn keys(&self) -> impl Iterator<Item = KeySource> + use<> {
        let keys = self.keys;
        keys.iter().map(|&(text, is_template)| {
            if is_template {
                KeySource::Template(text)
            } else {
                KeySource::Expression(text)
            }
        })
    }

    /// `exclusive`, `read`, `write`, `permits`, `reentrant` or `owner`.
    #[must_use]
    pub fn kind(&self) -> &'static str {
        self.kind
    }

    /// `permits`, if it is a number in the attribute.
    #[must_use]
    pub fn permits(&self) -> Option<u32> {
        match self.spec.kind {
            SpecKind::Permits(of) | SpecKind::PermitsTaken { of, .. } => Some(of),
            _ => None,
        }
    }

    /// `fair`
    #[must_use]
    pub fn is_fair(&self) -> bool {
        self.spec.fair
    }

    /// `ttl`; `None`: the pool's.
    #[must_use]
    pub fn ttl(&self) -> Option<Duration> {
        self.spec.ttl
    }

    /// `wait`; `None`: the pool's.
    #[must_use]
    pub fn wait(&self) -> Option<Wait> {
        self.spec.wait
    }

    /// `renew`, with or without an interval.
    #[must_use]
    pub fn is_renewed(&self) -> bool {
        self.spec.renew.is_some()
    }

    /// The interval of `renew = "…"`; `None`: a third of the ttl, or no renewals at all.
    #[must_use]
    pub fn renewed_every(&self) -> Option<Duration> {
        match self.spec.renew {
            Some(Renew::Every(interval)) => Some(interval),
            _ => None,
        }
    }

    /// `max_hold`; `None`: no bound.
    #[must_use]
    pub fn max_hold(&self) -> Option<Duration> {
        self.spec.max_hold
    }

    /// `max_renewals`; `None`: no bound.
    #[must_use]
    pub fn max_renewals(&self) -> Option<u32> {
        self.spec.max_renewals
    }

    /// `min_hold`; `None`: freed when the body ends.
    #[must_use]
    pub fn min_hold(&self) -> Option<Duration> {
        self.spec.min_hold
    }

    /// The name of `pool = "…"`; `None`: the pool in scope, the global one, or an expression.
    #[must_use]
    pub fn pool(&self) -> Option<&'static str> {
        self.spec.pool
    }
}

/// `shop::purchase: item:<id> (exclusive, ttl 10s, renewed)`
impl fmt::Display for AnnotatedLock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: ", self.function())?;
        for (number, key) in self.keys().enumerate() {
            let comma = if number > 0 { ", " } else { "" };
            write!(f, "{comma}{key}")?;
        }
        write!(f, " ({}", self.kind)?;
        if let Some(permits) = self.permits() {
            write!(f, " {permits}")?;
        }
        if self.is_fair() {
            f.write_str(", fair")?;
        }
        if let Some(ttl) = self.ttl() {
            write!(f, ", ttl {ttl:?}")?;
        }
        if self.is_renewed() {
            f.write_str(", renewed")?;
        }
        for (bound, time) in [("max_hold", self.max_hold()), ("min_hold", self.min_hold())] {
            if let Some(time) = time {
                write!(f, ", {bound} {time:?}")?;
            }
        }
        f.write_str(")")
    }
}

impl fmt::Display for KeySource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            KeySource::Template(text) => f.write_str(text),
            KeySource::Expression(source) => write!(f, "{{{source}}}"),
        }
    }
}
