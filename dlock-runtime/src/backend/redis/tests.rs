//! The Lua scripts on real, private servers: `alike` against the pure machine, `scripts` each by itself, `refusals` when the
//! server does not want to.

mod alike;
mod lab;
mod refusals;
mod scripts;
mod server_clock;
