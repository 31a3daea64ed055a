//! A placeholder that is not closed.

use dlock_runtime::lock_key;

fn main() {
    let id = 7;
    let _key = lock_key!("item:<id");

    // Mended.
    let mended = lock_key!("item:<id>");
    drop((id, mended));
}
