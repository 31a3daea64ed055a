//! Makes Eve's messages: a genuine one with a field changed, one composed from what Eve saw, or
//! random bytes.

use dlock_tests::Seeded;

use crate::eve::{Message, Seen};

/// Numbers at limits that a check might miss.
const NUMBERS: [&str; 16] = [
    "0",
    "1",
    "2999",
    "3000",
    "3001",
    "30000",
    "9007199254740990",
    "9007199254740992",
    "9223372036854775807",
    "9223372036854775808",
    "18446744073709551615",
    "18446744073709551616",
    "-1",
    "1e300",
    "0x7fffffffffffffff",
    "",
];

/// A message and its channel.
pub(crate) fn message(seeded: &mut Seeded, seen: &Seen) -> Message {
    let (channel, payload) = match seeded.between(0, 6) {
        5 => hint(seeded, seen),
        0 if !seen.messages.is_empty() => pick(seeded, &seen.messages).clone(),
        1 if !seen.messages.is_empty() => {
            let (channel, payload) = pick(seeded, &seen.messages).clone();
            let changed = changed(seeded, seen, &String::from_utf8_lossy(&payload));
            (channel, changed.into_bytes())
        }
        _ => {
            let (channel, message) = composed(seeded, seen);
            (channel, message.into_bytes())
        }
    };
    let another = (seeded.between(0, 8) == 0).then(|| nth(seeded, seen.channels.iter()));
    let channel = another.flatten().cloned().unwrap_or(channel);
    let payload = match seeded.between(0, 10) {
        0 => broken(seeded, payload),
        _ => payload,
    };
    (channel, payload)
}

/// A message as a script would publish it (docs/inside/protocol.md), about an existing lock and
/// waiter; any line may be changed.
fn composed(seeded: &mut Seeded, seen: &Seen) -> (String, String) {
    // Mostly the latest: present waiters and holders.
    let latest = if seeded.between(0, 3) == 0 { 400 } else { 20 };
    let from = seen.sights.len().saturating_sub(latest);
    let sights = seen.sights.get(from..).unwrap_or_default();
    if sights.is_empty() {
        return (String::new(), String::new());
    }
    let sight = pick(seeded, sights);
    let mut lines = [
        "1|granted".to_owned(),
        sight.key.clone(),
        sight.value.clone(),
        (seen.counter + 1).to_string(),
        seen.counter.to_string(),
        "3000".to_owned(),
        mac(seeded, seen),
    ];
    for (at, it) in lines.iter_mut().enumerate() {
        if seeded.between(0, 5) == 0 {
            *it = line(seeded, seen, at, it);
        }
    }
    let channel = match &*sight.channel {
        "" => nth(seeded, seen.channels.iter())
            .cloned()
            .unwrap_or_default(),
        channel => channel.to_owned(),
    };
    (channel, lines.join("\n"))
}

/// What a node publishes when a lock is free, to anybody.
pub(crate) fn hint(seeded: &mut Seeded, seen: &Seen) -> Message {
    let channel = nth(seeded, seen.channels.iter()).cloned();
    let hint = format!("1|freed\n{}", key(seeded, seen));
    (channel.unwrap_or_default(), hint.into_bytes())
}

/// Changes one line, or adds one.
fn changed(seeded: &mut Seeded, seen: &Seen, message: &str) -> String {
    let mut lines: Vec<String> = message.split('\n').map(str::to_owned).collect();
    let at = usize::try_from(seeded.between(0, lines.len() as u64 + 1)).unwrap();
    let before = lines.get(at).cloned().unwrap_or_default();
    let line = line(seeded, seen, at, &before);
    match lines.get_mut(at) {
        Some(it) => *it = line,
        None => lines.push(line),
    }
    lines.join("\n")
}

/// Another text for this line.
fn line(seeded: &mut Seeded, seen: &Seen, at: usize, before: &str) -> String {
    match at {
        0 => word(seeded),
        1 => key(seeded, seen),
        2 if seeded.between(0, 3) == 0 && !seen.sights.is_empty() => {
            pick(seeded, &seen.sights).value.clone()
        }
        2 => with_another_token(seeded, before),
        3 | 4 => number(seeded, seen),
        5 => lease(seeded),
        _ => mac(seeded, seen),
    }
}

