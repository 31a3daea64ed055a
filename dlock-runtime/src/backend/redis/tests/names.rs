//! The names beside a lock's own: in its slot, and in the pool's namespace.

use crate::backend::redis::names::Names;

/// As the cluster specification defines it: CRC16 (XMODEM) of the hash tag, or of the whole key.
fn slot(key: &str) -> u16 {
    let tag = key
        .split_once('{')
        .and_then(|(_, rest)| rest.split_once('}'))
        .map_or(key, |(tag, _)| if tag.is_empty() { key } else { tag });
    let crc = tag.bytes().fold(0u16, |crc, byte| {
        (0..8).fold(crc ^ (u16::from(byte) << 8), |crc, _| {
            (crc << 1) ^ if crc & 0x8000 == 0 { 0 } else { 0x1021 }
        })
    });
    crc % 16384
}

#[test]
fn the_slot_is_computed_as_the_specification_says() {
    assert_eq!(slot("123456789"), 0x31C3); // its own example
    assert_eq!(slot("foo"), 12182); // CLUSTER KEYSLOT foo
    assert_eq!(slot("a{foo}b"), 12182);
}

#[test]
fn a_queue_is_in_the_slot_of_its_lock() {
    let names = Names::new("shop:");
    for (lock, waiting, alive) in [
        (
            "shop:item:7",
            "shop:@w:{shop:item:7}",
            "shop:@a:{shop:item:7}",
        ),
        (
            "shop:{u:1}:cart",
            "shop:@w:{u:1}:cart",
            "shop:@a:{u:1}:cart",
        ),
        ("shop:cart:{1}", "shop:@w:cart:{1}", "shop:@a:cart:{1}"),
    ] {
        let keys = names.of(lock);
        assert_eq!((&*keys.waiting, &*keys.alive), (waiting, alive));
        assert_eq!(keys.counter, "shop:@fence");
        assert_eq!(slot(waiting), slot(lock), "{lock}");
        assert_eq!(slot(alive), slot(lock), "{lock}");
    }
}

#[test]
fn a_namespace_may_be_empty() {
    let names = Names::new("");
    assert_eq!(names.of("k").waiting, "@w:{k}");
    assert_eq!(names.of("{k}").alive, "@a:{k}");
}

#[test]
fn a_channel_is_in_the_namespace() {
    let channel = Names::new("shop:").channel(0xAB);
    assert_eq!(channel, format!("shop:@grant:{:032x}", 0xAB));
}
