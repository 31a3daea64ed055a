//! What an operator asks about locks: `list` and `show` look, `evict` acts, `top` goes on looking,
//! and `describe` turns a report into text and JSON.
//!
//! Invariant: a holder is named by its fingerprint; neither a token nor a value is printed.

mod describe;
mod list;
mod show;
mod top;

pub(crate) use self::list::list;
pub(crate) use self::show::{evict, show};
pub(crate) use self::top::top;
