//! Which locks are alike, for the order of locks and for metrics: the class of a lock, and the site
//! that requests it.
//!
//! Both are known from the program's text and hold no value of a key, so there are never more of
//! them than places in the program that take a lock. The graph of classes is in
//! `extras::lock_order`.

use std::borrow::Cow;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::panic::Location;

use super::key::{Key, Origin};

/// A place in the program that takes locks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Site {
    /// `module::function`, where the attribute stands.
    function: Option<&'static str>,
    at: &'static Location<'static>,
}

impl Site {
    pub(crate) const fn of_function(name: &'static str, at: &'static Location<'static>) -> Self {
        Self {
            function: Some(name),
            at,
        }
    }

    /// The same place, under this name.
    pub(crate) const fn named(self, name: &'static str) -> Self {
        Self::of_function(name, self.at)
    }

    /// The same function, at another of its attributes.
    pub(crate) const fn moved(self, at: &'static Location<'static>) -> Self {
        Self {
            function: self.function,
            at,
        }
    }

    pub(crate) const fn by_hand(at: &'static Location<'static>) -> Self {
        Self { function: None, at }
    }

    pub(crate) fn function(&self) -> Option<&'static str> {
        self.function
    }

    #[cfg(feature = "sites")]
    pub(crate) fn at(&self) -> &'static Location<'static> {
        self.at
    }

    /// Whether both are one by their addresses: quickly, and never wrongly so.
    pub(crate) fn is_same(&self, other: Site) -> bool {
        let function = |site: &Site| site.function.map(std::ptr::from_ref);
        std::ptr::eq(self.at, other.at) && function(self) == function(&other)
    }

    /// Where it is in the program's memory, as a number whose bits are well spread; two sites may
    /// share it.
    pub(crate) fn spread(&self) -> u64 {
        const GOLDEN: u64 = 0x9E37_79B9_7F4A_7C15; // the fraction of the golden ratio
        let address = std::ptr::from_ref(self.at).addr();
        (address as u64).wrapping_mul(GOLDEN)
    }

    /// The name of the requesting function or line, for people to read.
    pub(crate) fn name(&self) -> Cow<'static, str> {
        match self.function {
            Some(name) => Cow::Borrowed(name),
            None => Cow::Owned(format!("{}:{}", self.at.file(), self.at.line())),
        }
    }
}

impl fmt::Display for Site {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(name) = self.function {
            write!(f, "{name}, ")?;
        }
        write!(f, "{}:{}", self.at.file(), self.at.line())
    }
}

/// A set of alike locks: those of one template, whatever its values.
///
/// Two templates are one class if only the names in their placeholders differ: `account:<from>` and
/// `account:<to>` lock the same keys, and so do `item:<id>` here and `item:<item.id>` there.
#[derive(Clone, Debug)]
pub(crate) enum Class {
    Template(&'static str),
    /// A key without a placeholder, in a constant.
    Constant(Key),
    /// Any other key: only its site is known.
    Site(Site),
}

impl Class {
    /// The class of a key that this site asks for.
    pub(crate) fn of(key: &Key, site: Site) -> Self {
        match key.origin() {
            Origin::Template(text) => Class::Template(text),
            Origin::Constant => Class::Constant(key.clone()),
            Origin::Text | Origin::Verbatim => Class::Site(site),
        }
    }

    /// Whether both are one of one site: quickly, and never wrongly so.
    pub(crate) fn is_same(&self, other: &Class) -> bool {
        match (self, other) {
            (Class::Template(one), Class::Template(other)) => std::ptr::eq(*one, *other),
            (Class::Constant(one), Class::Constant(other)) => one == other,
            (Class::Site(one), Class::Site(other)) => one.is_same(*other),
            _ => false,
        }
    }

    /// Its name, for people and as a label: no value of a key, but for constants.
    pub(crate) fn label(&self) -> String {
        match self {
            Class::Template(text) => (*text).to_owned(),
            Class::Constant(key) => key.bare().to_owned(),
            Class::Site(site) => site.name().into_owned(),
        }
    }

    /// Whether two keys of this class lock the same kind of thing. One site may request any locks:
    /// a function that takes all locks of a program is one site.
    pub(crate) fn is_one_kind(&self) -> bool {
        !matches!(self, Class::Site(_))
    }

    /// The template's text with its placeholders emptied, or the site.
    fn identity(&self) -> Result<impl Iterator<Item = &str>, Site> {
        match self {
            Class::Template(text) => Ok(Pieces(text, true)),
            Class::Constant(key) => Ok(Pieces(key.bare(), false)),
            Class::Site(site) => Err(*site),
        }
    }
}

impl PartialEq for Class {
    fn eq(&self, other: &Self) -> bool {
        match (self.identity(), other.identity()) {
            (Ok(one), Ok(other)) => one.eq(other),
            (Err(one), Err(other)) => one == other,
            _ => false,
        }
    }
}

impl Eq for Class {}

impl Hash for Class {
    fn hash<H: Hasher>(&self, state: &mut H) {
        match self.identity() {
            Ok(pieces) => pieces.for_each(|piece| piece.hash(state)),
            Err(site) => site.hash(state),
        }
    }
}

/// The rest of a text, and whether it is a template.
struct Pieces<'a>(&'a str, bool);

impl<'a> Iterator for Pieces<'a> {
    type Item = &'a str;

    /// `<>` stands for a placeholder; no piece of text is that, since a literal `<` is `<<`.
    fn next(&mut self) -> Option<&'a str> {
        let Pieces(rest, is_template) = *self;
        if rest.is_empty() {
            return None;
        }
        let text = rest.find('<').filter(|_| is_template);
        let (piece, after) = match text {
            Some(0) if rest.starts_with("<<") => rest.split_at(2),
            Some(0) => ("<>", rest.split_once('>').map_or("", |(_, after)| after)),
            cut => rest.split_at(cut.unwrap_or(rest.len())),
        };
        self.0 = after;
        Some(piece)
    }
}

/// One lock as it is requested at one site, as a report names it.
#[derive(Clone, Debug)]
pub(crate) struct LockSite {
    pub(crate) class: Class,
    site: Site,
}

impl LockSite {
    pub(crate) fn new(key: &Key, site: Site) -> Self {
        let class = Class::of(key, site);
        Self { class, site }
    }
}

impl fmt::Display for LockSite {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let site = self.site;
        match &self.class {
            Class::Template(text) => write!(f, "`{text}` ({site})"),
            Class::Constant(key) => write!(f, "`{}` ({site})", key.bare()),
            Class::Site(_) => write!(f, "the lock of {site}"),
        }
    }
}
