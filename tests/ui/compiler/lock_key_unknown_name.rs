//! A placeholder that is no variable.

use dlock_runtime::lock_key;

fn main() {
    let _key = lock_key!("item:<idd>");
}
