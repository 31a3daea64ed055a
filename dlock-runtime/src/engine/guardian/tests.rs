//! A guardian that was the parent's, in a forked child.

use std::sync::Arc;
use std::time::Duration;

use dlock_harness::until_blocking;

use super::Guardian;
use crate::backend::memory::Memory;
use crate::values::process::Home;

const CAP: Duration = Duration::from_secs(10);

#[test]
fn in_a_forked_child_it_goes_without_a_look_at_the_table() {
    let mut guardian = Guardian::start(Arc::new(Memory::new()), CAP).unwrap();
    let work = Arc::get_mut(&mut guardian.work).unwrap();
    work.table.home = Home::elsewhere();
    let work = guardian.work.clone();
    let locked_for_ever = work.table.lock();
    let goes = std::thread::spawn(move || drop(guardian));
    until_blocking("it is gone", CAP, || goes.is_finished());
    drop(locked_for_ever);
}
