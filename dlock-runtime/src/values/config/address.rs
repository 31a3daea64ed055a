//! The server's address: the URL, parsed once.
//!
//! It does not connect. Invariant: an error never repeats the URL's text, for it may hold a
//! password.

use std::fmt;
use std::path::PathBuf;

use percent_encoding::percent_decode_str;
use url::Url;

use super::connector::Connector;
use super::login::{Credentials, Login, Secret};
use super::tls::{self, Tls};
use crate::values::shown::{NAME_AT_MOST, shown};

const EXAMPLE: &str =
    "give `redis://host:6379`, `rediss://host:6379` (TLS), `redis+unix:///path` or `memory://`";

/// A server's address.
#[derive(Clone, Debug)]
pub(crate) enum Address {
    /// `memory://`
    Memory,
    /// `redis://`, `rediss://` and `redis+unix://`, or the same with `valkey`.
    Redis(Box<RedisAddress>),
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
    Tcp { host: String, port: u16 },
    Unix(PathBuf),
}

impl Address {
    fn redis(address: RedisAddress) -> Self {
        Address::Redis(Box::new(address))
    }

    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let Some((scheme, rest)) = text.split_once("://") else {
            return Err(format!("url: no scheme; {EXAMPLE}"));
        };
        match scheme {
            "memory" if rest.is_empty() => Ok(Address::Memory),
            "memory" => Err("url: `memory://` takes nothing after it".to_owned()),
            "redis" | "valkey" => tcp(&parse(text)?, false).map(Address::redis),
            "rediss" | "valkeys" if cfg!(not(feature = "tls")) => Err(format!(
                "url: `{scheme}://` needs the feature `tls` of dlock-runtime; enable it, or {EXAMPLE}"
            )),
            "rediss" | "valkeys" => tcp(&parse(text)?, true).map(Address::redis),
            "redis+unix" | "valkey+unix" => unix(&parse(text)?).map(Address::redis),
            "redis+sentinel" | "redis-sentinel" | "redis+cluster" | "redis-cluster" | "redlock" => {
                Err(format!(
                    "url: `{scheme}://` is not supported yet; {EXAMPLE}"
                ))
            }
            _ => Err(format!("url: unknown scheme; {EXAMPLE}")),
        }
    }
}

fn parse(text: &str) -> Result<Url, String> {
    Url::parse(text).map_err(|why| {
        format!("url: {why}; percent-encode special characters of a user name or password")
    })
}

fn tcp(url: &Url, with_tls: bool) -> Result<RedisAddress, String> {
    // `redis://user:p@ss/word@host`: the URL parser takes the `/`, `?` or `#` of an unescaped
    // password for the end of the host. No path, query or fragment of ours has an `@`.
    let parts = [Some(url.path()), url.query(), url.fragment()];
    if parts.into_iter().flatten().any(|part| part.contains('@')) {
        return Err(format!(
            "url: an `@` behind the host, as from a password that is not escaped: percent-encode its special characters, `/` as %2F, `@` as %40, \
             `:` as %3A, `?` as %3F, `#` as %23; {EXAMPLE}"
        ));
    }
    let host = match url.host() {
        Some(url::Host::Domain(name)) if name.contains(',') => {
            return Err(format!(
                "url: several hosts are not supported yet; {EXAMPLE}"
            ));
        }
        Some(url::Host::Domain(name)) => decode("host", name)?,
        Some(url::Host::Ipv4(ip)) => ip.to_string(),
        Some(url::Host::Ipv6(ip)) => ip.to_string(),
        None => return Err(format!("url: no host; {EXAMPLE}")),
    };
    let mut tls = Tls::default();
    let mut resp2_only = false;
    options(url, |name, value| {
        if name == "protocol" {
            resp2_only = protocol(value)?;
            return Ok(());
        }
        let is_for_tls = tls.take(name, value)?;
        match (is_for_tls, with_tls) {
            (true, true) => Ok(()),
            (true, false) => Err(format!(
                "url: `{name}` is for TLS; write `rediss://` in place of `redis://`, or leave it out"
            )),
            (false, true) => Err(unknown_option(
                "`rediss://` knows `protocol`, `tls_ca`, `tls_cert`, `tls_key` and `tls_server_name`",
            )),
            (false, false) => Err(unknown_option("`redis://` knows `protocol`")),
        }
    })?;
    let password = url.password().map(|it| decode("password", it));
    Ok(RedisAddress {
        endpoint: Endpoint::Tcp {
            host,
            port: url.port().unwrap_or(6379),
        },
        tls: with_tls.then_some(tls),
        login: Login::Fixed(Credentials {
            user: filled("user", url.username())?,
            password: password.transpose()?.map(Secret::new),
        }),
        database: database(url.path().trim_matches('/'))?,
        resp2_only,
        connector: None,
    })
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
            Address::Redis(address) => address.fmt(f),
        }
    }
}

impl fmt::Display for RedisAddress {
    /// The address, never the login.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let database = self.database;
        match &self.endpoint {
            Endpoint::Tcp { host, port } => {
                let scheme = if self.tls.is_some() {
                    "rediss"
                } else {
                    "redis"
                };
                let host = shown(host, NAME_AT_MOST); // `%0A` is decoded
                if host.contains(':') {
                    write!(f, "{scheme}://[{host}]:{port}/{database}")
                } else {
                    write!(f, "{scheme}://{host}:{port}/{database}")
                }
            }
            Endpoint::Unix(path) => {
                let path = path.display().to_string();
                let path = shown(&path, NAME_AT_MOST);
                write!(f, "redis+unix://{path}?db={database}")
            }
        }
    }
}
