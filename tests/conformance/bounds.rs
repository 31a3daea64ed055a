//! The bounds of a request: keys, leases, intervals. Each test takes the last allowed value and the
//! first that is refused.

use std::time::Duration;

use dlock_runtime::{LockError, LockPool, lock_key};

use crate::backends::{LONG, ms};

on_every_backend!(
    keys_of_all_allowed_shapes_are_separate_locks,
    a_key_has_at_most_512_bytes_with_its_namespace,
    keys_that_can_be_none_are_refused,
    a_renewal_interval_is_less_than_half_of_the_ttl,
    a_template_names_the_same_lock_as_its_text;
    one_server:
    a_ttl_is_10_ms_to_24_h,
);

const DAY: Duration = Duration::from_secs(86_400);

async fn keys_of_all_allowed_shapes_are_separate_locks(pool: LockPool) {
    let keys = [
        "order:{7}",
        "{order}:7",
        "order:7",
        "a{b}c",
        "größe:日本",
        "with space",
        "per%cent",
        "a@b",
        "*?[x]",
        "%",
    ];
    let mut held = Vec::new();
    for key in keys {
        let guard = pool.lock(key).ttl(LONG).try_acquire().await.unwrap();
        held.push(guard.unwrap_or_else(|| panic!("{key}: already held")));
    }
    for key in keys {
        assert!(
            pool.lock(key).try_acquire().await.unwrap().is_none(),
            "{key}"
        );
    }
    for guard in held {
        guard.release().await.unwrap();
    }
}

async fn a_key_has_at_most_512_bytes_with_its_namespace(pool: LockPool) {
    let longest = "k".repeat(512 - "lock:".len());
    let held = pool.lock(&longest).acquire().await.unwrap();
    assert_eq!(held.key().as_str().len(), 512);
    held.release().await.unwrap();
    let error = pool
        .lock(format!("{longest}k"))
        .acquire()
        .await
        .unwrap_err();
    assert!(error.to_string().contains("513 bytes"), "{error}");
}

async fn keys_that_can_be_none_are_refused(pool: LockPool) {
    for key in ["", "@fence", "a\tb", "a\0", "{", "a}b", "{}", "{a}{b}"] {
        let mut ran = false;
        match pool.lock(key).run(async |_| ran = true).await {
            Err(LockError::InvalidKey { key: named, .. }) => assert_eq!(named.as_str(), key),
            other => panic!("{key:?}: {other:?}"),
        }
        assert!(!ran, "{key:?}");
    }
}

async fn a_ttl_is_10_ms_to_24_h(pool: LockPool) {
    for ttl in [
        ms(0),
        ms(9),
        Duration::from_micros(9_999),
        DAY + ms(1),
        Duration::MAX,
    ] {
        let mut ran = false;
        let error = pool
            .lock("k")
            .ttl(ttl)
            .run(async |_| ran = true)
            .await
            .unwrap_err();
        assert!(
            matches!(error, LockError::Config { .. }),
            "{ttl:?}: {error:?}"
        );
        assert!(error.to_string().contains("ttl "), "{error}");
        assert!(!ran, "{ttl:?}");
    }
    let held = pool.lock("k").ttl(DAY).acquire().await.unwrap();
    assert!(held.remaining() > DAY * 98 / 100);
    held.release().await.unwrap();
    // On a loaded machine, 10 ms may be over before the grant is read: then the wait goes on.
    let shortest = pool
        .lock("k")
        .ttl(ms(10))
        .wait(LONG)
        .acquire()
        .await
        .unwrap();
    assert!(shortest.remaining() <= ms(8));
}

async fn a_renewal_interval_is_less_than_half_of_the_ttl(pool: LockPool) {
    for interval in [ms(0), ms(500), ms(501), DAY] {
        let request = pool.lock("k").ttl(ms(1000)).renew_every(interval);
        let error = request.acquire().await.unwrap_err();
        assert!(matches!(error, LockError::Config { .. }), "{error:?}");
        assert!(error.to_string().contains("renewal interval"), "{error}");
    }
    let held = pool
        .lock("k")
        .ttl(ms(1000))
        .renew_every(ms(499))
        .acquire()
        .await
        .unwrap();
    held.release().await.unwrap();
    let renewed = pool
        .lock("k")
        .ttl(ms(10))
        .renew()
        .wait(LONG)
        .acquire()
        .await
        .unwrap();
    assert_eq!(renewed.key().as_str(), "lock:k");
}

async fn a_template_names_the_same_lock_as_its_text(pool: LockPool) {
    let buyer = "ann:admin";
    let held = pool
        .lock(lock_key!("item:<buyer>"))
        .ttl(LONG)
        .acquire()
        .await
        .unwrap();
    assert!(
        pool.lock("item:ann%3Aadmin")
            .try_acquire()
            .await
            .unwrap()
            .is_none()
    );
    assert!(
        pool.lock("item:ann:admin")
            .try_acquire()
            .await
            .unwrap()
            .is_some()
    );
    held.release().await.unwrap();
}
