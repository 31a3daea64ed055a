//! The script and `values::entry` must read every entry alike: otherwise one side would grant what
//! the other still waits behind.

use proptest::collection::vec;
use proptest::strategy::{Strategy, ValueTree};
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};

use super::Lab;
use crate::values::entry::{self, Entry, Letter};

/// ARGV: entries. Returns the fields of each, or `nothing` if it is not one of ours.
const READ: &str = "
    local all = {}
    for i, value in ipairs(ARGV) do
      local e = read_entry(value)
      all[i] = e and table.concat({
        e.letter, e.address, string.format('%.0f %.0f of %.0f', e.lease, e.take, e.letter == 'p' and e.of or 0), e.meta or 'none',
      }, ' ') or 'nothing'
    end
    return all";

/// The same text from the Rust parser.
fn told(text: &str) -> String {
    let Some(entry) = entry::read(text) else {
        return "nothing".to_owned();
    };
    let Entry {
        letter,
        address,
        take,
        of,
        owner,
        ..
    } = entry;
    let (letter, meta) = match letter {
        Letter::Exclusive => ('x', "none".to_owned()),
        Letter::Reader => ('r', "1|#|rw".to_owned()),
        Letter::Writer => ('w', "1|#|rw".to_owned()),
        Letter::Permits => ('p', "1|#|p".to_owned()),
        Letter::Owner => ('o', format!("1|#|o|{owner}")),
    };
    let lease = entry.lease.as_millis();
    format!("{letter} {address} {lease} {take} of {of} {meta}")
}

#[tokio::test]
async fn an_entry_is_read_alike_on_both_sides() {
    let number = r"([0-9]{1,4}|0{0,14}[0-9]{1,3}|4294967295|4294967296|[0-9]{14,17}|[+-]?[0-9]{0,2}|1e2|0x1|٩)";
    let entry = format!(
        r"[12]?\|?[rwpox#]?\|[a-z-]{{0,3}}\|[a-z:]{{0,3}}(\|{number}){{3}}\|[a-z]{{0,2}}(\|[a-z|\n]{{0,3}})?"
    );
    let permits = format!(r"1\|p\|t\|\|30\|{number}\|{number}\|\|h");
    let strategy = vec(
        proptest::prop_oneof![
            proptest::string::string_regex(&entry).unwrap(),
            proptest::string::string_regex(&permits).unwrap(),
            "(1\\|p\\|t\\|\\|30\\|[0-9]{1,2}\\|[0-9]{1,2}\\|\\|h)",
            ".{0,20}",
        ],
        4000,
    );
    let rng = TestRng::deterministic_rng(RngAlgorithm::ChaCha);
    let mut runner = TestRunner::new_with_rng(Config::default(), rng);
    let entries = strategy.new_tree(&mut runner).unwrap().current();
    let script = [include_str!("../../../../rules/lua/value.lua"), READ].concat();
    let lab = Lab::new().await;
    let mut words = vec!["EVAL", &script, "0"];
    words.extend(entries.iter().map(String::as_str));
    let read: Vec<String> = lab.tell(&words).await;
    let mut readable = 0;
    for (entry, read) in entries.iter().zip(&read) {
        assert_eq!(*read, told(entry), "{entry:?}");
        readable += u32::from(read != "nothing");
    }
    assert!((500..3500).contains(&readable), "{readable} can be read");
}
