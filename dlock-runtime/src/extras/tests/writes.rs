//! Batches: which are refused before anything is sent, and what the others require of the data.

use std::time::Duration;

use crate::extras::writes::{What, Writes, number};
use crate::link::memory::data::Data;
use crate::values::batch::Batch;
use crate::values::memory_value::MemoryValue;

const LOCK: &str = "lock:item:{7}";
const SECOND: u64 = 1_000_000;

fn check(batch: &Batch) -> Result<Writes<'_>, String> {
    Writes::new(batch, LOCK, "lock:").map_err(|error| error.to_string())
}

#[track_caller]
fn refused(batch: &Batch, why: &str) {
    let said = check(batch).expect_err("refused");
    assert!(said.contains(why), "{said}");
}

#[test]
fn a_key_in_another_slot_is_refused_with_the_tag_that_it_needs() {
    for key in ["stock", "stock:7", "stock:{8}", "{x}{7}", "lock:item:7", ""] {
        refused(&Batch::new().set(key, "3"), "put `{7}` into the key");
    }
    for key in ["stock:{7}", "{7}", "{7}{8}", "lock:other:{7}", "7"] {
        assert!(check(&Batch::new().set(key, "3")).is_ok(), "{key}");
    }
    let batch = Batch::new().set("{lock:item:7}:stock", "3");
    assert!(Writes::new(&batch, "lock:item:7", "lock:").is_ok());
    let other = Batch::new().set("stock:7", "3");
    let said = Writes::new(&other, "lock:item:7", "lock:").unwrap_err();
    assert!(said.to_string().contains("put `{lock:item:7}` into"));
}

#[test]
fn keys_of_dlock_are_refused() {
    for key in [LOCK, "lock:@w:item:{7}", "lock:@a:{7}", "lock:@fence"] {
        refused(&Batch::new().del(key), "one of dlock's own keys");
    }
    let batch = Batch::new().del("@w:{7}");
    assert!(Writes::new(&batch, "item:{7}", "").is_err());
    assert!(Writes::new(&batch, LOCK, "lock:").is_ok());
    refused(&Batch::new().del("a{7}\n"), "control character");
    refused(
        &Batch::new().del("a{7}:<id>"),
        "write `lock_key!(\"a{7}:<id>\")`",
    );
    refused(&Batch::new().del("\0a{7}"), "control character");
}

#[test]
fn what_would_stop_half_way_is_refused_before() {
    let batch = Batch::new;
    let two_types = "as two types in one batch";
    refused(&batch().hset("a{7}", "f", "1").sadd("a{7}", "m"), two_types);
    refused(&batch().set("a{7}", "1").rpush("a{7}", "m"), two_types);
    refused(
        &batch().del("a{7}").zrem("a{7}", "m").lpush("a{7}", "m"),
        two_types,
    );
    for ttl in [
        Duration::ZERO,
        Duration::from_secs(101 * 365 * 24 * 3600),
        Duration::MAX,
    ] {
        refused(&batch().expire("a{7}", ttl), "1 ms to 100 years");
        refused(&batch().set_with_ttl("a{7}", "", ttl), "1 ms to 100 years");
    }
    refused(&batch().zadd("a{7}", "m", f64::NAN), "not a number");
    let no_number = "can't be added to";
    refused(&batch().set("a{7}", "x").incr_by("a{7}", 1), no_number);
    refused(
        &batch().hset("a{7}", "f", "01").hincr_by("a{7}", "f", 1),
        no_number,
    );
    let much = 8_000_000_000_000_000_000;
    refused(
        &batch().incr_by("a{7}", -much).incr_by("a{7}", 1),
        "may not fit",
    );
    refused(&batch().hincr_by("a{7}", "f", i64::MIN), "may not fit");
    refused(
        &batch().incr_by("a{7}", i64::MAX).incr_by("a{7}", i64::MAX),
        "may not fit",
    );
    assert!(check(&batch().incr_by("a{7}", -much)).is_ok());
    assert!(
        check(
            &batch()
                .hincr_by("a{7}", "f", much)
                .hincr_by("a{7}", "g", much)
        )
        .is_ok()
    );
}

