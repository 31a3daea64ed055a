//! The macro as a function of tokens: what it writes, what it refuses and where, and that nothing makes it panic.

mod diagnostics;
mod expansion;
mod properties;
mod template;
