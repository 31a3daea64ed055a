//! Arguments: every kind of pattern, attributes on them, raw and unused names, trait objects, many
//! arguments, zero-sized and large ones.

use std::fmt::Display;

use dlock_runtime::{LockError, distributed_lock};

use crate::{held, on_memory};

struct Order {
    user: User,
    lines: Vec<u8>,
}

struct User {
    id: u32,
    name: &'static str,
}

struct Id(u32);

struct Line<'a>(Id, (&'a str, [u8; 3]));

#[distributed_lock(key = "<id>:<called>:<lines.len()>:<line>:<text>:<last>")]
async fn nested(
    Order {
        user: User { id, name: called },
        lines,
    }: Order,
    Line(Id(line), (text, [_, .., last])): Line<'_>,
) -> Result<(String, Vec<u8>), LockError> {
    assert_eq!((id, called, line, text, last), (1, "ann", 2, "x", 9));
    Ok((held(), lines))
}

/// Each pattern binds in another way: by reference, whole and in part, behind a reference, and not
/// at all.
#[allow(clippy::toplevel_ref_arg, reason = "a `ref` argument is the point")]
#[distributed_lock(key = "<shared>:<changed.len()>:<whole.0>:<part>:<copied>")]
async fn bindings(
    ref shared: String,
    ref mut changed: Vec<u8>,
    whole @ Copied(part): Copied,
    &Id(copied): &Id,
    (.., _last, _): (u8, u8, u8),
    [first, rest @ ..]: [u8; 3],
    _: String,
) -> Result<(String, usize), LockError> {
    changed.push(first);
    changed.extend(rest);
    assert_eq!((shared.as_str(), whole.0, part, copied), ("s", 5, 5, 6));
    Ok((held(), changed.len()))
}

#[derive(Clone, Copy)]
struct Copied(u32);

#[tokio::test]
async fn patterns_of_every_sort() {
    on_memory(async {
        let user = User { id: 1, name: "ann" };
        let order = Order {
            user,
            lines: vec![7],
        };
        let line = Line(Id(2), ("x", [8, 8, 9]));
        let (key, lines) = nested(order, line).await.unwrap();
        assert_eq!((key.as_str(), lines), ("1:ann:1:2:x:9", vec![7]));
        let (key, length) = bindings(
            "s".to_owned(),
            vec![0],
            Copied(5),
            &Id(6),
            (0, 0, 0),
            [1, 2, 3],
            String::new(),
        )
        .await
        .unwrap();
        assert_eq!((key.as_str(), length), ("s:1:5:5:6", 4));
    })
    .await;
}

/// The `allow` stays on its argument, and the key uses that `id` of the two which is compiled.
#[distributed_lock(key = "attributes:<id>")]
async fn with_attributes(
    #[allow(unused_variables, reason = "without this the test would not compile")] unused: u8,
    #[cfg(test)] id: &str,
    #[cfg(not(test))] id: Missing,
    #[allow(unused_mut, reason = "without this the test would not compile")] mut kept: u8,
) -> Result<(String, u8), LockError> {
    assert_eq!(id, "test");
    Ok((held(), kept))
}

/// An argument that only the key uses counts as used.
#[distributed_lock(key = "unused:<id>:<name>")]
async fn unused_by_the_body(id: u8, name: &str, _rest: u8) -> Result<String, LockError> {
    Ok(held())
}

#[distributed_lock(key = "<r#type>:<r#async.len()>:<plain>")]
async fn raw(r#type: u8, r#async: &str, r#plain: u8) -> Result<String, LockError> {
    assert_eq!((r#type, r#async, plain), (1, "ab", 3));
    Ok(held())
}

#[tokio::test]
async fn attributes_raw_names_and_unused_ones() {
    on_memory(async {
        let (key, kept) = with_attributes(1, "test", 2).await.unwrap();
        assert_eq!((key.as_str(), kept), ("attributes:test", 2));
        assert_eq!(
            unused_by_the_body(1, "ann", 2).await.unwrap(),
            "unused:1:ann"
        );
        assert_eq!(raw(1, "ab", 3).await.unwrap(), "1:2:3");
    })
    .await;
}

#[distributed_lock(key = "<by_reference>:<boxed>")]
async fn trait_objects(
    by_reference: &dyn Display,
    boxed: Box<dyn Display + Send>,
    changed: &mut dyn std::fmt::Write,
    call: &(dyn Fn(u8) -> u8 + Sync),
) -> Result<String, LockError> {
    let length = by_reference.to_string().len();
    write!(changed, "{}", call(length.try_into().unwrap())).unwrap();
    Ok(format!("{boxed} {}", held()))
}

#[tokio::test]
async fn arguments_behind_dyn() {
    let mut changed = String::new();
    let call = trait_objects(&1.5, Box::new("b"), &mut changed, &|length| length + 1);
    assert_eq!(on_memory(call).await.unwrap(), "b 1.5:b");
    assert_eq!(changed, "4");
}

#[allow(
    clippy::too_many_arguments,
    clippy::many_single_char_names,
    reason = "many are the point"
)]
#[distributed_lock(key = "<a>:<b>:<c>:<d>:<e>:<f>:<g>:<h>:<i>:<j>:<k>:<l>:<m>:<n>:<o>:<p>")]
async fn many(
    a: u8,
    b: u16,
    c: u32,
    d: u64,
    e: u128,
    f: usize,
    g: i8,
    h: bool,
    i: char,
    j: f32,
    k: &str,
    l: String,
    m: std::net::Ipv4Addr,
    n: std::num::NonZeroU8,
    o: std::borrow::Cow<'_, str>,
    p: std::sync::Arc<str>,
) -> Result<(String, String), LockError> {
    let body = format!("{a}:{b}:{c}:{d}:{e}:{f}:{g}:{h}:{i}:{j}:{k}:{l}:{m}:{n}:{o}:{p}");
    Ok((body, held()))
}

struct Nothing;

/// `sizes` tests by how much large arguments enlarge the future.
#[allow(
    clippy::large_types_passed_by_value,
    reason = "a large argument is the point"
)]
#[distributed_lock(key = "sizes:<large.len()>")]
async fn sizes(
    (): (),
    _nothing: Nothing,
    []: [u8; 0],
    large: [u8; 16_000],
) -> Result<(String, u8), LockError> {
    Ok((held(), large[15_999]))
}

#[tokio::test]
async fn many_none_of_a_size_and_large() {
    on_memory(async {
        let one = std::num::NonZeroU8::MIN;
        let (body, key) = many(
            1,
            2,
            3,
            4,
            5,
            6,
            -7,
            true,
            'i',
            0.5,
            "k",
            "l".to_owned(),
            [127, 0, 0, 1].into(),
            one,
            "o".into(),
            "p".into(),
        )
        .await
        .unwrap();
        assert_eq!(body, "1:2:3:4:5:6:-7:true:i:0.5:k:l:127.0.0.1:1:o:p");
        assert_eq!(key, body);
        let large = Box::pin(sizes((), Nothing, [], [3; 16_000]));
        assert_eq!(large.await.unwrap(), ("sizes:16000".to_owned(), 3));
    })
    .await;
}
