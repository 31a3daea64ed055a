//! Arguments: every kind of pattern, attributes on them, raw and unused names, trait objects, many
//! arguments, zero-sized and large ones.

use std::convert::TryInto as _;
use std::fmt::Display;
use std::num::NonZeroU8;

use dlock_runtime::{LockError, distributed_lock};

use super::held;

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

/// The `allow` stays on its argument, and the key uses that `id` of the two which is compiled.
#[distributed_lock(key = "attributes:<id>")]
async fn with_attributes(
    #[allow(unused_variables, reason = "without this the test would not compile")] unused: u8,
    #[cfg(true)] id: &str,
    #[cfg(false)] id: Missing,
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
    n: NonZeroU8,
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

pub(super) async fn rows() {
    let user = User { id: 1, name: "ann" };
    let lines = vec![7];
    let line = Line(Id(2), ("x", [8, 8, 9]));
    ok!(nested(Order { user, lines }, line), ("1:ann:1:2:x:9", [7]));
    let ignored = String::new();
    let call = bindings(
        "s".to_owned(),
        vec![0],
        Copied(5),
        &Id(6),
        (0, 0, 0),
        [1, 2, 3],
        ignored,
    );
    ok!(call, ("s:1:5:5:6", 4));
    ok!(with_attributes(1, "test", 2), ("attributes:test", 2));
    ok!(unused_by_the_body(1, "b:/c", 2), "unused:1:b%3A%2Fc");
    ok!(raw(1, "ab", 3), "1:2:3");
    let mut changed = String::new();
    let call = trait_objects(&1.5, Box::new("b"), &mut changed, &|length| length + 1);
    ok!(call, "b 1.5:b");
    assert_eq!(changed, "4");
    let (address, one) = ([127, 0, 0, 1].into(), NonZeroU8::MIN);
    let (owned, text, shared) = ("l".to_owned(), "o".into(), "p".into());
    let call = many(
        1, 2, 3, 4, 5, 6, -7, true, 'i', 0.5, "k", owned, address, one, text, shared,
    );
    let all = "1:2:3:4:5:6:-7:true:i:0.5:k:l:127.0.0.1:1:o:p";
    ok!(call, (all, all));
    let large = sizes((), Nothing, [], [3; 16_000]);
    ok!(Box::pin(large), ("sizes:16000", 3));
}
