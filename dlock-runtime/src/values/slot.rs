//! The hash slot of a key in a Redis Cluster: one script can touch only keys of one slot.

/// The part of a key that a cluster hashes instead of the whole key: the text between the first `{`
/// and the next `}`, unless it is empty.
pub(crate) fn hash_tag(key: &str) -> Option<&str> {
    let (_, rest) = key.split_once('{')?;
    let (tag, _) = rest.split_once('}')?;
    (!tag.is_empty()).then_some(tag)
}

/// One of 16,384 slots: CRC16 (XMODEM), as in the cluster specification.
pub(crate) fn slot(key: &str) -> u16 {
    let hashed = hash_tag(key).unwrap_or(key);
    let crc = hashed.bytes().fold(0_u16, |crc, byte| {
        (0..8).fold(crc ^ (u16::from(byte) << 8), |crc, _| {
            (crc << 1) ^ if crc & 0x8000 == 0 { 0 } else { 0x1021 }
        })
    });
    crc % 16_384
}
