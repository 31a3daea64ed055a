//! Text that many refer to: written in a buffer of its thread that is used again, and allocated
//! once.

use std::cell::Cell;
use std::sync::Arc;

/// A longer buffer is not kept: keys and entries are shorter.
const KEPT_AT_MOST: usize = 4096;

thread_local! {
    static BUFFER: Cell<String> = const { Cell::new(String::new()) };
}

/// An empty buffer to write to.
pub(crate) fn begin() -> String {
    let mut buffer = BUFFER.try_with(Cell::take).unwrap_or_default(); // empty while a thread ends
    buffer.clear();
    buffer
}

/// What was written; the buffer is used again.
pub(crate) fn finish(buffer: String) -> Arc<str> {
    let text = Arc::from(&*buffer);
    if buffer.capacity() <= KEPT_AT_MOST {
        let _ = BUFFER.try_with(|it| it.set(buffer));
    }
    text
}
