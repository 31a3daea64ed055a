//! The macro as a function of tokens: its output, its errors with their positions, and that it
//! never panics.

mod diagnostics;
mod expansion;
mod properties;
mod template;
