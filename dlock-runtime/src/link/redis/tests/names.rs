//! Tests of the names of a lock's companions: in the lock's slot, and in the pool's namespace.

use std::collections::hash_map::Entry::{Occupied, Vacant};
use std::collections::{HashMap, HashSet};

use dlock_harness::RedisServer;

use crate::link::redis::names::Names;
use crate::values::config::Config;
use crate::values::key::Key;
use crate::values::slot::{SLOTS, hash_tag, slot, tag};

#[tokio::test]
async fn the_slot_is_the_one_that_a_cluster_computes() {
    let server = RedisServer::builder()
        .args(["--cluster-enabled", "yes"])
        .start();
    for key in [
        "foo",
        "123456789",
        "",
        "a{foo}b",
        "{}a",
        "a{}{b}",
        "a{{b}}c",
        "a}b{c}",
        "a{b",
        "a{b}{c}",
        "größe{é}",
        "lock:item:7",
    ] {
        let expected: u16 = server.ask(&["CLUSTER", "KEYSLOT", key]).await;
        assert_eq!(slot(key), expected, "{key}");
    }
}

#[test]
fn a_queue_is_in_the_slot_of_its_lock() {
    let names = Names::new("shop:", false);
    for (lock, waiting, alive) in [
        (
            "shop:item:7",
            "shop:@w:{shop:item:7}",
            "shop:@a:{shop:item:7}",
        ),
        (
            "shop:{u:1}:cart",
            "shop:@w#{u:1}:cart",
            "shop:@a#{u:1}:cart",
        ),
        ("shop:cart:{1}", "shop:@w#cart:{1}", "shop:@a#cart:{1}"),
    ] {
        let keys = names.of(lock);
        assert_eq!(keys.queue.text(), waiting);
        assert_eq!(keys.heartbeats.text(), alive);
        assert_eq!(keys.counter, "shop:@fence");
        assert_eq!(slot(waiting), slot(lock), "{lock}");
        assert_eq!(slot(alive), slot(lock), "{lock}");
    }
}

/// And no other name is taken for a record's.
#[test]
fn a_record_is_in_the_slot_of_its_lock_and_names_it() {
    let names = Names::new("shop:", false);
    for (lock, record) in [
        ("shop:item:7", "shop:@r:{shop:item:7}"),
        ("shop:{u:1}:cart", "shop:@r#{u:1}:cart"),
    ] {
        assert_eq!(names.of(lock).record(), record);
        assert_eq!(slot(record), slot(lock), "{lock}");
        assert_eq!(names.of_record(record).as_deref(), Some(lock));
        assert!(record.starts_with(&names.records()));
    }
    for other in [
        "shop:item:7",
        "shop:@w:{shop:item:7}",
        "shop:@r:{shop:item:7",
        "shop:@r:{shop:{u:1}}",
        "shop:@r#item:7",
        "else:@r:{shop:item:7}",
    ] {
        assert_eq!(names.of_record(other), None, "{other}");
    }
}

#[test]
fn a_counter_per_slot_is_in_the_slot_of_its_locks() {
    let names = Names::new("shop:", true);
    let counters: HashSet<String> = (0..SLOTS)
        .map(|number| {
            let lock = format!("shop:{{{}}}:cart", tag(number));
            let counter = names.of(&lock).counter.into_owned();
            assert_eq!((slot(&counter), slot(&lock)), (number, number));
            counter
        })
        .collect();
    assert_eq!(counters.len(), usize::from(SLOTS));
    // A constant of the protocol: all clients must agree.
    assert_eq!(names.of("shop:item:7").counter, "shop:@fence:{45923}");
    assert_eq!(tag(slot("12")), 12);
    assert!((0..SLOTS).all(|it| tag(it) <= 999_999), "names.rs: room");
}

#[test]
fn in_a_cluster_a_key_that_never_exists_is_beside_the_counter() {
    let names = Names::of_cluster("shop:");
    let counter = names.of("shop:item:7").counter;
    let absent = names.absent(&counter).unwrap();
    assert_eq!(absent, "shop:@fence:{45923}-");
    assert_eq!(slot(&absent), slot("shop:item:7"));
    let lock = Key::from("@fence:{45923}-").in_namespace("shop:");
    assert!(lock.is_err(), "no lock has this name");
    assert_eq!(Names::new("shop:", true).absent(&counter), None);
}

/// A node of a quorum has the first 1,024 of the counters by slot, for locks with and without a hash
/// tag alike.
#[test]
fn a_node_has_some_of_the_counters_by_slot_and_spreads_its_locks_over_them() {
    let names = Names::of_node("shop:");
    let by_slot = Names::new("shop:", true);
    let counter = |slot| {
        let lock = format!("shop:{{{}}}:cart", tag(slot));
        by_slot.of(&lock).counter.into_owned()
    };
    let expected: HashSet<String> = (0..1024).map(counter).collect();
    for lock in ["shop:item:", "shop:{u:1}:"] {
        let mut drawn_from: HashMap<String, u32> = HashMap::new();
        for number in 0..20_000 {
            let lock = format!("{lock}{number}");
            let counter = names.of(&lock).counter.into_owned();
            *drawn_from.entry(counter).or_default() += 1;
        }
        assert!(drawn_from.keys().all(|it| expected.contains(it)));
        assert_eq!(drawn_from.len(), 1024, "{lock}");
        assert!(drawn_from.values().all(|it| *it < 60), "{lock}");
    }
    // A constant of the protocol: all clients must agree.
    assert_eq!(names.of("shop:item:7").counter, "shop:@fence:{41310}");
    assert_eq!(names.script_groups(), 1, "one script may touch all of them");
    assert_eq!(
        names.of("shop:item:7").hints.text(),
        "shop:@h:{shop:item:7}"
    );
    assert_eq!(
        names.of("shop:{u:1}:cart").hints.text(),
        "shop:@h#{u:1}:cart"
    );
}

