//! The server's address: the URL, parsed once.
//!
//! `several` parses those with more than one host, `postgres` those of PostgreSQL. Never in this folder: a connection. Invariant:
//! an error never repeats the URL's text, for it may hold a password.

mod postgres;
mod several;

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use percent_encoding::percent_decode_str;
use url::Url;

pub(crate) use self::postgres::PostgresAddress;
use self::several::{
    CLUSTER_EXAMPLE, SENTINEL_EXAMPLE, cluster, has_several_hosts, redlock, sentinels,
    several_hosts_for,
};
use super::connector::Connector;
use super::login::{Credentials, Login, Secret};
use super::tls::{self, Tls};
use crate::values::shown::{NAME_AT_MOST, shown};

const EXAMPLE: &str = "give `redis://host:6379`, `rediss://host:6379` (TLS), `redis+sentinel://s1,s2,s3/name`, `redis+cluster://a,b,c`, `redlock://a,b,c`, `redis+unix:///path`, `postgres://user@host/database` or `memory://`";

/// A server's address.
#[derive(Clone, Debug)]
pub(crate) enum Address {
    /// `memory://`
    Memory,
    /// `postgres://` and `postgresql://`.
    Postgres(Arc<PostgresAddress>),
    /// `redis://`, `rediss://`, `redis+sentinel://` and `redis+unix://`, or the same with `valkey`.
    Redis(Arc<RedisAddress>),
    /// `redis+cluster://` and `rediss+cluster://`, or the same with `valkey`.
    Cluster(Arc<ClusterAddress>),
    /// `redlock://` and `redlocks://`: independent masters, of which a quorum decides.
    Redlock(Vec<Arc<RedisAddress>>),
}

/// One Redis server and our login there.
#[derive(Clone, Debug)]
pub(crate) struct RedisAddress {
    pub(crate) endpoint: Endpoint,
    /// Whether and how the connection is encrypted.
    pub(crate) tls: Option<Tls>,
    pub(crate) login: Login,
    pub(crate) database: i64,
    /// `?protocol=resp2`: do not ask for RESP3.
    pub(crate) resp2_only: bool,
    /// Opens the connection in place of dlock's own TCP.
    pub(crate) connector: Option<Connector>,
}

/// What to connect to.
#[derive(Clone, Debug)]
pub(crate) enum Endpoint {
    Tcp(Host),
    Unix(PathBuf),
    /// The master that a majority of sentinels name.
    Sentinels(Arc<Sentinels>),
}

/// Some nodes of a cluster, which know the others.
#[derive(Clone, Debug)]
pub(crate) struct ClusterAddress {
    /// At least one, all different.
    pub(crate) seeds: Vec<Host>,
    /// The first one; the others differ in the endpoint only.
    pub(crate) any: RedisAddress,
}

/// A host's name or address, and a port.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Host {
    pub(crate) name: String,
    pub(crate) port: u16,
}

/// The sentinels of a master.
#[derive(Debug)]
pub(crate) struct Sentinels {
    /// All different.
    pub(crate) hosts: Vec<Host>,
    /// The name by which they know the master.
    pub(crate) master: String,
    /// Our login at the sentinels.
    pub(crate) login: Credentials,
}

impl Address {
    fn redis(address: RedisAddress) -> Self {
        Address::Redis(Arc::new(address))
    }

    fn cluster(address: ClusterAddress) -> Self {
        Address::Cluster(Arc::new(address))
    }

    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let Some((scheme, rest)) = text.split_once("://") else {
            return Err(format!("url: no scheme; {EXAMPLE}"));
        };
        match scheme {
            "memory" if rest.is_empty() => Ok(Address::Memory),
            "memory" => Err("url: `memory://` takes nothing after it".to_owned()),
            "postgres" | "postgresql" if cfg!(not(feature = "postgres")) => Err(format!(
                "url: `{scheme}://` needs the feature `postgres` of dlock-runtime; enable it, or give another server: {EXAMPLE}"
            )),
            "postgres" | "postgresql" => {
                postgres::postgres(rest).map(|it| Address::Postgres(Arc::new(it)))
            }
            "redis" | "valkey" => tcp(&parse(text)?, false).map(Address::redis),
            "rediss" | "valkeys" | "rediss+sentinel" | "valkeys+sentinel" | "rediss+cluster"
            | "valkeys+cluster" | "redlocks"
                if cfg!(not(feature = "tls")) =>
            {
                Err(format!(
                    "url: `{scheme}://` needs the feature `tls` of dlock-runtime; enable it, or {EXAMPLE}"
                ))
            }
            "rediss" | "valkeys" => tcp(&parse(text)?, true).map(Address::redis),
            "redis+unix" | "valkey+unix" => unix(&parse(text)?).map(Address::redis),
            "redis+sentinel" | "valkey+sentinel" => sentinels(rest, false).map(Address::redis),
            "rediss+sentinel" | "valkeys+sentinel" => sentinels(rest, true).map(Address::redis),
            "redis-sentinel" => Err(format!(
                "url: write `redis+sentinel://` for `{scheme}://`; {SENTINEL_EXAMPLE}"
            )),
            "redlock" => redlock(rest, false).map(Address::Redlock),
            "redlocks" => redlock(rest, true).map(Address::Redlock),
            "redis+cluster" | "valkey+cluster" => cluster(rest, false).map(Address::cluster),
            "rediss+cluster" | "valkeys+cluster" => cluster(rest, true).map(Address::cluster),
            "redis-cluster" => Err(format!(
                "url: write `redis+cluster://` for `{scheme}://`; {CLUSTER_EXAMPLE}"
            )),
            _ => Err(format!("url: unknown scheme; {EXAMPLE}")),
        }
    }
}

