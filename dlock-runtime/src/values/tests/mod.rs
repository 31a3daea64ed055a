//! The values, by what is promised for each.

mod address;
mod class;
mod entry;
mod environment;
mod error;
mod holder;
mod key;
mod lease;
mod pattern;
mod report;
mod shared_text;
mod shown;
