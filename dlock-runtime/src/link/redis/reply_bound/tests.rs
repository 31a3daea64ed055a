//! Where a reply ends, and which replies are too long.

use std::fmt::Write as _;

use super::*;

fn text(text: &str) -> String {
    format!("${}\r\n{text}\r\n", text.len())
}

/// As the nodes of a cluster say it: each range with its master and two replicas.
fn slot_map(ranges: u32, masters: u32) -> String {
    let mut map = format!("*{ranges}\r\n");
    for range in 0..ranges {
        let first = range * 16_384 / ranges;
        let last = (range + 1) * 16_384 / ranges - 1;
        write!(map, "*5\r\n:{first}\r\n:{last}\r\n").unwrap();
        for nth in 0..3 {
            let node = 3 * (range % masters) + nth;
            let (name, id) = (
                format!("node-{node}.redis.example.com"),
                format!("{node:040}"),
            );
            let (ip, name, id) = (text("10.100.100.100"), text(&name), text(&id));
            let hostname = text("hostname");
            write!(map, "*4\r\n{ip}:6379\r\n{id}*2\r\n{hostname}{name}").unwrap();
        }
    }
    map
}

/// As many entries as a list reads at once, each as long as one may be.
fn members(number: usize) -> String {
    let member = text(&"m".repeat(4096));
    format!("*{number}\r\n") + &format!("*2\r\n{member},1732743464123456\r\n").repeat(number)
}

/// One reply each.
fn whole() -> Vec<String> {
    let mut all: Vec<String> = [
        "+OK\r\n",
        "+\r\n",
        "+one\rtwo\nthree\r\n",
        "-ERR no\r\n",
        ":1\r\n",
        ":-1\r\n",
        "$-1\r\n",
        "$0\r\n\r\n",
        "$4\r\n\r\n\r\n\r\n",
        "$4\r\n:1\r\n\r\n",
        "*-1\r\n",
        "*0\r\n",
        "*2\r\n*0\r\n:1\r\n",
        "*2\r\n*2\r\n:1\r\n$1\r\na\r\n_\r\n",
        "%0\r\n",
        "%2\r\n+a\r\n:1\r\n+b\r\n*1\r\n,1.5\r\n",
        "~1\r\n#t\r\n",
        "|1\r\n+ttl\r\n:5\r\n+OK\r\n",
        ">3\r\n+message\r\n$1\r\nc\r\n$1\r\nm\r\n",
        "=7\r\ntxt:abc\r\n",
        "!6\r\nERR no\r\n",
        "(12345678901234567890\r\n",
        "_\r\n",
    ]
    .map(str::to_owned)
    .into();
    all.extend([slot_map(3, 3), members(2)]);
    all
}

/// What weighs the last reply, in pieces of so many bytes; and whether it is whole.
fn read(bytes: &[u8], piece: usize, is_for_all: bool) -> (usize, bool) {
    let mut reply = Reply::default();
    let pieces = bytes.chunks(piece);
    let weight = pieces.map(|it| reply.weight_with(it, is_for_all)).last();
    let is_whole = reply.to_come == 0 && matches!(reply.at, ReplyPlace::Value);
    (weight.unwrap(), is_whole)
}

#[test]
fn a_reply_ends_where_the_library_says_in_whatever_pieces_it_comes() {
    let last = 5 + A_VALUE;
    for reply in whole() {
        redis::parse_redis_value(reply.as_bytes()).unwrap();
        let (before, _) = reply.split_at(reply.len() - 1);
        let two = reply.clone() + "+OK\r\n";
        for piece in [1, 2, 3, 4, 7, two.len()] {
            assert!(!read(before.as_bytes(), piece, false).1, "{reply:?}");
            assert!(read(reply.as_bytes(), piece, false).1, "{reply:?}");
            assert_eq!(
                read(two.as_bytes(), piece, false),
                (last, true),
                "{reply:?}"
            );
            let (for_all, _) = read(two.as_bytes(), piece, true);
            assert!(for_all >= last + reply.len(), "{reply:?}");
        }
    }
}

#[test]
fn what_can_not_be_read_has_no_end() {
    for strange in [
        "HTTP/1.1 400 Bad Request\r\n\r\n",
        "\r\n",
        "$1x\r\na\r\n",
        "$+1\r\na\r\n",
        "$99999999999999999999\r\n",
        "%-1\r\n",
        "|-1\r\n",
        "!-1\r\n",
        "*--1\r\n",
    ] {
        let bytes = strange.to_owned() + &"+OK\r\n".repeat(100);
        for piece in [1, 3, bytes.len()] {
            let (weight, is_whole) = read(bytes.as_bytes(), piece, false);
            assert!(!is_whole && weight > 500, "{strange:?}");
        }
    }
}

/// The largest that an honest server gives fits, and ten times as much does not.
#[test]
fn the_largest_replies_are_within_their_bounds() {
    let modules = "%4\r\n+name\r\n+m\r\n+ver\r\n:1\r\n+path\r\n+/usr/lib/m.so\r\n+args\r\n*0\r\n";
    let hello = format!("%1\r\n+modules\r\n*20\r\n{}", modules.repeat(20));
    let info = text(&"redis_build_id:0123456789abcdef\r\n".repeat(200));
    let busy = text(&"v".repeat(4096));
    let batch = format!(
        "*65\r\n:0\r\n{}",
        format!("*4\r\n:3\r\n:1\r\n:1\r\n{busy}").repeat(64)
    );
    for (asked, largest) in [
        (Question::Handshake, hello),
        (Question::Handshake, info),
        (Question::AboutLocks, batch),
        (Question::AboutLocks, members(250)),
        (Question::WhoServesWhat, slot_map(16_384, 1000)),
        (Question::Sentinel, text("10.100.100.100").repeat(1000)),
    ] {
        let most = asked.row().most;
        let (weight, _) = read(largest.as_bytes(), 8192, true);
        assert!(weight <= most, "{asked:?}: {weight} of {most}");
        let (weight, _) = read(largest.repeat(60).as_bytes(), 8192, true);
        assert!(weight > most, "{asked:?}: {weight} of {most}");
    }
}
