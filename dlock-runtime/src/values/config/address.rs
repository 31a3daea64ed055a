//! The server's address: the URL, parsed once.
//!
//! It does not connect. Invariant: an error never repeats the URL's text, for it may hold a
//! password.

use std::fmt;
use std::path::PathBuf;

use percent_encoding::percent_decode_str;
use url::Url;

use crate::values::shown::{NAME_AT_MOST, shown};

const EXAMPLE: &str = "give `redis://host:6379`, `redis+unix:///path` or `memory://`";

/// A server's address.
#[derive(Clone, Debug)]
pub(crate) enum Address {
    /// `memory://`
    Memory,
    /// `redis://` and `redis+unix://`, or the same with `valkey`.
    Redis(RedisAddress),
}

/// One Redis server and our login there.
#[derive(Clone, Debug)]
pub(crate) struct RedisAddress {
    pub(crate) endpoint: Endpoint,
    pub(crate) user: Option<String>,
    pub(crate) password: Option<Secret>,
    pub(crate) database: i64,
    /// `?protocol=resp2`: do not ask for RESP3.
    pub(crate) resp2_only: bool,
}

/// What to connect to.
#[derive(Clone, Debug)]
pub(crate) enum Endpoint {
    Tcp { host: String, port: u16 },
    Unix(PathBuf),
}

/// Text that no output shows.
#[derive(Clone)]
pub(crate) struct Secret(String);

impl Secret {
    pub(crate) fn new(text: String) -> Self {
        Self(text)
    }

    pub(crate) fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("<secret>")
    }
}

impl Address {
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let Some((scheme, rest)) = text.split_once("://") else {
            return Err(format!("url: no scheme; {EXAMPLE}"));
        };
        match scheme {
            "memory" if rest.is_empty() => Ok(Address::Memory),
            "memory" => Err("url: `memory://` takes nothing after it".to_owned()),
            "redis" | "valkey" => tcp(&parse(text)?).map(Address::Redis),
            "redis+unix" | "valkey+unix" => unix(&parse(text)?).map(Address::Redis),
            "rediss" | "valkeys" | "redis+sentinel" | "redis-sentinel" | "redis+cluster"
            | "redis-cluster" | "redlock" => Err(format!(
                "url: `{scheme}://` is not supported yet; {EXAMPLE}{}",
                if matches!(scheme, "rediss" | "valkeys") {
                    "; for TLS, put a tunnel such as stunnel on this host"
                } else {
                    ""
                }
            )),
            _ => Err(format!("url: unknown scheme; {EXAMPLE}")),
        }
    }
}

fn parse(text: &str) -> Result<Url, String> {
    Url::parse(text).map_err(|why| {
        format!("url: {why}; percent-encode special characters of a user name or password")
    })
}

fn tcp(url: &Url) -> Result<RedisAddress, String> {
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
    let mut address = RedisAddress {
        endpoint: Endpoint::Tcp {
            host,
            port: url.port().unwrap_or(6379),
        },
        user: filled("user", url.username())?,
        password: url
            .password()
            .map(|it| decode("password", it))
            .transpose()?
            .map(Secret),
        database: database(url.path().trim_matches('/'))?,
        resp2_only: false,
    };
    options(url, |name, value| match name {
        "protocol" => protocol(value).map(|resp2| address.resp2_only = resp2),
        _ => Err(unknown_option("`redis://` knows `protocol`")),
    })?;
    Ok(address)
}

fn unix(url: &Url) -> Result<RedisAddress, String> {
    if url.host().is_some() || url.path().len() < 2 {
        return Err("url: no path of a socket; give `redis+unix:///run/redis.sock`".to_owned());
    }
    let mut address = RedisAddress {
        endpoint: Endpoint::Unix(decode("path", url.path())?.into()),
        user: None,
        password: None,
        database: 0,
        resp2_only: false,
    };
    options(url, |name, value| {
        match name {
            "protocol" => address.resp2_only = protocol(value)?,
            "db" => address.database = database(value)?,
            "user" => address.user = Some(value.to_owned()),
            "pass" => address.password = Some(Secret(value.to_owned())),
            _ => {
                return Err(unknown_option(
                    "`redis+unix://` knows `db`, `user`, `pass` and `protocol`",
                ));
            }
        }
        Ok(())
    })?;
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
                let host = shown(host, NAME_AT_MOST); // `%0A` is decoded
                if host.contains(':') {
                    write!(f, "redis://[{host}]:{port}/{database}")
                } else {
                    write!(f, "redis://{host}:{port}/{database}")
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
