//! A configuration from `DLOCK_*` environment variables: one table, every mistake in one error.
//!
//! Ranges are checked in `check`. Invariant: an error never repeats `DLOCK_URL`.

use std::time::Duration;

use dlock_grammar::spelling::nearest;

use super::check::unwrapped;
use super::{Config, SpanLevel};
use crate::values::error::LockError;
use crate::values::lock_order::LockOrder;
use crate::values::release::Release;
use crate::values::wait::Wait;

const PREFIX: &str = "DLOCK_";
const URL: &str = "DLOCK_URL";
/// Before the name of another variable, which has the address.
const ELSEWHERE: &str = "env:";

/// How a variable's text is parsed, and which setting it goes to.
enum Setting {
    Text(fn(Config, String) -> Config),
    Time(fn(Config, Duration) -> Config),
    Wait(fn(Config, Wait) -> Config),
    Release(fn(Config, Release) -> Config),
    Count(fn(Config, usize) -> Config),
    /// The number of hand-offs; their time stays as it is.
    Handoffs(fn(Config, usize, Duration) -> Config),
    Flag(fn(Config) -> Config),
    LockOrder(fn(Config, LockOrder) -> Config),
    SpanLevel(fn(Config, SpanLevel) -> Config),
}

const SETTINGS: &[(&str, Setting)] = &[
    ("DLOCK_TLS_CA", Setting::Text(Config::tls_ca)),
    ("DLOCK_TLS_CERT", Setting::Text(with_certificate)),
    ("DLOCK_TLS_KEY", Setting::Text(with_key)),
    (
        "DLOCK_TLS_SERVER_NAME",
        Setting::Text(Config::tls_server_name),
    ),
    ("DLOCK_NAMESPACE", Setting::Text(Config::namespace)),
    ("DLOCK_DEFAULT_TTL", Setting::Time(Config::default_ttl)),
    ("DLOCK_MAX_TTL", Setting::Time(Config::max_ttl)),
    ("DLOCK_DEFAULT_WAIT", Setting::Wait(Config::default_wait)),
    (
        "DLOCK_DEFAULT_MAX_HOLD",
        Setting::Time(Config::default_max_hold),
    ),
    ("DLOCK_RELEASE", Setting::Release(Config::release)),
    ("DLOCK_CONNECTIONS", Setting::Count(Config::connections)),
    (
        "DLOCK_CONNECT_TIMEOUT",
        Setting::Time(Config::connect_timeout),
    ),
    (
        "DLOCK_COMMAND_TIMEOUT",
        Setting::Time(Config::command_timeout),
    ),
    (
        "DLOCK_SHUTDOWN_GRACE",
        Setting::Time(Config::shutdown_grace),
    ),
    ("DLOCK_POLL_INTERVAL", Setting::Time(Config::poll_interval)),
    (
        "DLOCK_HEALTH_CHECK_INTERVAL",
        Setting::Time(Config::health_check_interval),
    ),
    ("DLOCK_MAX_IN_FLIGHT", Setting::Count(Config::max_in_flight)),
    (
        "DLOCK_WITHOUT_SCRIPTS",
        Setting::Flag(Config::without_scripts),
    ),
    (
        "DLOCK_COUNTER_PER_SLOT",
        Setting::Flag(Config::counter_per_slot),
    ),
    ("DLOCK_MIN_REPLICAS", Setting::Count(Config::min_replicas)),
    ("DLOCK_MIN_AOF", Setting::Count(Config::min_aof)),
    (
        "DLOCK_REPAIR_MISSING_TTL",
        Setting::Time(Config::repair_missing_ttl),
    ),
    ("DLOCK_SLOW_ACQUIRE", Setting::Time(Config::slow_acquire)),
    ("DLOCK_LONG_HOLD", Setting::Time(Config::long_hold)),
    ("DLOCK_HOLDER_NAME", Setting::Text(Config::holder_name)),
    ("DLOCK_GRANT_SECRET", Setting::Text(Config::grant_secret)),
    ("DLOCK_LAZY", Setting::Flag(Config::lazy)),
    ("DLOCK_LOCK_ORDER", Setting::LockOrder(Config::lock_order)),
    ("DLOCK_SPAN_LEVEL", Setting::SpanLevel(Config::span_level)),
    (
        "DLOCK_LOCAL_HANDOFF",
        Setting::Handoffs(Config::local_handoff),
    ),
    ("DLOCK_CLOCK_MARGIN", Setting::Count(Config::clock_margin)),
];

