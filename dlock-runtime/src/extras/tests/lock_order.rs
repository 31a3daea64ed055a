//! Inversions: each one is found when it becomes possible, once, and nothing else counts as one.

use std::collections::BTreeSet;
use std::panic::Location;

use proptest::collection::vec;
use proptest::prelude::ProptestConfig;
use proptest::test_runner::RngSeed;
use proptest::{prop_assert, prop_assert_eq, proptest};

use crate::extras::lock_order::{Inversion, LockOrders, Nesting};
use crate::values::class::{LockSite, Site};
use crate::values::key::{Key, KeyBuilder};

/// A class, by its template, and a key of it.
type Lock<'a> = (&'static str, &'a str);

fn nesting(held: Lock<'_>, wanted: Lock<'_>) -> Nesting {
    let key = |(class, key): Lock<'_>| KeyBuilder::of(class).text(class).text(key).finish();
    let lock_site =
        |key: &Key, function| LockSite::new(key, Site::of_function(function, Location::caller()));
    let keys = [held, wanted].map(key);
    Nesting {
        held: lock_site(&keys[0], "held"),
        wanted: lock_site(&keys[1], "wanted"),
        keys,
    }
}

/// As [`nesting`], with any keys: `"ab"` requests a lock of class `b` while one of class `a` is
/// held.
fn one_in_another(pair: &'static str) -> Nesting {
    let (held, wanted) = pair.split_at(1);
    nesting((held, held), (wanted, wanted))
}

/// The steps of an inversion, each as a pair of classes: first the one here, then the path back.
fn steps(inversion: &Inversion) -> Vec<String> {
    let all = [&inversion.here].into_iter().chain(&inversion.before);
    all.map(|step| {
        let text = step.to_string();
        let classes = text.split('`').skip(1).step_by(2);
        classes.collect()
    })
    .collect()
}

fn told(orders: &mut LockOrders, pair: &'static str) -> Option<Vec<String>> {
    orders.note(&one_in_another(pair)).as_ref().map(steps)
}

/// Records the pairs before the last one, which report nothing; returns the report for the last.
fn at_last(pairs: &'static str) -> Option<Vec<String>> {
    let mut orders = LockOrders::default();
    let pairs: Vec<_> = pairs.split(' ').collect();
    let (last, before) = pairs.split_last().unwrap();
    for pair in before {
        assert_eq!(told(&mut orders, pair), None, "{pair} of {pairs:?}");
    }
    told(&mut orders, last)
}

#[test]
fn what_is_told_is_the_step_here_and_the_shortest_way_back() {
    for (pairs, way) in [
        ("ab", None),
        ("ab ab", None),
        ("ab ac bc", None),
        ("ab cd ad cb", None),
        ("ab ba", Some("ba ab")),
        ("ab bc ca", Some("ca ab bc")),
        ("ab bc cd da", Some("da ab bc cd")),
        ("ab bc cd ac da", Some("da ac cd")),
        ("ab xb bx", Some("bx xb")),
        ("ax ab bc xc ca", Some("ca ax xc")),
    ] {
        let way = way.map(|way| way.split(' ').map(str::to_owned).collect());
        assert_eq!(at_last(pairs), way, "{pairs}");
    }
}

#[test]
fn each_pair_is_told_once() {
    let mut orders = LockOrders::default();
    for (pair, is_told) in [
        ("ab", false),
        ("ba", true),
        ("ab", false),
        ("ba", false),
        ("bc", false),
        ("ca", true),
        ("ac", false), // reported above, when a longer path led back
        ("cb", true),
    ] {
        assert_eq!(told(&mut orders, pair).is_some(), is_told, "{pair}");
    }
}

#[test]
fn both_orders_are_named_with_their_sites() {
    let mut orders = LockOrders::default();
    assert!(orders.note(&one_in_another("ab")).is_none());
    let inversion = orders.note(&one_in_another("ba")).unwrap().to_string();
    let file = file!();
    let mut rest = inversion.as_str();
    for part in [
        "`b` (held, ",
        file,
        ") then `a` (wanted, ",
        file,
        ") here, but elsewhere `a` (held, ",
        file,
        ") then `b` (wanted, ",
        file,
        ")",
    ] {
        let at = rest.find(part);
        rest = &rest[at.unwrap_or_else(|| panic!("{part}: {inversion}")) + part.len()..];
    }
    assert_eq!(rest, "");
}

