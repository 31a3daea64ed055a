//! The machines, each by itself: tables for what is promised at a boundary, random sequences for what always holds.

mod explore;
mod lease;
mod retry;
mod server;
mod token_life;
mod token_storm;
