//! A picture without panels.

use super::svg;

#[test]
fn no_panel_is_no_picture_but_no_error() {
    assert!(svg(&[]).unwrap().contains("<svg"));
}