#[test]
fn what_is_refused_is_not_noted_and_so_refused_again() {
    let mut orders = LockOrders::default();
    let mut ask = |pairs: &[&'static str]| {
        let nestings: Vec<_> = pairs.iter().map(|pair| one_in_another(pair)).collect();
        orders.note_unless_inverted(&nestings).as_ref().map(steps)
    };
    assert_eq!(ask(&["ab"]), None);
    let way = Some(vec!["ba".to_owned(), "ab".to_owned()]);
    // All or none: `c → a`, which comes first, is not recorded either.
    assert_eq!(ask(&["ca", "ba"]), way);
    assert_eq!(ask(&["ba"]), way);
    assert_eq!(ask(&["ac"]), None);
    assert_eq!(ask(&["ab", "cb"]), None);
}

/// Whether the last of these pairs of keys is reported as an inversion of their class, and the
/// others are not.
fn at_last_within(pairs: &[(&str, &str)]) -> bool {
    let mut orders = LockOrders::default();
    let mut note = |(held, wanted): (&str, &str)| {
        let nesting = nesting(("item:<id>", held), ("item:<id>", wanted));
        orders.note(&nesting)
    };
    let (last, before) = pairs.split_last().unwrap();
    for pair in before {
        assert!(note(*pair).is_none(), "{pair:?} of {pairs:?}");
    }
    let inversion = note(*last);
    if let Some(inversion) = &inversion {
        assert!(note(*last).is_none(), "once");
        let said = inversion.to_string();
        assert!(
            said.ends_with(" with their keys in the other order"),
            "{said}"
        );
    }
    inversion.is_some()
}

#[test]
fn a_class_in_itself_is_an_inversion_when_its_keys_come_in_both_orders() {
    for (pairs, is_told) in [
        (&[("1", "2"), ("1", "3"), ("2", "3")][..], false),
        (&[("3", "2"), ("2", "1")], false),
        (&[("1", "2"), ("2", "1")], true),
        (&[("1", "2"), ("4", "3")], true),
        // Sorted by number, sorted by text, and sorted by neither.
        (&[("9", "10"), ("1", "2"), ("10", "11")], false),
        (&[("10", "9"), ("1", "2"), ("a", "b")], false),
        (&[("9", "10"), ("1", "2"), ("10", "9")], true),
        (&[("9", "10"), ("10", "9")], true),
        (
            &[
                ("1", "2"),
                ("9", "10"),
                ("10", "11"),
                ("2", "12"),
                ("12", "3"),
            ],
            true,
        ),
        (&[("x:2:a", "x:10:a"), ("x:2:a", "x:3:a")], false),
        (&[("07", "8"), ("7", "08"), ("6", "07")], false),
        (&[("3fa", "9aa"), ("12b", "3fa")], false),
        // One key has no order.
        (&[("1", "1"), ("1", "2"), ("1", "1")], false),
    ] {
        assert_eq!(at_last_within(pairs), is_told, "{pairs:?}");
    }
}

#[test]
fn a_class_in_itself_by_way_of_another_is_an_inversion_of_the_two() {
    let mut orders = LockOrders::default();
    assert!(orders.note(&nesting(("a", "1"), ("b", "1"))).is_none());
    let way = orders.note(&nesting(("b", "1"), ("a", "2"))).unwrap();
    assert_eq!(steps(&way), ["ba", "ab"]);
    assert!(orders.note(&nesting(("a", "1"), ("a", "2"))).is_none());
}

/// One function may take all locks of a program, in any order.
#[test]
fn keys_of_a_site_are_in_no_order() {
    let site = Site::by_hand(Location::caller());
    let mut orders = LockOrders::default();
    for keys in [["a", "b"], ["b", "a"]] {
        let keys = keys.map(Key::from);
        let [held, wanted] = keys.each_ref().map(|key| LockSite::new(key, site));
        let nesting = Nesting { held, wanted, keys };
        assert!(orders.note(&nesting).is_none());
        assert!(orders.note_unless_inverted(&[nesting]).is_none());
    }
}

const CLASSES: [&str; 5] = ["a", "b", "c", "d", "e"];

