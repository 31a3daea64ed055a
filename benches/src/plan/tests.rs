//! Parsing the command line.

use std::path::PathBuf;
use std::time::Duration;

use super::{Plan, Program, Scale};
use crate::Failure;

fn plan(words: &[&str]) -> Result<Plan, Failure> {
    Plan::parse(words.iter().map(|word| (*word).to_owned()))
}

#[test]
fn without_words_all_of_it() {
    let plan = plan(&[]).unwrap();
    assert_eq!(plan.scale, Scale::Full);
    assert_eq!(plan.programs.len(), Program::ALL.len());
    assert!(plan.pinned);
    assert_eq!(plan.keep.locks, 100_000);
    let six = Duration::from_secs(6);
    assert_eq!((plan.keep.ttl, plan.keep.window), (six, six));
    let files = ["target/benches.md", "target/benches.svg"].map(PathBuf::from);
    assert_eq!(plan.files(), files);
}

#[test]
fn each_word_counts() {
    let plan = plan(&["--quick", "--unpinned", "--out", "a.b/c", "--only", "w1"]).unwrap();
    assert_eq!(plan.scale, Scale::Quick);
    assert!(!plan.pinned);
    assert_eq!(plan.programs, [Program::W1]);
    assert!(plan.chosen);
    assert_eq!(plan.keep.locks, 10_000);
    assert_eq!(plan.each_way, None);
    let far = self::plan(&["--each-way", "0.25"]).unwrap();
    assert_eq!(far.each_way, Some(Duration::from_micros(250)));
    let million = self::plan(&["--locks", "1000000", "--quick"]).unwrap();
    assert_eq!(million.keep.locks, 1_000_000);
    let both = self::plan(&["--only", "growth,w1"]).unwrap();
    assert_eq!(both.programs, [Program::W1, Program::Growth]);
    assert_eq!(plan.files(), ["a.b/c.md", "a.b/c.svg"].map(PathBuf::from));
}

#[test]
fn more_locks_have_a_longer_ttl_unless_it_is_said() {
    let kept = |words: &[&str]| {
        let keep = plan(words).unwrap().keep;
        (keep.ttl.as_secs(), keep.window.as_secs())
    };
    assert_eq!(kept(&["--locks", "1"]), (6, 6));
    assert_eq!(kept(&["--locks", "100001"]), (12, 12));
    assert_eq!(kept(&["--locks", "1000000", "--window", "90"]), (60, 90));
    assert_eq!(kept(&["--locks", "1000000", "--ttl", "30"]), (30, 30));
    assert_eq!(kept(&["--window", "1", "--ttl", "3"]), (3, 1));
}