#[test]
fn the_bounds_are_a_thousand_commands_and_16_mib() {
    let commands = |count| (0..count).fold(Batch::new(), |batch, _| batch.rpush("a{7}", "x"));
    assert!(check(&commands(1_000)).is_ok());
    refused(
        &commands(1_001),
        "1001 commands, of which 1000 are the most",
    );
    let most = vec![b'x'; (16 << 20) - 4];
    assert!(check(&Batch::new().set("a{7}", &most)).is_ok());
    refused(
        &Batch::new().set("a{7}", &most).del("b{7}"),
        "bytes, of which",
    );
}

#[test]
fn what_a_command_leaves_needs_no_look() {
    let needs = |batch: Batch| {
        let writes = check(&batch).unwrap();
        let needs = writes.needs.iter();
        let told = needs.map(|need| match need.what {
            What::Is(wanted) => format!("{} {}", need.key, wanted.name()),
            What::Number => format!("{} number", need.key),
            What::NumberIn(field) => format!("{} {}", need.key, String::from_utf8_lossy(field)),
        });
        told.collect::<Vec<_>>()
    };
    let batch = Batch::new;
    let none = [""; 0];
    assert_eq!(needs(batch().set("a{7}", "1").incr_by("a{7}", 1)), none);
    assert_eq!(needs(batch().del("a{7}").hincr_by("a{7}", "f", 1)), none);
    assert_eq!(needs(batch().expire("a{7}", Duration::from_secs(1))), none);
    assert_eq!(
        needs(batch().incr_by("a{7}", 1).incr_by("a{7}", 1)),
        ["0 string", "0 number"]
    );
    assert_eq!(
        needs(
            batch()
                .sadd("b{7}", "m")
                .hincr_by("a{7}", "f", 1)
                .hincr_by("a{7}", "", 1)
        ),
        ["0 set", "1 hash", "1 f", "1 "]
    );
    let known = batch()
        .hset("a{7}", "f", "1")
        .hincr_by("a{7}", "f", 1)
        .hdel("a{7}", "g");
    assert_eq!(needs(known.hincr_by("a{7}", "g", 1)), ["0 hash"]);
}

#[test]
fn a_batch_runs_dry_where_memory_is_needed_after_something_else() {
    for (batch, dry) in [
        (Batch::new(), false),
        (Batch::new().set("a{7}", "x").del("b{7}"), false),
        (Batch::new().del("a{7}").srem("b{7}", "x"), false),
        (Batch::new().del("a{7}").sadd("b{7}", "x"), true),
    ] {
        assert_eq!(check(&batch).unwrap().may_run_dry(), dry, "{batch:?}");
    }
}

#[test]
fn a_number_is_what_redis_adds_to_with_18_digits_at_most() {
    for text in [
        "0",
        "1",
        "-1",
        "10",
        "999999999999999999",
        "-999999999999999999",
    ] {
        assert_eq!(number(text.as_bytes()), text.parse().ok(), "{text}");
    }
    for text in [
        "",
        "-",
        "-0",
        "00",
        "01",
        "+1",
        "1 ",
        " 1",
        "1.0",
        "1e3",
        "1\n",
        "1000000000000000000",
    ] {
        assert_eq!(number(text.as_bytes()), None, "{text:?}");
    }
}

#[test]
fn nothing_of_what_is_written_is_shown() {
    let batch = Batch::new()
        .set("a{7}", "secret")
        .hset("b{7}", "secret", "secret");
    assert_eq!(
        format!("{batch:?}"),
        r#"Batch["SET a{7} …", "HSET b{7} …"]"#
    );
    assert!(!format!("{:?}", check(&batch).unwrap()).contains("secret"));
}

#[test]
fn what_has_lapsed_is_dropped_though_nobody_asks_for_it() {
    let mut data = Data::default();
    for number in 0..1_000 {
        let batch =
            Batch::new().set_with_ttl(format!("{number}{{7}}"), "x", Duration::from_millis(1));
        data.write(&check(&batch).unwrap(), number * SECOND)
            .unwrap();
    }
    assert!(data.len() <= 64, "{}", data.len());
    assert_eq!(
        data.get("999{7}", 999 * SECOND),
        Some(&MemoryValue::Bytes(b"x".into()))
    );
    assert_eq!(data.get("999{7}", 999 * SECOND + 1_000), None);
}
