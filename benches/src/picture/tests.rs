//! The panels of a picture.

use super::svg;
use crate::chapter::{Chapter, Panel, Series};

fn chapter(title: &str) -> Chapter {
    let bars = |name: &str, bars: &[Option<f64>]| Series {
        name: name.to_owned(),
        bars: bars.to_vec(),
    };
    Chapter {
        title: title.to_owned(),
        notes: Vec::new(),
        head: Vec::new(),
        rows: Vec::new(),
        panels: vec![Panel {
            title: format!("{title}, drawn"),
            groups: vec!["16 tasks".to_owned(), "64 tasks".to_owned()],
            series: vec![
                bars("raw", &[Some(1.0), Some(1.0)]),
                bars("ours", &[Some(0.777), None]),
            ],
        }],
    }
}

#[test]
fn each_panel_is_in_the_picture() {
    let svg = svg(&[chapter("W7"), chapter("W8"), chapter("W9")]).unwrap();
    let read = roxmltree::Document::parse(&svg).unwrap();
    let texts: Vec<_> = read.descendants().filter_map(|node| node.text()).collect();
    for told in [
        "W7, drawn",
        "W8, drawn",
        "W9, drawn",
        "64 tasks",
        "raw",
        "ours",
        "0.78",
    ] {
        assert!(
            texts.iter().any(|text| text.trim() == told),
            "{told}: {texts:?}"
        );
    }
}

#[test]
fn no_panel_is_no_picture_but_no_error() {
    assert!(svg(&[]).unwrap().contains("<svg"));
}
