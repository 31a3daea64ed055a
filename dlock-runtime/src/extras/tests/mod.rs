//! The pure parts: tables for what is promised at a boundary, random sequences for what always holds.

mod database_check;
mod lock_order;
mod server_check;
mod writes;
