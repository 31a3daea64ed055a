//! The rows of `tests/forms/rows` by the rules of edition 2018, which decide when temporaries are
//! dropped, what a closure captures, and which words are keywords.

#![deny(warnings, missing_docs, unreachable_pub, unused_qualifications)]
#![deny(rust_2018_idioms, rust_2021_compatibility, rust_2024_compatibility)]
#![deny(clippy::pedantic)]
#![allow(
    keyword_idents,
    reason = "names that later editions took are the point"
)]

#[path = "../../rows/mod.rs"]
pub mod rows;
