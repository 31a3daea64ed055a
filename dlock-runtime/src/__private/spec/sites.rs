//! The list of all locks that attributes of this program take, gathered before `main` begins.
//!
//! It only shows what the attributes say. Invariant: the list is the same for each run of a program.

use std::fmt;
use std::time::Duration;

use super::{Spec, SpecKind};
use crate::values::ttl::Renew;
use crate::values::wait::Wait;

inventory::collect!(AnnotatedLock);

/// Returns every lock that a `#[distributed_lock]` of this program takes, in the order of the
/// functions' names; needs the feature `sites`.
///
/// Use it in a test that compares the locks of a program with those that it should take, or in a
/// service that lists them in its documentation. Locks taken by
/// [`LockPool::lock`](crate::LockPool::lock) are not in the list, nor are those of a library that
/// the program does not use, because the linker leaves it out.
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

/// The source of a key in an attribute.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum KeySource {
    /// A template, `item:<id>`.
    Template(&'static str),
    /// An expression, as source text with the compiler's spaces; `Display` puts it in braces.
    Expression(&'static str),
}

impl AnnotatedLock {
    /// Returns the function's path, such as `shop::orders::purchase`; for a method, with its type:
    /// `shop::Shop::buy`, `<shop::Shop as shop::Buy>::buy`. Another version of the compiler may
    /// write it differently.
    #[must_use]
    pub fn function(&self) -> &'static str {
        self.spec.function()
    }

    /// Returns the file of the attribute, as it was given to the compiler.
    #[must_use]
    pub fn file(&self) -> &'static str {
        self.spec.site.at().file()
    }

    /// Returns the line of the attribute.
    #[must_use]
    pub fn line(&self) -> u32 {
        self.spec.site.at().line()
    }

    /// Returns its keys: several for `keys = […]`; an expression for a whole list counts as one.
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

    /// Returns the kind: `exclusive`, `read`, `write`, `permits`, `reentrant`, `owner` or `lead`.
    #[must_use]
    pub fn kind(&self) -> &'static str {
        self.kind
    }

    /// Returns `permits`, if it is a number in the attribute.
    #[must_use]
    pub fn permits(&self) -> Option<u32> {
        match self.spec.kind {
            SpecKind::Permits(of) | SpecKind::PermitsTaken { of, .. } => Some(of),
            _ => None,
        }
    }

    /// Returns whether the lock is `fair`.
    #[must_use]
    pub fn is_fair(&self) -> bool {
        self.spec.fair
    }

    /// Returns `ttl`; `None` if the pool's applies.
    #[must_use]
    pub fn ttl(&self) -> Option<Duration> {
        self.spec.ttl
    }

    /// Returns `wait`; `None` if the pool's applies.
    #[must_use]
    pub fn wait(&self) -> Option<Wait> {
        self.spec.wait
    }

    /// Returns whether the lock has `renew`, with or without an interval.
    #[must_use]
    pub fn is_renewed(&self) -> bool {
        self.spec.renew.is_some()
    }

    /// Returns the interval of `renew = "…"`; `None` if that is a third of the ttl, or the lock is
    /// not renewed.
    #[must_use]
    pub fn renewed_every(&self) -> Option<Duration> {
        match self.spec.renew {
            Some(Renew::Every(interval)) => Some(interval),
            _ => None,
        }
    }

    /// Returns `max_hold`; `None` if it is not set.
    #[must_use]
    pub fn max_hold(&self) -> Option<Duration> {
        self.spec.max_hold
    }

    /// Returns `max_renewals`; `None` if it is not set.
    #[must_use]
    pub fn max_renewals(&self) -> Option<u32> {
        self.spec.max_renewals
    }

    /// Returns `min_hold`; `None` if the lock is freed when the body ends.
    #[must_use]
    pub fn min_hold(&self) -> Option<Duration> {
        self.spec.min_hold
    }

    /// Returns `once_per`; `None` if each call runs the body.
    #[must_use]
    pub fn once_per(&self) -> Option<Duration> {
        self.spec.once_per
    }

    /// Returns the name of `pool = "…"`; `None` for the pool in scope, the global one, or an
    /// expression.
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
        let bounds = [
            ("max_hold", self.max_hold()),
            ("min_hold", self.min_hold()),
            ("once_per", self.once_per()),
        ];
        for (bound, time) in bounds {
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
