//! A lock's name: the user's text or template, and the same with the pool's namespace in front.
//!
//! `dlock_grammar::key` decides what a key may contain; the attribute uses it too. Invariant: a key
//! from a template encodes its values, so that none can forge a separator.

use std::borrow::Cow;
use std::cmp::Ordering;
use std::fmt;
use std::fmt::Write as _;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use super::shared_text;
use super::shown::{KEY_AT_MOST, TEXT_AT_MOST, quoted, shown};

/// A lock's name.
///
/// To build one from values, use [`lock_key!`](crate::lock_key) or a template in the attribute:
/// both encode the values, so that none can forge a separator, and both give the same key. Text
/// converts to a key, too, and is taken as it is. It is checked when the lock is requested, and
/// refused if it looks like a template (`"item:<id>"`), which as text would be one lock for all
/// values. **For some values, text from `format!` differs from the template's key** (`file:a b` and
/// `file:a%20b`), and the two then do not exclude each other.
///
/// The key of a guard or an error knows the pool's namespace: [`as_str`](Self::as_str) is the name
/// on the server, while `Display` shows the key as pools and the command `dlock` take it, without
/// the namespace. A pool that receives such a key does not prepend the namespace again.
///
/// # Examples
///
/// ```
/// use dlock_runtime::{Key, lock_key};
///
/// let buyer = "ann:admin";
/// assert_eq!(lock_key!("item:<buyer>").as_str(), "item:ann%3Aadmin");
/// assert_eq!(Key::from("report").as_str(), "report");
/// ```
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), dlock_runtime::LockError> {
/// # let pool = dlock_runtime::LockPool::connect("memory://").await?;
/// let error = pool.lock("item:<buyer>").acquire().await.unwrap_err();
/// assert!(error.to_string().contains("write `lock_key!(\"item:<buyer>\")`"));
/// # Ok(()) }
/// ```
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Key(Arc<Text>);

#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
struct Text {
    /// Shared with all that refers to the lock by its name.
    whole: Arc<str>,
    /// How many bytes of `whole` are the namespace.
    namespace: usize,
    origin: Origin,
}

/// What is known about a key's origin.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Origin {
    /// Nothing: some text.
    Text,
    /// Text marked as literal by [`Key::verbatim`].
    Verbatim,
    /// The template that made it.
    Template(&'static str),
    /// The text stands in a constant.
    Constant,
}

// Keys are equal if their names are, whatever their origin.
impl PartialEq for Origin {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Eq for Origin {}

impl Hash for Origin {
    fn hash<H: Hasher>(&self, _: &mut H) {}
}

impl PartialOrd for Origin {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Origin {
    fn cmp(&self, _: &Self) -> Ordering {
        Ordering::Equal
    }
}

/// A key that can't be locked, and why.
#[derive(Debug)]
pub(crate) struct InvalidKey {
    pub(crate) key: Key,
    pub(crate) why: String,
}

impl InvalidKey {
    fn new(key: Key, why: impl fmt::Display) -> Self {
        let why = why.to_string();
        Self { key, why }
    }
}

impl Key {
    /// Makes a key of this text as it is: nothing in it counts as a template, even if it looks like
    /// one, and nothing is encoded.
    ///
    /// Use it for a name that is built elsewhere, such as that of another program's lock. Its
    /// variable parts must not be able to forge a separator, which [`lock_key!`](crate::lock_key)
    /// ensures.
    ///
    /// # Examples
    ///
    /// ```
    /// use dlock_runtime::{Key, lock_key};
    ///
    /// let file = "a b.txt";
    /// assert_eq!(Key::verbatim(format!("file:{file}")).as_str(), "file:a b.txt");
    /// assert_eq!(lock_key!("file:<file>").as_str(), "file:a%20b.txt"); // another lock
    /// ```
    #[must_use]
    pub fn verbatim(text: impl Into<String>) -> Key {
        Key::made_by(Arc::from(text.into()), Origin::Verbatim)
    }

    /// Returns the name, including the namespace if the key has one.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0.whole
    }

    /// The same, shared.
    pub(crate) fn name(&self) -> &Arc<str> {
        &self.0.whole
    }

    /// What to write instead, if this text looks like a template whose values were never filled in:
    /// only a macro fills one in.
    pub(crate) fn unfilled(&self) -> Option<String> {
        if !matches!(self.origin(), Origin::Text | Origin::Constant) {
            return None;
        }
        dlock_grammar::key::placeholder(self.bare())?;
        let text = quoted(self.bare(), KEY_AT_MOST);
        Some(format!(
            "plain text is not a template, so it would be one lock for all values: write `lock_key!({text})`, or `Key::verbatim({text})` if it \
             is what you mean"
        ))
    }

    pub(crate) fn origin(&self) -> Origin {
        self.0.origin
    }

    /// The same name, marked as that of a constant.
    pub(crate) fn of_constant(mut self) -> Key {
        if matches!(self.origin(), Origin::Text) {
            Arc::make_mut(&mut self.0).origin = Origin::Constant;
        }
        self
    }

    fn made_by(text: Arc<str>, origin: Origin) -> Key {
        Key(Arc::new(Text {
            whole: text,
            namespace: 0,
            origin,
        }))
    }

    /// The name as the user gave it.
    pub(crate) fn bare(&self) -> &str {
        self.parts().bare()
    }

    pub(crate) fn parts(&self) -> KeyParts<'_> {
        KeyParts::new(&self.0.whole, self.0.namespace)
    }

    /// The key on the server, for a pool with this namespace.
    ///
    /// # Errors
    /// For what `dlock_grammar::key` refuses.
    pub(crate) fn in_namespace(mut self, namespace: &str) -> Result<Key, InvalidKey> {
        let bare = self.bare();
        if bare.starts_with(UNPRINTABLE) {
            let why = "the `Display` of one of its values failed, or it begins with a NUL: mend that, or name another value";
            return Err(InvalidKey::new(self, why));
        }
        if let Some(why) = self.unfilled() {
            return Err(InvalidKey::new(self, why));
        }
        let checked = dlock_grammar::key::check(bare)
            .and_then(|()| dlock_grammar::key::check_len(namespace.len() + bare.len()));
        if let Err(why) = checked {
            return Err(InvalidKey::new(self, why));
        }
        let mut whole = shared_text::begin();
        whole.push_str(namespace);
        whole.push_str(bare);
        let whole = shared_text::finish(whole);
        let text = Arc::make_mut(&mut self.0); // usually unshared
        (text.whole, text.namespace) = (whole, namespace.len());
        Ok(self)
    }
}

impl From<String> for Key {
    fn from(text: String) -> Self {
        Key::from(text.as_str())
    }
}

impl From<&str> for Key {
    fn from(text: &str) -> Self {
        Key::made_by(text.into(), Origin::Text)
    }
}

impl From<&String> for Key {
    fn from(text: &String) -> Self {
        Key::from(text.as_str())
    }
}

impl From<&Key> for Key {
    fn from(key: &Key) -> Self {
        key.clone()
    }
}

/// The key as pools and the command `dlock` take it, without the namespace. If no pool accepts it,
/// invisible characters are escaped.
impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.parts().shown())
    }
}

