//! The nouns, by what is promised of each.

mod address;
mod class;
mod entry;
mod environment;
mod error;
mod holder;
mod key;
mod lease;
mod shown;
