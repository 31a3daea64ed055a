//! Each verb and each action against a real server, byte by byte.

mod actions;
mod cuts;
mod messages;
mod verbs;
mod wire;