fn parse(text: &str) -> Result<Url, String> {
    Url::parse(text).map_err(|why| {
        if has_several_hosts(text) {
            return several_hosts_for(); // their ports are no port
        }
        format!("url: {why}; percent-encode special characters of a user name or password")
    })
}

fn tcp(url: &Url, with_tls: bool) -> Result<RedisAddress, String> {
    check_parts(url)?;
    let host = host(url, 6379)?;
    let (tls, resp2_only) = tcp_options(url, with_tls, "", |_, _| false)?;
    Ok(RedisAddress {
        endpoint: Endpoint::Tcp(host),
        tls,
        login: Login::Fixed(login(url)?),
        database: database(url.path().trim_matches('/'))?,
        resp2_only,
        connector: None,
    })
}

/// `redis://user:p@ss/word@host`: the URL parser takes the `/`, `?` or `#` of an unescaped password
/// for the end of the host. No path, query or fragment of ours has an `@`.
fn check_parts(url: &Url) -> Result<(), String> {
    let parts = [Some(url.path()), url.query(), url.fragment()];
    if parts.into_iter().flatten().any(|part| part.contains('@')) {
        return Err(format!(
            "url: an `@` behind the host, as from a password that is not escaped: percent-encode its special characters, `/` as %2F, `@` as %40, \
             `:` as %3A, `?` as %3F, `#` as %23; {EXAMPLE}"
        ));
    }
    Ok(())
}

fn host(url: &Url, port: u16) -> Result<Host, String> {
    let name = match url.host() {
        Some(url::Host::Domain(name)) if name.contains(',') => {
            return Err(several_hosts_for());
        }
        Some(url::Host::Domain(name)) => decode("host", name)?,
        Some(url::Host::Ipv4(ip)) => ip.to_string(),
        Some(url::Host::Ipv6(ip)) => ip.to_string(),
        None => return Err(format!("url: no host; {EXAMPLE}")),
    };
    match url.port().unwrap_or(port) {
        0 => Err(format!("url: nothing listens on port 0; {EXAMPLE}")),
        port => Ok(Host { name, port }),
    }
}

fn login(url: &Url) -> Result<Credentials, String> {
    let password = url.password().map(|it| decode("password", it));
    Ok(Credentials {
        user: filled("user", url.username())?,
        password: password.transpose()?.map(Secret::new),
    })
}

/// The options of every connection by TCP: TLS, and whether to keep to RESP2. `more` takes those of
/// one scheme, which `known` lists.
fn tcp_options(
    url: &Url,
    with_tls: bool,
    known: &str,
    mut more: impl FnMut(&str, &str) -> bool,
) -> Result<(Option<Tls>, bool), String> {
    let (mut tls, mut resp2_only) = (Tls::default(), false);
    options(url, |name, value| {
        if name == "protocol" {
            resp2_only = protocol(value)?;
            return Ok(());
        }
        if more(name, value) {
            return Ok(());
        }
        match (tls.take(name, value)?, with_tls) {
            (true, true) => Ok(()),
            (true, false) => Err(format!(
                "url: `{name}` is for TLS; write `rediss` in place of `redis`, or leave it out"
            )),
            (false, true) => Err(unknown_option(&format!(
                "this URL knows `protocol`, `tls_ca`, `tls_cert`, `tls_key`, `tls_server_name`{known}"
            ))),
            (false, false) => Err(unknown_option(&format!("this URL knows `protocol`{known}"))),
        }
    })?;
    Ok((with_tls.then_some(tls), resp2_only))
}

