//! What is read from the command line, what is counted, and what is written: the table and the
//! picture.

use std::time::Duration;

use dlock_runtime::{LockError, LockPool, Wait};

use crate::arguments::{Kind, Plan};
use crate::chart;
use crate::error::MarketError;
use crate::goods::{Buying, Cents, Listing};
use crate::load::Size;
use crate::report::{Report, Tally};

fn plan(words: &[&str]) -> Result<Plan, String> {
    let words = words.iter().map(|word| (*word).to_owned());
    Plan::parse(words).map_err(|error| error.to_string())
}

#[test]
fn no_arguments_are_all_ways() {
    let plan = plan(&[]).unwrap();
    assert_eq!(plan.length, Duration::from_secs(3));
    assert_eq!(plan.ways, Kind::ALL);
    assert_eq!(plan.svg, None);
}

#[test]
fn arguments_in_any_order() {
    let words = ["--svg", "a.svg", "--way", "item", "--seconds", "60"];
    let plan = plan(&words).unwrap();
    assert_eq!(plan.length, Duration::from_secs(60));
    assert_eq!(plan.ways, [Kind::Item]);
    assert_eq!(plan.svg, Some("a.svg".into()));
}

#[test]
fn wrong_arguments_say_what_is_wrong() {
    let check = |words: &[&str], expected: &str| {
        let error = plan(words).unwrap_err();
        let usage = "; arguments: [--seconds 1-60] [--way watch|market|item] [--svg FILE]; --help explains them";
        assert_eq!(error, format!("{expected}{usage}"), "{words:?}");
    };
    let seconds = |word| format!("--seconds {word}: not a whole number, 1 to 60");
    for word in ["0", "61", "-1", "1.5", "3s", ""] {
        check(&["--seconds", word], &seconds(word));
    }
    check(&["--seconds"], "--seconds needs a value");
    check(&["--svg"], "--svg needs a value");
    check(&["--way", "none"], "--way none: not one of the ways");
    check(&["--fast"], "`--fast` is no argument");
    check(&["3"], "`3` is no argument");
}

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

/// A lock that was busy for the whole `wait` is no error, for it may be free now; a pool that is
/// shut down is one.
#[tokio::test]
async fn a_busy_lock_is_a_retry() {
    let pool = LockPool::connect("memory://").await.unwrap();
    let held = pool.lock("market").acquire().await.unwrap();
    let again = pool.lock("market").wait(Wait::Once).acquire().await;
    let tally = Tally::default();
    let busy = tally.answer::<()>(Err(again.unwrap_err().into()));
    assert_eq!(busy.unwrap(), None);
    drop(held);
    pool.shutdown().await;
    let shut = pool.lock("market").acquire().await.unwrap_err();
    let error = tally.answer::<()>(Err(shut.into())).unwrap_err();
    assert!(
        matches!(error, MarketError::Lock(LockError::ShutDown)),
        "{error:?}"
    );
    let report = Report::new("", Size::new(1, 1), Duration::ZERO, 0, &tally, Vec::new());
    assert_eq!(report.retries, 1);
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
