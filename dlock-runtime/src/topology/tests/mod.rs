//! The pure parts: who serves which slot, and what a majority says.

mod slot_map;
mod votes;
