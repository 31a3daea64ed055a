//! The rows of `tests/forms/rows` by the rules of edition 2024, which decide when temporaries are
//! dropped, what a closure captures, and which words are keywords.

#![deny(warnings, missing_docs, unreachable_pub, unused_qualifications)]
#![deny(rust_2018_idioms, rust_2021_compatibility, rust_2024_compatibility)]
#![deny(clippy::pedantic)]

#[path = "../../rows/mod.rs"]
pub mod rows;
