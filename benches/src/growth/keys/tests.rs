//! The values that stand for other locks.

use super::another;

#[test]
fn another_value_has_another_token_and_is_the_same_else() {
    let value = "1|x|00ff-1|a-host|77|shop::buy|1700000000000";
    let other = "1|x|00ff-42|a-host|77|shop::buy|1700000000000";
    assert_eq!(another(value, 42).as_deref(), Some(other));
    assert_eq!(another("a value", 42), None);
    assert_eq!(another("1|x|00ff|a-host", 42), None);
}
