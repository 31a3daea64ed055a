//! The rules that both the attribute checks when compiling and the runtime checks when running: one
//! function each, so that the two cannot disagree.
//!
//! Pure and without dependencies: text and numbers in, a value or an error out. Every error says
//! what to write instead.
//!
//! * [`duration`]: the notation `1m30s`
//! * [`bounds`]: how long a lease may be, how often it may be renewed
//! * [`hold`]: how long a lock may be held, and how long it must be
//! * [`kind`]: which words about the kind of a lock go together; the limits for permits, keys and
//!   owners
//! * [`key`]: what a key may look like, and how a value is encoded into one
//! * [`spelling`]: the name that was probably meant
//! * [`visible`]: which characters a reader can see

pub mod bounds;
pub mod duration;
pub mod hold;
pub mod key;
pub mod kind;
pub mod spelling;
pub mod visible;