#[test]
fn the_queues_of_many_locks_are_named_as_each_by_itself() {
    for namespace in ["shop:", ""] {
        let names = Names::new(namespace, false);
        let mut queues = names.queues();
        for name in ["item:7", "{u:1}:cart", "{u:1}", "i", "{}item", "item:7"] {
            let lock = format!("{namespace}{name}");
            assert_eq!(queues.of(&lock), names.of(&lock).queue.text());
        }
    }
}

#[test]
fn a_namespace_may_be_empty() {
    let names = Names::new("", false);
    assert_eq!(names.of("k").queue.text(), "@w:{k}");
    assert_eq!(names.of("{k}").heartbeats.text(), "@a#{k}");
}

#[test]
fn a_channel_is_in_the_namespace() {
    let channel = Names::new("shop:", false).channel(0xAB);
    assert_eq!(channel, format!("shop:@grant:{:016x}", 0xAB));
}

/// Every text of up to `most` of these pieces: the parts of names, and texts that could be mistaken
/// for them.
fn texts(most: u32) -> Vec<String> {
    let pieces = [
        "a", "{", "}", "@", ":", "#", "w", "a}", "{a", "@w:{", "@a#", "@h:{", "@r:{", "@r#", "@s#",
        "@fence", "@quorum", ":{a}",
    ];
    let mut texts = vec![String::new()];
    for _ in 0..most {
        let longer = texts
            .iter()
            .flat_map(|it| pieces.map(|piece| format!("{it}{piece}")));
        let longer: Vec<_> = longer.collect();
        texts.extend(longer);
        texts.sort_unstable();
        texts.dedup();
    }
    texts
}

/// What a name stands for.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Role {
    Lock,
    Waiting(String),
    Alive(String),
    Hints(String),
    Record(String),
    Quorum,
    Counter,
    /// A counter per slot; those of all hash tags are reserved.
    SlotCounter(String),
    /// Reserved for a later version: a hash with the counters of the named slots of one lock.
    Slots(String),
}

/// Over all pools and keys of a small alphabet: two things share a name only if they are the same
/// lock, in two namespaces one of which is a prefix of the other. And all names of a lock are in
/// one slot.
#[test]
fn a_name_belongs_to_one_thing_of_one_namespace() {
    let is_namespace = |it: &String| {
        Config::new("memory://")
            .namespace(it.as_str())
            .check()
            .is_ok()
    };
    let namespaces: Vec<_> = texts(2).into_iter().filter(is_namespace).collect();
    let keys = texts(4);
    let mut owners: HashMap<String, (&str, Role)> = HashMap::new();
    let (mut shared, mut tagged) = (0, 0);
    for namespace in &namespaces {
        let names = Names::new(namespace, false);
        let mut own = HashSet::from([
            (format!("{namespace}@fence"), Role::Counter),
            (names.quorum(), Role::Quorum),
        ]);
        for key in &keys {
            let Ok(lock) = Key::from(key.as_str()).in_namespace(namespace) else {
                continue;
            };
            let lock = lock.as_str();
            let of = names.of(lock);
            let (waiting, alive) = (of.queue.text(), of.heartbeats.text());
            assert_eq!(
                (slot(&waiting), slot(&alive)),
                (slot(lock), slot(lock)),
                "{lock}"
            );
            let tag = hash_tag(lock).unwrap_or(lock);
            let counter = (
                format!("{namespace}@fence:{{{tag}}}"),
                Role::SlotCounter(tag.to_owned()),
            );
            tagged += usize::from(tag != lock);
            let slots = waiting.replacen("@w", "@s", 1);
            assert_eq!(slot(&slots), slot(lock), "{lock}");
            own.extend([
                (lock.to_owned(), Role::Lock),
                (waiting, Role::Waiting(lock.to_owned())),
                (alive, Role::Alive(lock.to_owned())),
                counter,
                (of.hints.text(), Role::Hints(lock.to_owned())),
                (of.record(), Role::Record(lock.to_owned())),
                (slots, Role::Slots(lock.to_owned())),
            ]);
        }
        for (name, role) in own {
            match owners.entry(name) {
                Vacant(entry) => drop(entry.insert((namespace, role))),
                Occupied(entry) => {
                    let (other, its) = entry.get();
                    let nested =
                        namespace.starts_with(other) || other.starts_with(namespace.as_str());
                    let is_shared =
                        nested && namespace != other && (&role, its) == (&Role::Lock, &Role::Lock);
                    assert!(
                        is_shared,
                        "{:?}: {role:?} in {namespace:?}, {its:?} in {other:?}",
                        entry.key()
                    );
                    shared += 1;
                }
            }
        }
    }
    assert!(namespaces.len() > 10 && shared > 1000 && tagged > 1000);
}
