//! The buffer in which keys and entries are written: nothing of one text stands in the next.

use crate::values::shared_text::{begin, finish};

#[test]
fn a_buffer_is_used_again_and_begins_empty() {
    let mut text = begin();
    text.push_str("a long first text");
    let room = text.capacity();
    assert_eq!(&*finish(text), "a long first text");
    let mut text = begin();
    assert_eq!((text.as_str(), text.capacity()), ("", room));
    text.push_str("second");
    assert_eq!(&*finish(text), "second");
}

/// A value's `Display` may build a key of its own while another is being built.
#[test]
fn one_text_may_be_written_inside_another() {
    let mut outer = begin();
    outer.push_str("outer ");
    let mut inner = begin();
    inner.push_str("inner");
    let inner = finish(inner);
    outer.push_str(&inner);
    assert_eq!((&*finish(outer), &*inner), ("outer inner", "inner"));
}

#[test]
fn the_buffer_of_a_very_long_text_is_given_back() {
    let mut text = begin();
    text.push_str(&"k".repeat(1_000_000));
    let _ = finish(text);
    assert!(begin().capacity() <= 4096);
}
