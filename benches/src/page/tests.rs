//! The Markdown of a page.

use super::{Setting, write};
use crate::chapter::{Chapter, NONE, number, spread};
use crate::pins::Pins;
use crate::plan::Scale;
use crate::statistics::Quartiles;

#[test]
fn a_chapter_is_a_heading_a_table_and_its_notes() {
    let setting = Setting {
        scale: Scale::Quick,
        cores: 2,
        pins: Pins::new(false).unwrap(),
        load: "0.5".to_owned(),
        server: "7.0.15".to_owned(),
    };
    let chapter = Chapter {
        title: "W0: nothing".to_owned(),
        notes: vec!["None.".to_owned()],
        head: vec!["contender", "time / raw"],
        rows: vec![vec!["raw".to_owned(), "1.00".to_owned()]],
        panels: Vec::new(),
    };
    let page = write(&setting, &[chapter]);
    let table =
        "\n## W0: nothing\n\n| contender | time / raw |\n| --- | --- |\n| raw | 1.00 |\n\nNone.\n";
    assert!(page.ends_with(table), "{page}");
    assert!(
        page.contains("7.0.15, 2 cores (nobody pinned), load 0.5"),
        "{page}"
    );
    assert!(page.contains("quick"), "{page}");
}

#[test]
fn cells() {
    let of = Quartiles::of(vec![1.0, 2.0, 3.0]);
    assert_eq!(spread(of, 2), "2.00 [1.50–2.50]");
    assert_eq!(number(Some(2.345), 1), "2.3");
    assert_eq!(
        (spread(None, 2), number(None, 1)),
        (NONE.to_owned(), NONE.to_owned())
    );
}
