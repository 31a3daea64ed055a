//! What is written: the table and the picture.

use std::time::Duration;

use crate::chart;
use crate::goods::{Buying, Cents, Listing};
use crate::load::Size;
use crate::report::{Report, Tally};

fn report(way: &'static str, size: Size, times: &[u64]) -> Report {
    let tally = Tally::default();
    for _ in times {
        tally.buying(Buying::Bought);
    }
    for refused in [
        Buying::PriceChanged,
        Buying::NotEnoughMoney,
        Buying::NotEnoughMoney,
        Buying::AlreadySold,
    ] {
        tally.buying(refused);
    }
    for listing in [Listing::Listed, Listing::Repriced, Listing::Gone] {
        tally.listing(listing);
    }
    let met: Option<()> = tally.answer(Ok(None)).unwrap();
    assert_eq!(met, None);
    let times = times.iter().map(|&ms| Duration::from_millis(ms)).collect();
    Report::new(way, size, Duration::from_secs(2), 3, &tally, times)
}

#[test]
fn a_row_of_the_table() {
    let row = report("a way", Size::new(5, 1), &[4, 1, 3, 2]).row();
    // Eleven answers in two seconds.
    let expected = "| a way | 5/1 | 1 | 4 | 1 | 2.50 | 4.00 | 5 | 1 | 2 | 1 |";
    assert_eq!(row, expected);
    let columns = |line: &str| line.matches('|').count();
    assert!(
        Report::HEAD
            .lines()
            .all(|line| columns(line) == columns(&row))
    );
}

#[test]
fn without_a_purchase_there_is_no_time() {
    let row = report("a way", Size::new(1, 1), &[]).row();
    assert!(
        row.starts_with("| a way | 1/1 | 1 | 0 | 1 | – | – |"),
        "{row}"
    );
}

/// One in a hundred took longer.
#[test]
fn p99_of_two_hundred() {
    let times: Vec<u64> = (1..=200).collect();
    let report = report("a way", Size::new(1, 1), &times);
    assert_eq!(report.p99, Duration::from_millis(199));
}

#[test]
fn prices_are_whole_cents() {
    let told = [0, 5, 1234, -7].map(|cents| Cents(cents).to_string());
    assert_eq!(told, ["0.00", "0.05", "12.34", "-0.07"]);
}

/// With a name that has to be escaped, and a missing run.
#[test]
fn the_picture_is_xml_and_names_everything() {
    let [small, large] = [Size::new(1, 1), Size::new(5, 5)];
    let reports = [
        report("one <way> & another", small, &[1]),
        report("one <way> & another", large, &[2]),
        report("the other", small, &[123]),
    ];
    let svg = chart::svg(&reports).unwrap();
    let picture = roxmltree::Document::parse(&svg).unwrap();
    assert_eq!(picture.root_element().tag_name().name(), "svg");
    let texts: Vec<&str> = picture
        .descendants()
        .filter(|node| node.tag_name().name() == "text")
        .filter_map(|node| node.text().map(str::trim))
        .collect();
    let said = |what: &str| texts.iter().filter(|text| **text == what).count();
    for what in [
        "one <way> & another",
        "the other",
        "1 sell, 1 buy",
        "5 sell, 5 buy",
    ] {
        assert_eq!(said(what), 6, "{what}: {texts:?}");
    }
    for what in ["requests a second", "bought", "listed", "retries"] {
        assert_eq!(said(what), 1, "{what}: {texts:?}");
    }
    assert_eq!(said("123"), 2, "mean and p99: {texts:?}");
}