fn unix(url: &Url) -> Result<RedisAddress, String> {
    if url.host().is_some() || url.path().len() < 2 {
        return Err("url: no path of a socket; give `redis+unix:///run/redis.sock`".to_owned());
    }
    let mut login = Credentials::default();
    let mut address = RedisAddress {
        endpoint: Endpoint::Unix(decode("path", url.path())?.into()),
        tls: None,
        login: Login::Fixed(Credentials::default()),
        database: 0,
        resp2_only: false,
        connector: None,
    };
    options(url, |name, value| {
        match name {
            "protocol" => address.resp2_only = protocol(value)?,
            "db" => address.database = database(value)?,
            "user" => login.user = Some(value.to_owned()),
            "pass" => login.password = Some(Secret::new(value)),
            _ => {
                return Err(unknown_option(
                    "`redis+unix://` knows `db`, `user`, `pass` and `protocol`",
                ));
            }
        }
        Ok(())
    })?;
    address.login = Login::Fixed(login);
    Ok(address)
}

/// Without the option's name: that may be the rest of a password with a bare `?` or `&` in it.
fn unknown_option(known: &str) -> String {
    format!(
        "url: unknown option after the `?`; {known}; percent-encode special characters of a password"
    )
}

fn options(
    url: &Url,
    mut take: impl FnMut(&str, &str) -> Result<(), String>,
) -> Result<(), String> {
    if url.fragment() == Some("insecure") {
        return Err(tls::INSECURE.to_owned());
    }
    if url.fragment().is_some() {
        return Err(
            "url: a `#` begins a fragment, which means nothing here; percent-encode it as %23"
                .to_owned(),
        );
    }
    url.query_pairs()
        .try_for_each(|(name, value)| take(&name, &value))
}

fn protocol(value: &str) -> Result<bool, String> {
    match value {
        "resp2" | "2" => Ok(true),
        "resp3" | "3" => Ok(false),
        _ => Err("url: `protocol` is resp2 or resp3".to_owned()),
    }
}

fn database(text: &str) -> Result<i64, String> {
    match text {
        "" => Ok(0),
        number => match number.parse() {
            Ok(database) if database >= 0 => Ok(database),
            _ => Err("url: the database is no number; give `redis://host:6379/0`".to_owned()),
        },
    }
}

fn filled(what: &str, text: &str) -> Result<Option<String>, String> {
    if text.is_empty() {
        return Ok(None);
    }
    decode(what, text).map(Some)
}

fn decode(what: &str, text: &str) -> Result<String, String> {
    percent_decode_str(text)
        .decode_utf8()
        .map(Into::into)
        .map_err(|_| format!("url: the {what} is not valid UTF-8"))
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Address::Memory => f.write_str("memory://"),
            Address::Postgres(address) => address.fmt(f),
            Address::Redis(address) => address.fmt(f),
            Address::Cluster(cluster) => {
                let with_tls = cluster.any.tls.is_some();
                f.write_str(if with_tls {
                    "rediss+cluster://"
                } else {
                    "redis+cluster://"
                })?;
                for (at, host) in cluster.seeds.iter().enumerate() {
                    let comma = if at > 0 { "," } else { "" };
                    write!(f, "{comma}{host}")?;
                }
                Ok(())
            }
            Address::Redlock(nodes) => {
                let with_tls = nodes.iter().any(|node| node.tls.is_some());
                f.write_str(if with_tls {
                    "redlocks://"
                } else {
                    "redlock://"
                })?;
                for (at, node) in nodes.iter().enumerate() {
                    let comma = if at > 0 { "," } else { "" };
                    match &node.endpoint {
                        Endpoint::Tcp(host) => write!(f, "{comma}{host}")?,
                        _ => write!(f, "{comma}{node}")?,
                    }
                }
                Ok(())
            }
        }
    }
}

impl fmt::Display for RedisAddress {
    /// The address, never the login.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let database = self.database;
        let scheme = if self.tls.is_some() {
            "rediss"
        } else {
            "redis"
        };
        match &self.endpoint {
            Endpoint::Tcp(host) => write!(f, "{scheme}://{host}/{database}"),
            Endpoint::Unix(path) => {
                let path = path.display().to_string();
                let path = shown(&path, NAME_AT_MOST);
                write!(f, "redis+unix://{path}?db={database}")
            }
            Endpoint::Sentinels(sentinels) => {
                write!(f, "{scheme}+sentinel://")?;
                for (at, host) in sentinels.hosts.iter().enumerate() {
                    write!(f, "{}{host}", if at > 0 { "," } else { "" })?;
                }
                write!(f, "/{}/{database}", shown(&sentinels.master, NAME_AT_MOST))
            }
        }
    }
}

impl fmt::Display for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (name, port) = (shown(&self.name, NAME_AT_MOST), self.port); // `%0A` is decoded
        if name.contains(':') {
            write!(f, "[{name}]:{port}")
        } else {
            write!(f, "{name}:{port}")
        }
    }
}
