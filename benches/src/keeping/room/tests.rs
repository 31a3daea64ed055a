//! Reading the available memory, and refusing too many locks.

use super::{A_LOCK, available, fits};

#[test]
fn what_is_available_stands_in_one_line() {
    let told =
        "MemTotal:       24689764 kB\nMemFree:          123456 kB\nMemAvailable:    2048 kB\n";
    assert_eq!(available(told), Some(2048 * 1024));
    assert_eq!(available("MemTotal: 1 kB\n"), None);
    assert_eq!(available(""), None);
}

#[test]
fn too_many_are_refused_with_how_many_would_do() {
    assert!(fits(1000, 1000 * A_LOCK).is_ok());
    let told = fits(1_000_000, 1000 * A_LOCK).unwrap_err().to_string();
    let expected =
        "1000000 locks may take 3907 MB of memory, and 3 MB are available: at most --locks 1000";
    assert!(told.ends_with(expected), "{told}");
}