impl Config {
    /// Reads the configuration from the environment variables `DLOCK_*`.
    ///
    /// | variable | like | default |
    /// | --- | --- | --- |
    /// | `DLOCK_URL` | `redis://127.0.0.1:6379`, or `env:REDIS_URL` for that variable's value | required |
    /// | `DLOCK_TLS_CA` | `/etc/redis/ca.pem`, with `rediss://` | the system's CAs |
    /// | `DLOCK_TLS_CERT`, `DLOCK_TLS_KEY` | `/etc/dlock/client.pem`, with its key | none |
    /// | `DLOCK_TLS_SERVER_NAME` | `redis.internal` | the URL's host |
    /// | `DLOCK_NAMESPACE` | `shop:lock:` | `lock:` |
    /// | `DLOCK_DEFAULT_TTL` | `10s` | `30s` |
    /// | `DLOCK_MAX_TTL` | `30s`, with `redlock://` | `60s` |
    /// | `DLOCK_DEFAULT_WAIT` | `500ms`, `0s`, `forever` | `3s` |
    /// | `DLOCK_DEFAULT_MAX_HOLD` | `15m` | no bound |
    /// | `DLOCK_RELEASE` | `background`, `strict` | `confirmed` |
    /// | `DLOCK_CONNECTIONS` | `2` | `1` |
    /// | `DLOCK_CONNECT_TIMEOUT` | `2s` | `1s` |
    /// | `DLOCK_COMMAND_TIMEOUT` | `250ms` | `500ms` |
    /// | `DLOCK_SHUTDOWN_GRACE` | `20s`, `0s` | `5s` |
    /// | `DLOCK_POLL_INTERVAL` | `50ms` | `1s`; `100ms` without pushes |
    /// | `DLOCK_HEALTH_CHECK_INTERVAL` | `1m` | `15s` |
    /// | `DLOCK_MAX_IN_FLIGHT` | `1000` | no limit |
    /// | `DLOCK_WITHOUT_SCRIPTS` | `true`, `false` | `false` |
    /// | `DLOCK_COUNTER_PER_SLOT` | `true`, `false` | `false` |
    /// | `DLOCK_MIN_REPLICAS` | `2` | the master alone |
    /// | `DLOCK_MIN_AOF` | `1` | none |
    /// | `DLOCK_REPAIR_MISSING_TTL` | `1m` | refuse such keys |
    /// | `DLOCK_SLOW_ACQUIRE` | `2s` | no warning |
    /// | `DLOCK_LONG_HOLD` | `30s` | no warning |
    /// | `DLOCK_HOLDER_NAME` | `web-3` | the host's name |
    /// | `DLOCK_GRANT_SECRET` | 32 random bytes as text | derived from the password, if any |
    /// | `DLOCK_LAZY` | `true`, `false` | `false` |
    /// | `DLOCK_LOCK_ORDER` | `off`, `warn`, `refuse` | `warn` in a debug build, otherwise `off` |
    /// | `DLOCK_SPAN_LEVEL` | `info`, `debug`, `trace` | `debug` |
    /// | `DLOCK_LOCAL_HANDOFF` | `0` | `16` |
    /// | `DLOCK_CLOCK_MARGIN` | `16`, in per cent | `1` |
    ///
    /// Durations are unsigned integers with `ms`, `s`, `m`, `h` or `d`, largest unit first:
    /// `1m30s`.
    ///
    /// # Errors
    /// [`LockError::Config`], which names every variable that is missing, empty or unreadable, and
    /// every other one that begins with `DLOCK_` (except those that Kubernetes sets for a service,
    /// and `DLOCK_KEY` and `DLOCK_FENCE`, which the command `dlock run` sets). It does not repeat
    /// `DLOCK_URL`, which may contain a password.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # async fn start() -> Result<(), dlock_runtime::LockError> {
    /// dlock_runtime::init(dlock_runtime::Config::from_env()?).await?;
    /// # Ok(()) }
    /// ```
    pub fn from_env() -> Result<Config, LockError> {
        Config::from_variables(variables())
    }

