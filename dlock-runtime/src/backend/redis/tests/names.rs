//! The names beside a lock's own: in its slot, and in the pool's namespace.

use dlock_harness::RedisServer;

use crate::backend::redis::names::Names;
use crate::values::slot::slot;

#[tokio::test]
async fn the_slot_is_the_one_that_a_cluster_computes() {
    let server = RedisServer::builder()
        .args(["--cluster-enabled", "yes"])
        .start();
    for key in [
        "foo",
        "123456789",
        "",
        "a{foo}b",
        "{}a",
        "a{}{b}",
        "a{{b}}c",
        "a}b{c}",
        "a{b",
        "a{b}{c}",
        "größe{é}",
        "lock:item:7",
    ] {
        let expected: u16 = server.ask(&["CLUSTER", "KEYSLOT", key]).await;
        assert_eq!(slot(key), expected, "{key}");
    }
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
        assert_eq!(keys.waiting.text(), waiting);
        assert_eq!(keys.alive.text(), alive);
        assert_eq!(keys.counter, "shop:@fence");
        assert_eq!(slot(waiting), slot(lock), "{lock}");
        assert_eq!(slot(alive), slot(lock), "{lock}");
    }
}

#[test]
fn a_namespace_may_be_empty() {
    let names = Names::new("");
    assert_eq!(names.of("k").waiting.text(), "@w:{k}");
    assert_eq!(names.of("{k}").alive.text(), "@a:{k}");
}

#[test]
fn a_channel_is_in_the_namespace() {
    let channel = Names::new("shop:").channel(0xAB);
    assert_eq!(channel, format!("shop:@grant:{:032x}", 0xAB));
}
