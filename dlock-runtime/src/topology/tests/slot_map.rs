//! Tests of what is believed about who serves which slot.

use proptest::prelude::*;

use crate::topology::cluster::slot_map::{Listed, SlotMap};
use crate::values::config::Host;
use crate::values::slot::SLOTS;

fn host(port: u16) -> Host {
    let name = "node".to_owned();
    Host { name, port }
}

fn listed(first: u16, last: u16, port: u16) -> Listed {
    Listed {
        slots: first..=last,
        node: host(port),
    }
}

/// 1 has the lower half, 2 the upper one but for the last slot.
fn map() -> SlotMap {
    let mut map = SlotMap::default();
    let halves = vec![listed(8192, SLOTS - 2, 2), listed(0, 8191, 1)];
    let asked = map.asking();
    map.learn(vec![halves], asked);
    map
}

fn port(map: &SlotMap, slot: u16) -> Option<u16> {
    map.node(slot).map(|node| node.port)
}

#[test]
fn a_slot_is_served_by_whom_the_list_names() {
    let map = map();
    let ports = [0, 8191, 8192, SLOTS - 2, SLOTS - 1].map(|slot| port(&map, slot));
    assert_eq!(ports, [Some(1), Some(1), Some(2), Some(2), None]);
    assert_eq!(map.nodes().len(), 2);
    assert_eq!(map.slot_of(&host(2)), Some(8192));
    assert_eq!(map.slot_of(&host(3)), None);
    assert_eq!(map.number(0), map.number(8191));
    assert_ne!(map.number(0), map.number(8192));
    assert_eq!(SlotMap::default().node(0), None);
}

#[test]
fn a_redirect_counts_until_a_list_that_was_asked_for_later() {
    let mut map = map();
    let before = map.asking();
    map.moved(7, host(3));
    assert_eq!((port(&map, 7), port(&map, 8)), (Some(3), Some(1)));
    assert_eq!(map.slot_of(&host(3)), Some(7));
    assert_ne!(map.number(7), map.number(8));
    map.learn(vec![vec![listed(0, 100, 1)]], before);
    assert_eq!((port(&map, 7), port(&map, 8)), (Some(3), Some(1)));
    let after = map.asking();
    assert!(map.learn(vec![vec![listed(0, 100, 1)]], after));
    assert!(
        !map.learn(vec![vec![listed(0, 100, 1)]], after),
        "nothing new"
    );
    assert_eq!(port(&map, 7), Some(1));
    assert!(!map.nodes().contains(&host(3)));
}

#[test]
fn what_one_list_leaves_out_is_looked_up_in_the_next() {
    let mut map = SlotMap::default();
    let lists = vec![
        vec![listed(10, 20, 1), listed(40, 50, 1)],
        vec![listed(0, 15, 2), listed(16, 60, 2)],
        vec![listed(0, 100, 3)],
    ];
    let asked = map.asking();
    map.learn(lists, asked);
    let ports = [0, 9, 10, 20, 21, 39, 40, 50, 51, 60, 61, 100, 101].map(|it| port(&map, it));
    let expected = [2, 2, 1, 1, 2, 2, 1, 1, 2, 2, 3, 3];
    assert_eq!(ports[..12], expected.map(Some));
    assert_eq!(ports[12], None);
}

#[test]
fn strange_lists_and_redirects_are_left_out() {
    let mut map = map();
    map.moved(SLOTS, host(3));
    assert!(!map.nodes().contains(&host(3)));
    let asked = map.asking();
    let strange = vec![
        listed(0, 10, 1),
        listed(5, 20, 2), // overlaps
        listed(30, 21, 3),
        listed(40, SLOTS, 4),
    ];
    map.learn(vec![strange], asked);
    let ports = [0, 10, 15, 25, 50].map(|slot| port(&map, slot));
    assert_eq!(ports, [Some(1), Some(1), None, None, None]);
}

proptest! {
    /// However it is told, it names one node for a slot, and one number for one node.
    #[test]
    fn numbers_are_nodes(told in prop::collection::vec((0..SLOTS, 0..SLOTS, 1_u16..5), 0..20), slots: [u16; 8]) {
        let mut map = SlotMap::default();
        let list = told.iter().map(|(one, other, port)| listed(*one.min(other), *one.max(other), *port));
        let asked = map.asking();
        map.learn(vec![list.collect()], asked);
        for (slot, _, port) in &told {
            map.moved(*slot, host(*port));
        }
        for one in slots.map(|it| it % SLOTS) {
            for other in slots.map(|it| it % SLOTS) {
                if map.number(one) == map.number(other) {
                    prop_assert_eq!(map.node(one), map.node(other));
                }
            }
        }
    }
}
