//! The log of all shops of this process.
//!
//! All tests share one subscriber, which is set before the first of them logs: with one for each
//! thread, tracing sometimes loses a line, because it caches for all threads whether there is a
//! subscriber.

use std::io;
use std::sync::{Mutex, Once};

static LOG: Mutex<Vec<u8>> = Mutex::new(Vec::new());

pub(crate) fn listen() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| tracing_subscriber::fmt().with_writer(|| Log).init());
}

pub(crate) fn lines_with(part: &str) -> Vec<String> {
    let log = LOG.lock().unwrap();
    let text = String::from_utf8_lossy(&log);
    let lines = text.lines().filter(|line| line.contains(part));
    lines.map(str::to_owned).collect()
}

struct Log;

impl io::Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        LOG.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
