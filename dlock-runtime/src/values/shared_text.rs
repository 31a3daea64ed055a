//! The text of a key or an entry, which many refer to: written in a buffer of the thread, which the
//! next text uses again, and copied once into an allocation of its size.

use std::cell::Cell;
use std::sync::Arc;

/// A longer buffer is not kept: keys and entries are shorter.
const KEPT_AT_MOST: usize = 4096;

thread_local! {
    static BUFFER: Cell<String> = const { Cell::new(String::new()) };
}

/// An empty buffer to write to: a new one while another text is being written.
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