/// With the namespace beside it: keys of two namespaces differ.
impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&quoted(self.bare(), TEXT_AT_MOST))?;
        match self.parts().namespace() {
            "" => Ok(()),
            namespace => write!(f, " in {namespace:?}"),
        }
    }
}

/// A lock's name on the server as its two parts: messages and the log show the key, and the
/// namespace only beside it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct KeyParts<'a> {
    whole: &'a str,
    /// How many bytes of `whole` are the namespace.
    namespace: usize,
}

impl<'a> KeyParts<'a> {
    pub(crate) fn new(whole: &'a str, namespace: usize) -> Self {
        Self { whole, namespace }
    }

    /// The name on the server.
    pub(crate) fn whole(self) -> &'a str {
        self.whole
    }

    pub(crate) fn namespace(self) -> &'a str {
        self.whole.get(..self.namespace).unwrap_or_default()
    }

    pub(crate) fn bare(self) -> &'a str {
        self.whole.get(self.namespace..).unwrap_or_default()
    }

    /// The key in printable form: it may come from a message, which any client may have published.
    pub(crate) fn shown(self) -> Cow<'a, str> {
        shown(self.bare(), TEXT_AT_MOST)
    }
}

/// Builds the key of a template: text as it is, values encoded. Called by code that the attribute
/// writes.
#[derive(Debug)]
#[must_use]
pub struct KeyBuilder {
    template: &'static str,
    text: String,
    /// Set if a `Display` failed: its key would be a guess.
    unprintable: bool,
}

/// The first character of a key whose value could not be printed: no pool accepts it.
const UNPRINTABLE: char = '\0';

impl KeyBuilder {
    pub(crate) fn of(template: &'static str) -> Self {
        Self {
            template,
            text: shared_text::begin(),
            unprintable: false,
        }
    }

    /// Appends template text as it is.
    pub fn text(mut self, text: &str) -> Self {
        self.text.push_str(text);
        self
    }

    /// Appends a value: rendered once by its `Display`, and encoded so that it can't be taken for
    /// text.
    pub fn value<T: Placeholder + ?Sized>(self, value: &T) -> Self {
        self.generic(value)
    }

    /// [`value`](Self::value) for a type parameter: the compiler then proposes the bound that is
    /// missing, `Display`, and no trait of dlock.
    pub fn generic<T: fmt::Display + ?Sized>(mut self, value: &T) -> Self {
        let written = write!(dlock_grammar::key::Encoder(&mut self.text), "{value}");
        self.unprintable |= written.is_err();
        self
    }

    /// The key.
    #[must_use]
    pub fn finish(mut self) -> Key {
        if self.unprintable {
            self.text.insert(0, UNPRINTABLE);
        }
        Key::made_by(
            shared_text::finish(self.text),
            Origin::Template(self.template),
        )
    }
}

/// Types that can stand in a key template: all that have a `Display`.
#[diagnostic::on_unimplemented(
    message = "`{Self}` can't stand in a key: it has no `Display`",
    label = "no text",
    note = "name a field (`<order.id>`) or a method (`<path.display()>`) that has one, implement `Display`, or give its text a name: \
            `key = {{ let part = format!(\"…\"); dlock_runtime::lock_key!(\"item:<part>\") }}`"
)]
pub trait Placeholder: fmt::Display {}

// Without this, the compiler says that `Display` is missing, and not what to write.
#[diagnostic::do_not_recommend]
impl<T: fmt::Display + ?Sized> Placeholder for T {}
