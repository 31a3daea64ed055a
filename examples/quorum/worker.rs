//! One of the processes: increments the counter under the lock, so many times. The counter is in the
//! process that started it, and is asked through this one's input and output.

use std::io::{BufRead as _, Write as _};

use dlock_runtime::{Fence, LockError, distributed_lock};

use crate::Failure;
use crate::resource::Answer;

pub(crate) const FLAG: &str = "--worker";

pub(crate) async fn work(url: &str, increments: u32) -> Result<(), Failure> {
    dlock_runtime::init(crate::config(url)).await?;
    let mut done = 0;
    while done < increments {
        match increment().await {
            Ok(true) => done += 1,
            // Refused: another process has the lock by now. Nothing was changed.
            Ok(false) => {}
            Err(error) => match error.downcast_ref::<LockError>() {
                Some(LockError::Lost { .. }) => eprintln!("{error}; once more"),
                _ => return Err(error),
            },
        }
    }
    dlock_runtime::shutdown().await;
    Ok(())
}

/// Reads, and writes one more. Both show the fence: a resource that saw it only at the write could
/// let somebody read in between. Returns whether the write was accepted.
#[distributed_lock(key = "counter", wait = "20s", guard = lock)]
async fn increment() -> Result<bool, Failure> {
    let Answer::Value(value) = ask(lock.fence(), "read")? else {
        return Ok(false);
    };
    tokio::time::sleep(std::time::Duration::from_millis(2)).await; // what takes time in real life
    let written = ask(lock.fence(), &format!("write {}", value + 1))?;
    Ok(written != Answer::Refused)
}

/// A question to the counter.
fn ask(fence: Fence, question: &str) -> Result<Answer, Failure> {
    let mut output = std::io::stdout().lock();
    writeln!(output, "{} {question}", fence.get())?;
    output.flush()?;
    let mut line = String::new();
    std::io::stdin().lock().read_line(&mut line)?;
    line.trim().parse()
}