/// Bytes that no script publishes.
fn broken(seeded: &mut Seeded, mut payload: Vec<u8>) -> Vec<u8> {
    let at = usize::try_from(seeded.between(0, 400)).unwrap() % (payload.len() + 1);
    match seeded.between(0, 40) {
        0..10 => payload.truncate(at),
        10..20 => payload.insert(at, 0xFF),
        20..30 => payload.insert(at, b'\n'),
        30..37 => payload.extend(b"\n1".repeat(1000)),
        37 => payload.resize(1 << 20, b'7'),
        38 => payload = vec![b'\n'; 100_000],
        _ => payload.clear(),
    }
    payload
}

/// The first line; mostly the genuine one, because messages with another are not examined further.
fn word(seeded: &mut Seeded) -> String {
    let words = [
        "1|granted",
        "1|granted",
        "1|freed",
        "1|evicted",
        "1|wanted",
        "2|granted",
        "1|",
        "",
    ];
    pick(seeded, &words).to_string()
}

fn key(seeded: &mut Seeded, seen: &Seen) -> String {
    let known = nth(seeded, seen.keys.iter()).cloned();
    match seeded.between(0, 8) {
        0 => "lock:nobody's".to_owned(),
        1 => "lock:@fence".to_owned(),
        _ => known.unwrap_or_else(|| "lock:x0".to_owned()),
    }
}

/// Changes the number in the token: a past one, a future one, another pool's, none.
fn with_another_token(seeded: &mut Seeded, value: &str) -> String {
    let mut fields: Vec<String> = value.split('|').map(str::to_owned).collect();
    let Some(token) = fields.get_mut(2) else {
        return value.to_owned();
    };
    let mut parts: Vec<String> = token.split('-').map(str::to_owned).collect();
    if parts.len() > 2 && seeded.between(0, 4) == 0 {
        parts[1] = format!("{:x}", seeded.between(0, 4));
    }
    if let Some(number) = parts.last_mut() {
        let sequence = u64::from_str_radix(number, 16).unwrap_or(1);
        let away = seeded.between(1, 60);
        *number = match seeded.between(0, 8) {
            0..3 => format!("{:x}", sequence.wrapping_add(away)),
            3 => format!("{:x}", sequence.saturating_sub(away)),
            4 => format!("{:x}", u64::MAX - away),
            5 => format!("{sequence:0>24x}"),
            6 => format!("+{sequence:x}"),
            _ => String::new(),
        };
    }
    *token = parts.join("-");
    fields.join("|")
}

/// A time, or an epoch, which is close to one.
fn number(seeded: &mut Seeded, seen: &Seen) -> String {
    let near = seeded.between(0, 4_000_000);
    match seeded.between(0, 4) {
        0 => pick(seeded, &NUMBERS).to_string(),
        1 => (seen.counter + near).to_string(),
        2 => seen.counter.saturating_sub(near).to_string(),
        _ => (seen.counter + 1).to_string(),
    }
}

fn lease(seeded: &mut Seeded) -> String {
    let plausible = seeded.between(1, 3001).to_string();
    if seeded.between(0, 2) == 0 {
        return plausible;
    }
    pick(seeded, &NUMBERS).to_string()
}

/// A MAC that was really published with another message; or a guess.
fn mac(seeded: &mut Seeded, seen: &Seen) -> String {
    let said = nth(seeded, seen.messages.iter());
    let said = said.and_then(|(_, payload)| {
        let text = std::str::from_utf8(payload).ok()?;
        Some(text.split('\n').next_back()?.to_owned())
    });
    match said {
        Some(mac) if seeded.between(0, 2) == 0 => mac,
        _ if seeded.between(0, 3) == 0 => String::new(),
        _ => format!("{:040x}", seeded.between(0, u64::MAX)),
    }
}

pub(crate) fn pick<'a, T>(seeded: &mut Seeded, all: &'a [T]) -> &'a T {
    &all[usize::try_from(seeded.between(0, all.len() as u64)).unwrap()]
}

fn nth<'a, T>(seeded: &mut Seeded, mut all: impl ExactSizeIterator<Item = &'a T>) -> Option<&'a T> {
    if all.len() == 0 {
        return None;
    }
    let at = seeded.between(0, all.len() as u64);
    all.nth(usize::try_from(at).unwrap())
}