type Edges = BTreeSet<(usize, usize)>;

/// By trial: whether a path of any length leads from one to the other.
fn reaches(edges: &Edges, from: usize, to: usize) -> bool {
    let mut reached = BTreeSet::from([from]);
    for _ in CLASSES {
        let next = edges.iter().filter(|(a, _)| reached.contains(a));
        reached.extend(next.map(|(_, b)| *b).collect::<Vec<_>>());
    }
    reached.contains(&to)
}

fn between(a: usize, b: usize) -> Nesting {
    nesting((CLASSES[a], "1"), (CLASSES[b], "2"))
}

/// Whether it begins with `pair`, and leads back over existing edges.
fn is_round(steps: &[String], pair: (usize, usize), edges: &Edges) -> bool {
    let number = |name: char| CLASSES.iter().position(|it| it.starts_with(name)).unwrap();
    let steps: Vec<_> = steps
        .iter()
        .map(|step| {
            let mut names = step.chars().map(number);
            (names.next().unwrap(), names.next().unwrap())
        })
        .collect();
    let turned = steps[1..].iter().chain(&steps[..1]);
    let joined = steps.iter().zip(turned).all(|(one, next)| one.1 == next.0);
    joined && steps[0] == pair && steps[1..].iter().all(|step| edges.contains(step))
}

proptest! {
    #![proptest_config(ProptestConfig { rng_seed: RngSeed::Fixed(7), failure_persistence: None, cases: 1000, ..ProptestConfig::default() })]

    /// Exactly the pairs that close an existing path are reported, each the first time.
    #[test]
    fn told_is_what_closes_a_round(pairs in vec((0..CLASSES.len(), 0..CLASSES.len()), 0..30)) {
        let (mut orders, mut edges, mut before) = (LockOrders::default(), Edges::new(), Edges::new());
        let mut any_told = false;
        for (a, b) in pairs.into_iter().filter(|(a, b)| a != b) {
            let is_new = !edges.contains(&(a, b)) && !before.contains(&(a.min(b), a.max(b)));
            let expected = is_new && reaches(&edges, b, a);
            let inversion = orders.note(&between(a, b));
            prop_assert_eq!(inversion.is_some(), expected, "{:?} {:?}", (a, b), edges);
            if let Some(inversion) = inversion {
                prop_assert!(is_round(&steps(&inversion), (a, b), &edges), "{}", inversion);
                before.insert((a.min(b), a.max(b)));
                any_told = true;
            }
            edges.insert((a, b));
        }
        let has_round = edges.iter().any(|(a, b)| reaches(&edges, *b, *a));
        prop_assert_eq!(any_told, has_round);
    }

    /// Accepted nestings never form a cycle; a refused one would have.
    #[test]
    fn refused_is_what_would_close_a_round(asks in vec((vec(0..CLASSES.len(), 1..4), 0..CLASSES.len()), 0..30)) {
        let (mut orders, mut edges) = (LockOrders::default(), Edges::new());
        for (held, wanted) in asks {
            let held: Vec<_> = held.into_iter().filter(|held| *held != wanted).collect();
            let nestings: Vec<_> = held.iter().map(|held| between(*held, wanted)).collect();
            let expected = held.iter().any(|held| reaches(&edges, wanted, *held));
            prop_assert_eq!(orders.note_unless_inverted(&nestings).is_some(), expected);
            if !expected {
                edges.extend(held.into_iter().map(|held| (held, wanted)));
            }
            prop_assert!(edges.iter().all(|(a, b)| !reaches(&edges, *b, *a)));
        }
    }

    /// As long as the keys of a class keep their numeric order, or that of their texts, nothing is
    /// reported.
    #[test]
    fn who_sorts_is_not_told(numbers in vec((0_u32..2000, 0_u32..2000), 0..20), by_text: bool) {
        let mut orders = LockOrders::default();
        for (a, b) in numbers {
            let mut keys = [a.to_string(), b.to_string()];
            if by_text { keys.sort() } else { keys.sort_by_key(|key| key.parse::<u32>().ok()) }
            let [a, b] = &keys;
            prop_assert!(orders.note(&nesting(("item:<id>", a), ("item:<id>", b))).is_none(), "{:?}", keys);
        }
    }
}
