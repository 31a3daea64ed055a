//! The names of arguments: ours, and their equivalents in other libraries.
//!
//! What a name takes as its value is in `shape`. The tests of the docs compare [`ARGUMENTS`] with
//! the tables in `docs/reference/arguments.md` and in `attribute.md`.

/// All arguments, in the order of the documentation.
pub(crate) const ARGUMENTS: [&str; 27] = [
    "key",
    "keys",
    "ttl",
    "wait",
    "renew",
    "max_hold",
    "max_renewals",
    "min_hold",
    "once_per",
    "after_crash",
    "read",
    "write",
    "permits",
    "take",
    "reentrant",
    "owner",
    "fair",
    "lead",
    "on_busy",
    "on_lost",
    "on_shutdown",
    "release",
    "guard",
    "pool",
    "map_err",
    "on_error",
    "crate",
];

/// What Redisson, `ShedLock`, Spring and others call them, without `_`, for users who are used to
/// those.
const ELSEWHERE: [(&str, &[&str]); 27] = [
    (
        "key",
        &[
            "name", "id", "resource", "lock", "lockname", "lockkey", "lockid", "value",
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
        "once_per",
        &[
            "period",
            "onceevery",
            "cooldown",
            "throttle",
            "debounce",
            "uniquefor",
            "uniqueperiod",
        ],
    ),
    (
        "after_crash",
        &["oncrash", "ifcrashed", "atmostonce", "atleastonce"],
    ),
    (
        "on_busy",
        &["onlocked", "onconflict", "ifbusy", "onfail", "skipifbusy"],
    ),
    ("on_lost", &["onloss", "onexpired"]),
    ("on_shutdown", &["onclose", "onclosing", "onstop", "onexit"]),
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
    (
        "lead",
        &[
            "leader",
            "leadership",
            "leaderelection",
            "election",
            "elect",
            "candidate",
        ],
    ),
];

/// Our argument for the name in another library; `plain` is in lower case and without `_`.
pub(super) fn elsewhere(plain: &str) -> Option<&'static str> {
    let mut all = ELSEWHERE.iter();
    let (ours, _) = all.find(|(_, theirs)| theirs.contains(&plain))?;
    Some(ours)
}

/// Whether the argument is a word without a value.
pub(super) fn is_bare(name: &str) -> bool {
    ["read", "write", "reentrant", "fair", "lead"].contains(&name)
}

/// The error for such an argument with a value.
pub(super) fn alone(name: &str) -> String {
    format!("`{name}` takes no value: write `{name}` alone, or leave it out")
}
