//! The names of arguments: ours, those to come, and what other libraries call them.

use super::shape::example;
use dlock_grammar::spelling::nearest;

/// Arguments that work, in the order of the documentation.
pub(crate) const ARGUMENTS: [&str; 23] = [
    "key",
    "keys",
    "ttl",
    "wait",
    "renew",
    "max_hold",
    "max_renewals",
    "min_hold",
    "read",
    "write",
    "permits",
    "take",
    "reentrant",
    "owner",
    "fair",
    "on_busy",
    "on_lost",
    "release",
    "guard",
    "pool",
    "map_err",
    "on_error",
    "crate",
];

/// What Redisson, `ShedLock`, Spring and others say, without `_`: people bring the word along.
const ELSEWHERE: [(&str, &[&str]); 23] = [
    (
        "key",
        &[
            "name", "id", "resource", "lock", "lockname", "lockkey", "lockid", "prefix", "value",
        ],
    ),
    (
        "ttl",
        &[
            "lease",
            "leasetime",
            "leasefor",
            "expire",
            "expires",
            "expiry",
            "expiration",
            "duration",
            "lockatmostfor",
            "locktimeout",
            "px",
            "ex",
        ],
    ),
    (
        "wait",
        &[
            "waittime",
            "waitfor",
            "maxwait",
            "maxwaittime",
            "waittimeout",
            "acquiretimeout",
            "blockingtimeout",
            "tryfor",
            "trylock",
            "blocking",
            "retry",
            "retries",
            "retrycount",
            "retrydelay",
            "retryinterval",
        ],
    ),
    (
        "renew",
        &[
            "autorenew",
            "autorenewal",
            "renewal",
            "autoextend",
            "keepalive",
            "heartbeat",
            "watchdog",
            "refresh",
        ],
    ),
    ("min_hold", &["lockatleastfor", "minlease", "holdatleast"]),
    ("max_hold", &["maxlease", "maxleasetime", "maxduration"]),
    (
        "on_busy",
        &["onlocked", "onconflict", "ifbusy", "onfail", "skipifbusy"],
    ),
    ("on_lost", &["onloss", "onexpired"]),
    ("guard", &["bind", "handle"]),
    (
        "pool",
        &["client", "redis", "connection", "conn", "backend", "url"],
    ),
    ("map_err", &["error", "err", "errormap"]),
    ("on_error", &["fallback", "orelse"]),
    ("crate", &["cratepath", "krate"]),
    ("release", &["unlock"]),
    ("max_renewals", &["renewals", "maxextensions"]),
    (
        "keys",
        &[
            "names",
            "ids",
            "resources",
            "locks",
            "locknames",
            "multi",
            "multilock",
        ],
    ),
    (
        "read",
        &["readlock", "reader", "readonly", "shared", "sharedlock"],
    ),
    ("write", &["writelock", "writer"]),
    (
        "permits",
        &[
            "permit",
            "semaphore",
            "count",
            "limit",
            "slots",
            "capacity",
            "maxholders",
            "concurrency",
            "maxconcurrency",
        ],
    ),
    ("take", &["acquire", "weight", "units", "amount"]),
    (
        "reentrant",
        &["reentrantlock", "recursive", "rlock", "nested"],
    ),
    (
        "owner",
        &[
            "ownerid",
            "lockowner",
            "holder",
            "session",
            "thread",
            "threadid",
        ],
    ),
    ("fair", &["fairlock", "fairness", "fifo", "ordered"]),
];

/// An argument that is none: what was probably meant, and what to say.
pub(super) struct Unknown {
    pub(super) near: Vec<&'static str>,
    pub(super) message: String,
}

/// About a name that is not in [`ARGUMENTS`].
pub(super) fn unknown(text: &str) -> Unknown {
    // `maxHold`, `TTL`: the spelling of another language.
    let plain: String = text.to_lowercase().split('_').collect();
    let elsewhere = ELSEWHERE
        .iter()
        .find(|(_, names)| names.contains(&plain.as_str()));
    if plain == "timeout" {
        let message = format!(
            "unknown argument `{text}`: write `wait = \"3s\"` for how long to wait, `ttl = \"10s\"` for how long to hold"
        );
        let near = vec!["wait", "ttl"];
        return Unknown { near, message };
    }
    if plain == "namespace" {
        let message = "unknown argument `namespace`, which is the pool's: write `Config::new(…).namespace(\"shop:\")`";
        let (near, message) = (Vec::new(), message.to_owned());
        return Unknown { near, message };
    }
    if ["kind", "mode", "type", "locktype", "lockmode", "exclusive"].contains(&plain.as_str()) {
        let message = format!(
            "unknown argument `{text}`: a lock is exclusive, or says `read`, `write`, `permits = 5` or `reentrant`"
        );
        let near = Vec::new();
        return Unknown { near, message };
    }
    if let Some((ours, _)) = elsewhere {
        let message = format!(
            "unknown argument `{text}`, which is `{ours}` here: write `{}`",
            example(ours)
        );
        let near = vec![*ours];
        return Unknown { near, message };
    }
    let spelled = ARGUMENTS
        .into_iter()
        .find(|name| name.replace('_', "") == plain);
    match spelled.or_else(|| nearest(text, ARGUMENTS)) {
        Some(near) => Unknown {
            near: vec![near],
            message: format!("unknown argument `{text}`, did you mean `{near}`?"),
        },
        None => Unknown {
            near: Vec::new(),
            message: format!(
                "unknown argument `{text}`, arguments are:\n{}",
                ARGUMENTS.join(", ")
            ),
        },
    }
}
