//! What a skipped function returns.

use super::Skipped;

#[test]
fn a_skipped_function_returns_nothing() {
    <() as Skipped>::skipped();
    assert_eq!(<Option<u8> as Skipped>::skipped(), None);
    assert_eq!(<Result<(), u8> as Skipped>::skipped(), Ok(()));
    assert_eq!(<Result<Option<u8>, u8> as Skipped>::skipped(), Ok(None));
}
