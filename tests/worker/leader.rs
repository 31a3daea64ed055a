//! A candidate that leads until it is told to resign (SIGUSR1), and campaigns again.

use std::ops::ControlFlow;
use std::thread;
use std::time::Duration;

use dlock_harness::now_ns;
use dlock_runtime::{LockHandle, LockPool, Term};
use tokio::signal::unix::{SignalKind, signal};

use crate::settings::Settings;

/// Prints `leads <fence> <ns>` when a term begins, and `leading <fence> <ns>` again and again while it
/// considers itself the leader: it did so at that time.
#[tokio::main(flavor = "current_thread")]
pub(crate) async fn lead(settings: &Settings) {
    let pool = LockPool::connect(settings.config()).await.unwrap();
    let ttl = Duration::from_millis(settings.number("ttl_ms"));
    let mut resigns = signal(SignalKind::user_defined1()).unwrap();
    println!("ready");
    let candidate = pool.leader("leads").ttl(ttl);
    let ended = candidate.run(async |term: &Term| -> ControlFlow<()> {
        println!("leads {} {}", term.fence(), now_ns());
        let lead = dlock_runtime::current().unwrap();
        thread::spawn(move || tell(&lead));
        let _ = resigns.recv().await;
        ControlFlow::Continue(())
    });
    panic!("it leads for ever: {:?}", ended.await);
}

/// In a thread of its own, which nobody stops at the deadline.
fn tell(lead: &LockHandle) {
    loop {
        let now = now_ns(); // before the question
        if !lead.is_held() {
            return;
        }
        println!("leading {} {now}", lead.fence());
        thread::sleep(Duration::from_millis(2));
    }
}
