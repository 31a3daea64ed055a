//! Addresses with several hosts: sentinels, nodes of a cluster, and the nodes of a quorum.
//!
//! Invariant: none is named twice, because a sentinel and a node of a quorum have one vote.

use std::sync::Arc;

use url::Url;

use super::{
    Address, ClusterAddress, Credentials, Endpoint, Host, Login, RedisAddress, Secret, Sentinels,
    check_parts, database, decode, host, login, parse, tcp_options,
};
use crate::values::nodes::{MOST_NODES, can_decide};

pub(super) const SENTINEL_EXAMPLE: &str = "give `redis+sentinel://user:password@s1:26379,s2:26379,s3:26379/name`, all sentinels and the name that they know the master by";

pub(super) const CLUSTER_EXAMPLE: &str =
    "give `redis+cluster://user:password@a:6379,b:6379`, any of its nodes; they know the others";

const REDLOCK_EXAMPLE: &str =
    "give `redlock://user:password@a:6379,b:6379,c:6379`, all nodes, each an independent master";

/// More sentinels than anyone runs; each is asked at each connect.
const MOST_SENTINELS: usize = 15;

impl Address {
    /// `Config::redlock`: each node with a URL of its own.
    pub(crate) fn of_nodes(urls: &[String]) -> Result<Self, String> {
        let node = |url: &String| {
            match Address::parse(url)? {
            Address::Redis(node) if !matches!(node.endpoint, Endpoint::Sentinels(_)) => Ok(node),
            _ => Err(
                "redlock: a node is one server; give each as `redis://`, `rediss://` or `redis+unix://`"
                    .to_owned(),
            ),
        }
        };
        let nodes: Vec<_> = urls.iter().map(node).collect::<Result<_, _>>()?;
        check_number(nodes.len())?;
        let names: Vec<_> = nodes.iter().map(ToString::to_string).collect();
        let is_twice =
            |(at, name): (usize, &String)| names.iter().skip(at + 1).any(|it| it == name);
        if names.iter().enumerate().any(is_twice) {
            return Err(
                "redlock: a node is named twice; each has one vote, so name each once".to_owned(),
            );
        }
        Ok(Address::Redlock(nodes))
    }
}

pub(super) fn has_several_hosts(url: &str) -> bool {
    let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
    let hosts = rest.split(['/', '?', '#']).next().unwrap_or(rest);
    let hosts = hosts.rsplit_once('@').map_or(hosts, |(_, hosts)| hosts);
    hosts.contains(',')
}

pub(super) fn several_hosts_for() -> String {
    format!(
        "url: several hosts are for sentinels, a cluster or independent nodes; {SENTINEL_EXAMPLE}, or {CLUSTER_EXAMPLE}, or {REDLOCK_EXAMPLE}"
    )
}

/// `user:password@a,b,c/…` as the list of hosts, and a URL like any other with one host in place of
/// them all.
pub(super) fn several_hosts(rest: &str) -> Result<(&str, Url), String> {
    let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    let (authority, path) = rest.split_at(end);
    let (user, hosts) = match authority.rsplit_once('@') {
        Some((user, hosts)) => (format!("{user}@"), hosts),
        None => (String::new(), authority),
    };
    if user.trim_end_matches('@').contains('@') {
        return Err(
            "url: the login is given once, before the first host; write `%40` for `@` in a password"
                .to_owned(),
        );
    }
    if hosts.contains(';') {
        return Err("url: `;` in the list of hosts; separate them by commas".to_owned());
    }
    if path
        .split(['?', '#'])
        .next()
        .is_some_and(|it| it.contains(','))
    {
        return Err("url: what follows the hosts is given once, behind the last one".to_owned());
    }
    let url = parse(&format!("redis://{user}all{path}"))?;
    check_parts(&url)?;
    Ok((hosts, url))
}

/// `user:password@a,b?…`: the login and the options are the same at all nodes.
pub(super) fn cluster(rest: &str, with_tls: bool) -> Result<ClusterAddress, String> {
    if rest.contains("://") {
        return Err(format!(
            "url: a node is given by host and port, without a scheme; {CLUSTER_EXAMPLE}"
        ));
    }
    let (hosts, url) = several_hosts(rest)?;
    if database(url.path().trim_matches('/'))? != 0 {
        return Err("url: a cluster has the database 0 only; leave the number out".to_owned());
    }
    let (tls, resp2_only) = tcp_options(&url, with_tls, "", |_, _| false)?;
    let seeds = each_host(hosts, 6379, "node", CLUSTER_EXAMPLE)?;
    let Some(first) = seeds.first().cloned() else {
        return Err(format!("url: no node; {CLUSTER_EXAMPLE}"));
    };
    let any = RedisAddress {
        endpoint: Endpoint::Tcp(first),
        tls,
        login: Login::Fixed(login(&url)?),
        database: 0,
        resp2_only,
        connector: None,
    };
    Ok(ClusterAddress { seeds, any })
}

