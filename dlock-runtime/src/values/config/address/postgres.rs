//! `postgres://`: hosts or a socket, a database and how to connect to it.
//!
//! Invariants: what is not encrypted was asked for, or stays on this machine; an option that is not known
//! is an error, so that a misspelt `sslmode` turns nothing off.

use std::fmt;
use std::path::PathBuf;

use super::several::{each_host, several_hosts};
use super::{Endpoint, Host, decode, login, options, unknown_option};
use crate::values::config::Tls;
use crate::values::config::login::Login;
use crate::values::shown::{NAME_AT_MOST, shown};

const EXAMPLE: &str = "give `postgres://user:password@host:5432/database`";

const KNOWN: &str = "`postgres://` knows `sslmode`, `sslrootcert`, `sslcert`, `sslkey`, `tls_server_name`, `host` (a socket's directory), `schema`, `synchronous_commit`, `pooler`, `target_session_attrs`";

const SCHEMA: &str = "dlock";

/// A database and our login there.
#[derive(Clone, Debug)]
#[cfg_attr(
    not(feature = "postgres"),
    allow(dead_code, reason = "nobody connects to it")
)]
pub(crate) struct PostgresAddress {
    /// At least one, tried in this order: that which takes writes.
    pub(crate) endpoints: Vec<Endpoint>,
    pub(crate) tls: Option<Tls>,
    pub(crate) login: Login,
    /// `None`: named as the user.
    pub(crate) database: Option<String>,
    /// A plain name of lower-case letters, digits and underscores.
    pub(crate) schema: String,
    pub(crate) synchronous_commit: Option<&'static str>,
    /// A pooler in transaction mode stands in between: no state of a session stays.
    pub(crate) is_pooled: bool,
}

/// `user:password@h1:5432,h2/database?…`.
pub(super) fn postgres(rest: &str) -> Result<PostgresAddress, String> {
    let (hosts, url) = several_hosts(rest)?;
    let database = decode("database", url.path().trim_start_matches('/'))?;
    if database.contains('/') {
        return Err(format!("url: a `/` in the name of the database; {EXAMPLE}"));
    }
    let mut tls = Tls::default();
    let (mut mode, mut directory) = (None, None);
    let mut address = PostgresAddress {
        endpoints: Vec::new(),
        tls: None,
        login: Login::Fixed(login(&url)?),
        database: Some(database).filter(|it| !it.is_empty()),
        schema: SCHEMA.to_owned(),
        synchronous_commit: None,
        is_pooled: false,
    };
    options(&url, |name, value| {
        match name {
            "sslmode" => mode = Some(encrypts(value)?),
            "sslrootcert" if value == "system" => {}
            "sslrootcert" => drop(tls.take("tls_ca", value)?),
            "sslcert" => drop(tls.take("tls_cert", value)?),
            "sslkey" => drop(tls.take("tls_key", value)?),
            "tls_server_name" => drop(tls.take(name, value)?),
            "host" if value.starts_with('/') => directory = Some(value.to_owned()),
            "host" => {
                return Err(format!(
                    "url: `host` is a socket's directory, such as /run/postgresql; for a server elsewhere {EXAMPLE}"
                ));
            }
            "schema" => address.schema = schema(value)?,
            "synchronous_commit" => address.synchronous_commit = Some(synchronous_commit(value)?),
            "pooler" if value == "transaction" => address.is_pooled = true,
            "pooler" => {
                return Err("url: `pooler` is `transaction`, or is left out".to_owned());
            }
            "target_session_attrs" if value == "read-write" => {}
            "target_session_attrs" => {
                return Err(
                    "url: `target_session_attrs` is `read-write`: locks are rows that are written"
                        .to_owned(),
                );
            }
            _ => return Err(unknown_option(KNOWN)),
        }
        Ok(())
    })?;
    address.endpoints = match directory {
        Some(directory) if hosts.is_empty() || hosts.starts_with(':') => {
            let port = match hosts.strip_prefix(':') {
                Some(port) => port
                    .parse()
                    .map_err(|_| format!("url: the port is no number; {EXAMPLE}"))?,
                None => 5432_u16,
            };
            let path = PathBuf::from(directory).join(format!(".s.PGSQL.{port}"));
            vec![Endpoint::Unix(path)]
        }
        Some(_) => {
            return Err("url: a host and `?host=`; give one of the two".to_owned());
        }
        None if hosts.is_empty() => {
            return Err(format!(
                "url: no host; {EXAMPLE}, or `postgres://user@/database?host=/run/postgresql`"
            ));
        }
        None => {
            let hosts = each_host(hosts, 5432, "host", EXAMPLE)?;
            hosts.into_iter().map(Endpoint::Tcp).collect()
        }
    };
    let is_here = address.endpoints.iter().all(is_on_this_machine);
    let encrypts = mode.unwrap_or(!is_here);
    if encrypts && cfg!(not(feature = "tls")) {
        return Err("url: `postgres://` to another machine is encrypted (`sslmode=verify-full`), which needs the feature `tls` of dlock-runtime; enable it, or write `?sslmode=disable`".to_owned());
    }
    if !encrypts && tls.is_given() {
        return Err("url: certificates are given, but the connection is not encrypted; write `sslmode=verify-full`, or leave them out".to_owned());
    }
    address.tls = encrypts.then_some(tls);
    Ok(address)
}

