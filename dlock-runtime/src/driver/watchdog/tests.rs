//! A parent's watchdog in a forked child.

use std::sync::Arc;
use std::time::Duration;

use dlock_harness::until_blocking;

use super::Watchdog;
use crate::client::ClientRules;
use crate::driver::shared::{DriverHost, SharedClient};
use crate::link::Backend as _;
use crate::link::memory::Memory;
use crate::values::process::Home;
use crate::values::token::TokenSource;

const CAP: Duration = Duration::from_secs(10);

#[test]
fn in_a_forked_child_it_goes_without_a_look_at_the_table() {
    let memory = Arc::new(Memory::new());
    let host = DriverHost::new(memory.clock(), Arc::new(TokenSource::new().unwrap()));
    let mut shared = SharedClient::new(host, ClientRules::of_test(CAP, CAP), 0);
    shared.home = Home::elsewhere();
    let watchdog = Watchdog::start(Arc::new(shared), memory, Arc::default()).unwrap();
    let leases = watchdog.leases.clone();
    let locked_for_ever = leases.shared.lock();
    let goes = std::thread::spawn(move || drop(watchdog));
    until_blocking("it is gone", CAP, || goes.is_finished());
    drop(locked_for_ever);
}