/// `user:password@a,b,c/db?…`: the login and the options are the same at all nodes.
pub(super) fn redlock(rest: &str, with_tls: bool) -> Result<Vec<Arc<RedisAddress>>, String> {
    if rest.contains("://") {
        return Err(format!(
            "url: a node is given by host and port, without a scheme; {REDLOCK_EXAMPLE}, or nodes that differ in more than the host by `Config::redlock`"
        ));
    }
    let (hosts, url) = several_hosts(rest)?;
    if hosts.is_empty() {
        return Err(format!("url: no node; {REDLOCK_EXAMPLE}"));
    }
    let (tls, resp2_only) = tcp_options(&url, with_tls, "", |_, _| false)?;
    let login = login(&url)?;
    let database = database(url.path().trim_matches('/'))?;
    let hosts = each_host(hosts, 6379, "node", REDLOCK_EXAMPLE)?;
    let node = |host| {
        Arc::new(RedisAddress {
            endpoint: Endpoint::Tcp(host),
            tls: tls.clone(),
            login: Login::Fixed(login.clone()),
            database,
            resp2_only,
            connector: None,
        })
    };
    let nodes: Vec<_> = hosts.into_iter().map(node).collect();
    check_number(nodes.len())?;
    Ok(nodes)
}

fn check_number(nodes: usize) -> Result<(), String> {
    match nodes {
        _ if can_decide(nodes) => Ok(()),
        0 => Err(format!("url: no nodes; {REDLOCK_EXAMPLE}")),
        _ if nodes.is_multiple_of(2) => Err(format!(
            "url: {nodes} nodes survive no more failures than {}; {REDLOCK_EXAMPLE}, an odd number of 3 to {MOST_NODES}",
            nodes.saturating_sub(1)
        )),
        1 => Err(format!(
            "url: one node survives no failure; give `redis://` for one server, or an odd number of 3 to {MOST_NODES} nodes"
        )),
        _ => Err(format!(
            "url: {nodes} nodes are more than {MOST_NODES}, which only costs; {REDLOCK_EXAMPLE}"
        )),
    }
}

/// `user:password@s1,s2/name/db?…`: the login is the master's, and the path begins with its name.
pub(super) fn sentinels(rest: &str, with_tls: bool) -> Result<RedisAddress, String> {
    let (hosts, url) = several_hosts(rest)?;
    let path = url.path().trim_matches('/');
    let (master, number) = path.split_once('/').unwrap_or((path, ""));
    let master = decode("master's name", master)?;
    if master.is_empty() {
        return Err(format!("url: no name of a master; {SENTINEL_EXAMPLE}"));
    }
    let mut at_sentinels = Credentials::default();
    let known = ", `sentinel_user`, `sentinel_pass`";
    let (tls, resp2_only) = tcp_options(&url, with_tls, known, |name, value| {
        match name {
            "sentinel_user" => at_sentinels.user = Some(value.to_owned()),
            "sentinel_pass" => at_sentinels.password = Some(Secret::new(value)),
            _ => return false,
        }
        true
    })?;
    Ok(RedisAddress {
        endpoint: Endpoint::Sentinels(Arc::new(Sentinels {
            hosts: each_sentinel(hosts)?,
            master,
            login: at_sentinels,
        })),
        tls,
        login: Login::Fixed(login(&url)?),
        database: database(number)?,
        resp2_only,
        connector: None,
    })
}

fn each_sentinel(hosts: &str) -> Result<Vec<Host>, String> {
    let all = each_host(hosts, 26379, "sentinel", SENTINEL_EXAMPLE)?;
    if all.len() > MOST_SENTINELS {
        return Err(format!(
            "url: more than {MOST_SENTINELS} sentinels; name those of one master"
        ));
    }
    Ok(all)
}

/// `s1:26379,s2`: all different, because each has one vote.
pub(super) fn each_host(
    hosts: &str,
    port: u16,
    what: &str,
    example: &str,
) -> Result<Vec<Host>, String> {
    let mut all: Vec<Host> = Vec::new();
    if hosts.contains(char::is_whitespace) {
        return Err(format!("url: a space in the list of hosts; {example}"));
    }
    for text in hosts.split(',') {
        let next = match parse(&format!("redis://{text}")) {
            Ok(url) if url.path().is_empty() && !text.is_empty() => host(&url, port)?,
            Ok(_) => {
                return Err(format!("url: a {what} without a name; {example}"));
            }
            Err(why) => return Err(why),
        };
        if all.contains(&next) {
            return Err(format!("url: a {what} is named twice; name each once"));
        }
        all.push(next);
    }
    Ok(all)
}
