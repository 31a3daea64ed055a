//! Frames in pieces of every size, and what they are.

use super::{Kind, Splitter, is_subscription, words};

/// The frames are the same, whatever the pieces.
fn check(splitter: fn() -> Splitter, frames: &[&str]) {
    let stream = frames.concat().into_bytes();
    let expected: Vec<Vec<u8>> = frames
        .iter()
        .map(|frame| frame.as_bytes().to_vec())
        .collect();
    for first in 0..=stream.len() {
        for second in first..=stream.len() {
            let pieces = [&stream[..first], &stream[first..second], &stream[second..]];
            assert_eq!(split(splitter(), &pieces), expected, "{first} {second}");
        }
    }
    let bytes: Vec<&[u8]> = stream.chunks(1).collect();
    assert_eq!(split(splitter(), &bytes), expected, "byte by byte");
}

fn split(mut splitter: Splitter, pieces: &[&[u8]]) -> Vec<Vec<u8>> {
    let mut frames = Vec::new();
    for piece in pieces {
        splitter.push(piece);
        frames.extend(std::iter::from_fn(|| splitter.next_frame()));
    }
    assert!(splitter.take_rest().is_empty(), "bytes left over");
    frames
}

#[test]
fn pipelined_requests() {
    check(
        Splitter::requests,
        &[
            "*1\r\n$4\r\nPING\r\n",
            "*3\r\n$3\r\nSET\r\n$4\r\na\r\nb\r\n$0\r\n\r\n",
            "PING inline\r\n",
            "\r\n",
            "*0\r\n",
            "*2\r\n$3\r\nGET\r\n$3\r\n*1\r\r\n",
        ],
    );
}

#[test]
fn replies_of_resp2() {
    check(
        Splitter::replies,
        &[
            "+OK\r\n",
            "-ERR no $5\r\n",
            ":-12\r\n",
            "$-1\r\n",
            "*-1\r\n",
            "$0\r\n\r\n",
            "$4\r\n\r\n+O\r\n",
            "*0\r\n",
            "*3\r\n*2\r\n:1\r\n$-1\r\n*0\r\n+last\r\n",
        ],
    );
}

#[test]
fn replies_of_resp3() {
    check(
        Splitter::replies,
        &[
            "_\r\n",
            "#t\r\n",
            ",-1.5e3\r\n",
            "(12345678901234567890\r\n",
            "=7\r\ntxt:a\r\n\r\n",
            "!5\r\nERR x\r\n",
            "~2\r\n:1\r\n:2\r\n",
            "%2\r\n+a\r\n*1\r\n:1\r\n+b\r\n%0\r\n",
            "|1\r\n+ttl\r\n:5\r\n$2\r\nhi\r\n",
            ">3\r\n$7\r\nmessage\r\n$1\r\nc\r\n$1\r\nm\r\n",
            "*2\r\n|1\r\n+k\r\n+v\r\n:1\r\n:2\r\n",
        ],
    );
}

#[test]
fn what_is_not_resp_passes_as_it_comes() {
    for garbage in ["hello", "$x\r\n", "*-2\r\n", "$99999999999\r\n", "$?\r\n"] {
        let mut splitter = Splitter::replies();
        splitter.push(b"+OK\r\n");
        splitter.push(garbage.as_bytes());
        assert_eq!(splitter.next_frame(), Some(b"+OK\r\n".to_vec()));
        assert_eq!(splitter.next_frame(), Some(garbage.as_bytes().to_vec()));
        assert_eq!(splitter.next_frame(), None);
        splitter.push(b"+");
        assert_eq!(splitter.next_frame(), Some(b"+".to_vec()), "{garbage}");
    }
}

#[test]
fn an_incomplete_frame_waits() {
    let mut splitter = Splitter::requests();
    splitter.push(b"*2\r\n$3\r\nGET\r\n$1\r\nk\r");
    assert_eq!(splitter.next_frame(), None);
    assert_eq!(splitter.take_rest(), b"*2\r\n$3\r\nGET\r\n$1\r\nk\r");
}

#[test]
fn words_of_frames() {
    let check = |frame: &str, expected: &[&str]| {
        let expected: Vec<&[u8]> = expected.iter().map(|word| word.as_bytes()).collect();
        assert_eq!(words(frame.as_bytes()), expected, "{frame:?}");
    };
    check("*2\r\n$3\r\nGET\r\n$4\r\na\r\nb\r\n", &["GET", "a\r\nb"]);
    check("PING  hello\r\n", &["PING", "hello"]);
    check(">2\r\n$7\r\nmessage\r\n:1\r\n", &["message"]);
    check("*2\r\n:1\r\n$1\r\na\r\n", &[]);
    check("*-1\r\n", &[]);
    check("*1\r\n$-1\r\n", &[]);
    check("*", &[]);
    check("", &[]);
}

#[test]
fn kinds_of_frames() {
    let check = |frame: &[u8], kind| assert_eq!(Kind::of(frame), kind, "{frame:?}");
    check(b">2\r\n+invalidate\r\n_\r\n", Kind::Message);
    check(b">2\r\n$7\r\nmessage\r\n$1\r\nm\r\n", Kind::Message);
    check(
        b"*3\r\n$7\r\nmessage\r\n$1\r\nc\r\n$1\r\nm\r\n",
        Kind::Message,
    );
    check(
        b"*3\r\n$9\r\nsubscribe\r\n$1\r\nc\r\n:1\r\n",
        Kind::Confirmation,
    );
    check(
        b">3\r\n$12\r\npunsubscribe\r\n$1\r\nc\r\n:0\r\n",
        Kind::Confirmation,
    );
    check(b"*1\r\n$5\r\nhello\r\n", Kind::Reply);
    check(b"$7\r\nmessage\r\n", Kind::Reply);
    check(b"-ERR message\r\n", Kind::Reply);
    assert!(is_subscription(b"*2\r\n$9\r\nSubscribe\r\n$1\r\nc\r\n"));
    assert!(!is_subscription(b"*2\r\n$7\r\nPUBLISH\r\n$1\r\nc\r\n"));
}