/// What `sslmode` asks for.
fn encrypts(mode: &str) -> Result<bool, String> {
    match mode {
        "disable" => Ok(false),
        "verify-full" => Ok(true),
        "prefer" | "allow" => Err("url: `sslmode=prefer` and `allow` are refused: anyone between here and the server can turn the encryption off and read the password; write `verify-full`, or `disable` in a network that you trust".to_owned()),
        "require" | "verify-ca" => Err("url: `sslmode=require` and `verify-ca` are refused: they do not check that the certificate is this server's; write `verify-full`, with the CA as `sslrootcert` and, if it is not the host's, the name in it as `tls_server_name`".to_owned()),
        _ => Err("url: `sslmode` is `verify-full` or `disable`".to_owned()),
    }
}

fn is_on_this_machine(endpoint: &Endpoint) -> bool {
    match endpoint {
        Endpoint::Tcp(Host { name, .. }) => {
            let ip = name.parse::<std::net::IpAddr>();
            name == "localhost" || ip.is_ok_and(|ip| ip.is_loopback())
        }
        Endpoint::Unix(_) | Endpoint::Sentinels(_) => true,
    }
}

/// A name that needs no quotes, and can't end a statement.
fn schema(name: &str) -> Result<String, String> {
    let is_first = |it: u8| it.is_ascii_lowercase() || it == b'_';
    let is_plain = name.bytes().all(|it| is_first(it) || it.is_ascii_digit());
    if is_plain && name.bytes().next().is_some_and(is_first) && name.len() <= 63 {
        return Ok(name.to_owned());
    }
    Err("url: `schema` has lower-case letters, digits and underscores only, at most 63, and begins with no digit".to_owned())
}

fn synchronous_commit(value: &str) -> Result<&'static str, String> {
    let all = ["on", "off", "local", "remote_write", "remote_apply"];
    all.into_iter().find(|it| *it == value).ok_or_else(|| {
        "url: `synchronous_commit` is on, off, local, remote_write or remote_apply".to_owned()
    })
}

/// Without the login.
impl fmt::Display for PostgresAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("postgres://")?;
        for (at, endpoint) in self.endpoints.iter().enumerate() {
            if let Endpoint::Tcp(host) = endpoint {
                write!(f, "{}{host}", if at > 0 { "," } else { "" })?;
            }
        }
        let database = self.database.as_deref().unwrap_or_default();
        write!(f, "/{}", shown(database, NAME_AT_MOST))?;
        let mut mark = '?';
        if let Some(Endpoint::Unix(path)) = self.endpoints.first() {
            let path = path.display().to_string();
            write!(f, "{mark}host={}", shown(&path, NAME_AT_MOST))?;
            mark = '&';
        }
        if self.schema != SCHEMA {
            write!(f, "{mark}schema={}", self.schema)?;
        }
        Ok(())
    }
}