    /// Reads the configuration as [`Config::from_env`] does, with this URL in place of `DLOCK_URL`,
    /// which need not be set: for a program that takes the server's address as an argument.
    ///
    /// # Errors
    /// As [`Config::from_env`].
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), dlock_runtime::LockError> {
    /// use dlock_runtime::{Config, LockPool};
    ///
    /// let config = match std::env::args().nth(1) {
    ///     Some(url) => Config::from_env_at(url)?,
    ///     None => Config::from_env_at("memory://")?,
    /// };
    /// # drop(LockPool::connect(config).await); Ok(()) }
    /// ```
    pub fn from_env_at(url: impl Into<String>) -> Result<Config, LockError> {
        let others = variables().filter(|(name, _)| name != URL);
        let url: String = url.into();
        if unwrapped(&url).len() < url.len() {
            return Err(LockError::config(
                "the server's address stands in quotes or has a blank at an end; give it without them",
            ));
        }
        let url = (URL.to_owned(), Some(url));
        Config::from_variables(others.chain(std::iter::once(url)))
    }

    /// As [`Config::from_env`], with all variables that there are; a value that is not UTF-8 is
    /// `None`.
    pub(crate) fn from_variables(
        variables: impl Iterator<Item = (String, Option<String>)>,
    ) -> Result<Config, LockError> {
        let (mut wrong, mut url, mut written) = (Vec::new(), None, Vec::new());
        let mut any_hopeless = false;
        let (ours, others): (Vec<_>, Vec<_>) =
            variables.partition(|(name, _)| name.starts_with(PREFIX) && !is_of_others(name));
        for (name, value) in ours {
            let Some(value) = read(&name, value, &mut wrong) else {
                continue;
            };
            if name == URL {
                url = Some(value);
            } else if value.is_empty() {
                // A deployment template writes an empty text for a variable that it does not know.
                wrong.push(format!("{name} is empty; leave it out for the default"));
            } else if let Some((_, setting)) = SETTINGS.iter().find(|(known, _)| *known == name) {
                written.push((name, setting, value));
            } else {
                // Compared without the common prefix, which would make any two names alike.
                let near = nearest(bare(&name), names().map(bare));
                let is_default = |known: &&str| known.strip_prefix("DEFAULT_") == Some(bare(&name));
                let near = near.or_else(|| names().map(bare).find(is_default));
                any_hopeless |= near.is_none();
                let hint = near.map(|near| format!(", did you mean {PREFIX}{near}?"));
                let hint = hint.unwrap_or_default();
                wrong.push(format!("{name} is not a setting of dlock{hint}"));
            }
        }
        let missing = |how| {
            format!(
                "{URL} is {how}; give the server's address, such as redis://127.0.0.1:6379 or postgres://user@host/database, or {ELSEWHERE}REDIS_URL to take it from that variable"
            )
        };
        let url = match url {
            None => Err(missing("not set")),
            Some(url) if url.is_empty() => Err(missing("empty")),
            Some(url) => named_by(url, &others),
        };
        let is_known = url.is_ok();
        let mut config = Config::new(url.unwrap_or_else(|why| {
            wrong.push(why);
            String::new()
        }));
        for (name, setting, value) in written {
            config = setting.apply(config, &name, value, &mut wrong);
        }
        if is_known
            && let Err(LockError::Config {
                why: out_of_range, ..
            }) = config.clone().check()
        {
            wrong.push(out_of_range.to_string());
        }
        if wrong.is_empty() {
            return Ok(config);
        }
        wrong.sort();
        if any_hopeless {
            let names: Vec<_> = names().collect();
            wrong.push(format!("dlock's settings are {}", names.join(", ")));
        }
        Err(LockError::config(wrong.join("; ")))
    }
}

impl Setting {
    fn apply(&self, config: Config, name: &str, value: String, wrong: &mut Vec<String>) -> Config {
        let read = match self {
            Setting::Text(set) => Ok(set(config.clone(), value)),
            Setting::Time(set) => time(&value).map(|time| set(config.clone(), time)),
            Setting::Wait(set) if value == "forever" => Ok(set(config.clone(), Wait::Forever)),
            Setting::Wait(set) => time(&value)
                .map(|time| set(config.clone(), time.into()))
                .map_err(|why| why + "; or write \"forever\""),
            Setting::Release(set) => match value.as_str() {
                "confirmed" => Ok(set(config.clone(), Release::Confirmed)),
                "background" => Ok(set(config.clone(), Release::Background)),
                "strict" => Ok(set(config.clone(), Release::Strict)),
                _ => Err(format!("{value:?} is not confirmed, background or strict")),
            },
            Setting::Count(set) => value
                .parse()
                .map(|count| set(config.clone(), count))
                .map_err(|_| format!("{value:?} is not a whole number")),
            Setting::Handoffs(set) => value
                .parse()
                .map(|most| set(config.clone(), most, config.settings.local_handoff.within))
                .map_err(|_| format!("{value:?} is not a whole number")),
            Setting::Flag(set) => match value.as_str() {
                "true" | "1" => Ok(set(config.clone())),
                "false" | "0" => Ok(config.clone()),
                _ => Err(format!("{value:?} is neither true nor false")),
            },
            Setting::LockOrder(set) => match value.as_str() {
                "off" => Ok(set(config.clone(), LockOrder::Off)),
                "warn" => Ok(set(config.clone(), LockOrder::Warn)),
                "refuse" => Ok(set(config.clone(), LockOrder::Refuse)),
                _ => Err(format!("{value:?} is not off, warn or refuse")),
            },
            Setting::SpanLevel(set) => match value.as_str() {
                "info" => Ok(set(config.clone(), SpanLevel::Info)),
                "debug" => Ok(set(config.clone(), SpanLevel::Debug)),
                "trace" => Ok(set(config.clone(), SpanLevel::Trace)),
                _ => Err(format!("{value:?} is not info, debug or trace")),
            },
        };
        read.unwrap_or_else(|why| {
            wrong.push(format!("{name}: {why}"));
            config
        })
    }
}

