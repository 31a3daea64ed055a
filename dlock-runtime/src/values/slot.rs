//! The hash slot of a key in a Redis Cluster: one script can touch only keys of one slot.

use std::sync::LazyLock;

/// How many slots there are.
pub(crate) const SLOTS: u16 = 16_384;

/// The part of a key that a cluster hashes instead of the whole key: the text between the first `{`
/// and the next `}`, unless it is empty.
pub(crate) fn hash_tag(key: &str) -> Option<&str> {
    // Usually there is none. Without a branch per byte, so that the compiler vectorizes it: names are
    // too short for what a search of a slice or by `split_once` begins with.
    if !key
        .bytes()
        .fold(false, |any, byte| any | matches!(byte, b'{'))
    {
        return None;
    }
    let (_, rest) = key.split_once('{')?;
    let (tag, _) = rest.split_once('}')?;
    (!tag.is_empty()).then_some(tag)
}

/// The slot of a key: CRC16 (XMODEM), as in the cluster specification.
pub(crate) fn slot(key: &str) -> u16 {
    crc16(hash_tag(key).unwrap_or(key)) % SLOTS
}

/// CRC16 (XMODEM) of a text.
pub(crate) fn crc16(text: &str) -> u16 {
    text.bytes().fold(0_u16, |crc, byte| {
        (0..8).fold(crc ^ (u16::from(byte) << 8), |crc, _| {
            (crc << 1) ^ if crc & 0x8000 == 0 { 0 } else { 0x1021 }
        })
    })
}

/// A hash tag of this slot: the smallest number whose decimal digits hash to it.
pub(crate) fn tag(slot: u16) -> u32 {
    TAGS.get(usize::from(slot)).copied().unwrap_or_default()
}

static TAGS: LazyLock<Vec<u32>> = LazyLock::new(|| {
    let mut tags = vec![None; SLOTS.into()];
    let mut open = tags.len();
    let mut number = 0;
    while open > 0 {
        let of = &mut tags[usize::from(slot(&number.to_string()))];
        if of.is_none() {
            *of = Some(number);
            open -= 1;
        }
        number += 1;
    }
    tags.into_iter().flatten().collect()
});