/// The value as it was meant, so that what else is wrong is said too. What is, or may be, a secret
/// is not repeated.
fn read(name: &str, value: Option<String>, wrong: &mut Vec<String>) -> Option<String> {
    let Some(value) = value else {
        wrong.push(format!("{name}: not valid UTF-8"));
        return None;
    };
    let meant = unwrapped(&value);
    if meant.len() == value.len() {
        return Some(value);
    }
    let is_known = SETTINGS.iter().any(|(known, _)| *known == name);
    let may_be_shown = is_known && name != "DLOCK_GRANT_SECRET";
    let instead = match meant {
        "" => "leave it out".to_owned(),
        meant if may_be_shown => format!("write {name}={meant} without them"),
        _ => format!("write {name}=… without them"),
    };
    wrong.push(format!(
        "{name}: stands in quotes or has a blank at an end, which an env file hands on as part of it; {instead}"
    ));
    (!meant.is_empty()).then(|| meant.to_owned())
}

/// The address: this one, or that in the variable which it names.
fn named_by(url: String, others: &[(String, Option<String>)]) -> Result<String, String> {
    let Some(other) = url.strip_prefix(ELSEWHERE) else {
        return Ok(url);
    };
    let is_a_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
    if other.is_empty() || !other.chars().all(is_a_name) {
        return Err(format!(
            "the server's address names no variable behind `{ELSEWHERE}`; write, for example, {ELSEWHERE}REDIS_URL"
        ));
    }
    if other.starts_with(PREFIX) && !is_of_others(other) {
        return Err(format!(
            "the server's address is {url}, which is one of dlock's own variables; name one that has the address itself, for example {ELSEWHERE}REDIS_URL"
        ));
    }
    let Some((_, value)) = others.iter().find(|(name, _)| name == other) else {
        return Err(format!(
            "the server's address is {url}, and {other} is not set"
        ));
    };
    let mut wrong = Vec::new();
    let value = read(other, value.clone(), &mut wrong);
    match (wrong.pop(), value) {
        (Some(why), _) => Err(why),
        (None, Some(address)) if !address.is_empty() => Ok(address),
        (None, _) => Err(format!(
            "the server's address is {url}, and {other} is empty"
        )),
    }
}

/// The environment; a value that is not UTF-8 is `None`.
fn variables() -> impl Iterator<Item = (String, Option<String>)> {
    let all = std::env::vars_os();
    all.filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok())))
}

/// Kubernetes sets variables in each pod for the services of its namespace, such as `DLOCK_PORT`
/// for one named `dlock`; `DLOCK_TEST_…` is for dlock's own tests; the command `dlock run` tells its
/// child about its lock in `DLOCK_KEY` and `DLOCK_FENCE`.
fn is_of_others(name: &str) -> bool {
    matches!(name, "DLOCK_KEY" | "DLOCK_FENCE")
        || name.ends_with("_PORT")
        || name.starts_with("DLOCK_TEST_")
        || ["_PORT_", "_SERVICE_HOST", "_SERVICE_PORT"]
            .iter()
            .any(|part| name.contains(part))
}

fn with_certificate(mut config: Config, path: String) -> Config {
    config.tls.certificate = Some(path.into());
    config
}

fn with_key(mut config: Config, path: String) -> Config {
    config.tls.key = Some(path.into());
    config
}

fn time(text: &str) -> Result<Duration, String> {
    dlock_grammar::duration::parse(text).map_err(|why| why.to_string())
}

fn bare(name: &str) -> &str {
    name.trim_start_matches(PREFIX)
}

fn names() -> impl Iterator<Item = &'static str> {
    let others = SETTINGS.iter().map(|(name, _)| *name);
    std::iter::once(URL).chain(others)
}
