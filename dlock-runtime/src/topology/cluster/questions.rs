//! Asks the nodes of a cluster who serves which slots, over short connections of its own: a node
//! that is asked may be a replica, which no lock's connection goes to.

use std::collections::BTreeSet;
use std::panic::resume_unwind;
use std::sync::Arc;
use std::time::Duration;

use redis::{AsyncConnectionConfig, ProtocolVersion, RedisResult, Value};
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout_at};

use crate::link::command_error::{self, CommandError};
use crate::link::redis::dial::{self, dial};
use crate::link::redis::redirects::node;
use crate::link::redis::reply_bound::{Question, ReplyBound};
use crate::link::redis::{client, errors, reply};
use crate::topology::cluster::slot_map::Listed;
use crate::values::config::{Credentials, Endpoint, Host, RedisAddress, Stream};
use crate::values::error::{Reason, Refusal};
use crate::values::slot::SLOTS;

/// So many nodes are asked at the same time, and as many more each time that none has answered for a
/// while.
const AT_ONCE: usize = 5;
const A_WHILE: Duration = Duration::from_millis(150);

/// When one has answered, the others are waited for this much longer: it may live in the past.
const FOR_THE_OTHERS: Duration = Duration::from_millis(50);

/// A cluster has no more masters: what Redis is made for, and few enough to connect to.
const MOST_MASTERS: usize = 1000;

const LENGTH_OF_AN_ID: usize = 40;

/// So many are kept at most: of so many masters, with three replicas each.
const MOST_IDS: usize = 4 * MOST_MASTERS;

/// What nodes say.
pub(super) struct NodesSaid {
    /// The highest configuration epoch that one of them knows, or 0: the later of two answers has
    /// the higher one.
    pub(super) epoch: u64,
    /// One list for each, the latest first. A list may lack slots.
    pub(super) lists: Vec<Vec<Listed>>,
    /// The ids of the nodes in the first list.
    pub(super) ids: BTreeSet<String>,
}

impl NodesSaid {
    /// Answers from another cluster than that of the `known` nodes count only if there are no
    /// others: then it was made anew.
    ///
    /// # Errors
    /// If nothing is known, and they are from two clusters: which one has the locks?
    fn of_all(
        mut answers: Vec<(String, View)>,
        known: &BTreeSet<String>,
    ) -> Result<Option<Self>, CommandError> {
        let is_known = |(_, it): &(String, View)| !are_two_clusters(&it.ids, known);
        if answers.iter().any(is_known) {
            answers.retain(is_known);
        }
        answers.sort_by_key(|(_, it)| std::cmp::Reverse(it.epoch));
        let Some((node, first)) = answers.first() else {
            return Ok(None);
        };
        let (epoch, ids) = (first.epoch, first.ids.clone());
        let other = answers
            .iter()
            .find(|(_, it)| are_two_clusters(&it.ids, &ids));
        if let (Some((other, _)), true) = (other, known.is_empty()) {
            return Err(CommandError::Setup(Reason::new(format_args!(
                "{node} and {other} are nodes of two clusters, none of which knows a node of the other; name nodes of one"
            ))));
        }
        let lists = answers.into_iter().map(|(_, it)| it.listed).collect();
        Ok(Some(Self { epoch, lists, ids }))
    }
}

/// What one node says.
struct View {
    epoch: u64,
    listed: Vec<Listed>,
    /// The ids of the masters and replicas in it.
    ids: BTreeSet<String>,
}

/// A cluster has no name. Of one, all nodes know some others in common, also after a failover.
pub(super) fn are_two_clusters(one: &BTreeSet<String>, other: &BTreeSet<String>) -> bool {
    !one.is_empty() && !other.is_empty() && one.is_disjoint(other)
}

/// The answers of those that answer soon. `known`: the ids of nodes of this cluster; `is_new`: only
/// the nodes that the configuration names are known yet.
pub(super) async fn who_serves_what(
    addresses: &[Arc<RedisAddress>],
    (known, is_new): (&BTreeSet<String>, bool),
    until: Instant,
) -> Result<NodesSaid, CommandError> {
    let (mut errors, mut answers) = (Vec::new(), Vec::new());
    // Its drop ends what is not needed any more.
    let mut asked: JoinSet<(String, Result<View, CommandError>)> = JoinSet::new();
    let mut more = addresses.chunks(AT_ONCE);
    let mut patience = Instant::now();
    loop {
        let answered = timeout_at(patience.min(until), asked.join_next()).await;
        match answered {
            Ok(Some(Ok((node, Ok(said))))) => {
                if answers.is_empty() {
                    patience = Instant::now() + FOR_THE_OTHERS;
                }
                answers.push((node, said));
            }
            Ok(Some(Ok((node, Err(error))))) => errors.push((node, error)),
            Ok(Some(Err(error))) if error.is_panic() => {
                // Of a runtime without I/O, or of the program's connector.
                let panic = error.into_panic();
                return command_error::needs_drivers(|| resume_unwind(panic));
            }
            Ok(Some(Err(_))) => {} // the runtime is shutting down
            Ok(None) | Err(_) => {
                // Which one has the locks? Later, a node may name any server, or its address may have
                // become another's.
                if is_new
                    && let Some((node, CommandError::Setup(why))) = errors
                        .iter()
                        .find(|(_, it)| matches!(it, CommandError::Setup(_)))
                {
                    return Err(CommandError::Setup(why.clone()).at(node));
                }
                if let Some(said) = NodesSaid::of_all(std::mem::take(&mut answers), known)? {
                    return Ok(said);
                }
                let next = more.next();
                if Instant::now() >= until || (next.is_none() && asked.is_empty()) {
                    return Err(nobody(&errors));
                }
                for address in next.into_iter().flatten() {
                    let address = address.clone();
                    asked.spawn(async move { ask(&address, until).await });
                }
                let is_last = more.len() == 0;
                patience = if is_last {
                    until
                } else {
                    Instant::now() + A_WHILE
                };
            }
        }
    }
}

/// A refusal, a failed login or a wrong setup counts before silence: waiting does not end it.
fn nobody(errors: &[(String, CommandError)]) -> CommandError {
    let lasts =
        |error: &CommandError| !error.may_pass() || matches!(error, CommandError::NoLogin(_));
    let lasting = errors.iter().find(|(_, error)| lasts(error));
    if let Some((node, error)) = lasting {
        return error.clone().at(node);
    }
    let answer = |(_, error): &(_, CommandError)| matches!(error, CommandError::Unserved(_));
    let they_answer = errors.iter().any(answer);
    let each: Vec<_> = errors
        .iter()
        .map(|(node, why)| format!("{node}: {why}"))
        .collect();
    let each = if each.is_empty() {
        "none in time".to_owned()
    } else {
        each.join("; ")
    };
    let why = Reason::new(format_args!(
        "no node of the cluster says who serves what ({each})"
    ));
    if they_answer {
        CommandError::Unserved(why)
    } else {
        CommandError::Unsent(why)
    }
}

/// The node's name, and what it says.
async fn ask(address: &RedisAddress, until: Instant) -> (String, Result<View, CommandError>) {
    let Endpoint::Tcp(host) = &address.endpoint else {
        let why = Reason::new("a node is given by host and port");
        return (address.to_string(), Err(CommandError::Setup(why)));
    };
    let silent = |_| Err(CommandError::Unsent(Reason::new("no answer")));
    let asking = timeout_at(until, question(address, host, until)).await;
    (host.to_string(), asking.unwrap_or_else(silent))
}

async fn question(
    address: &RedisAddress,
    host: &Host,
    until: Instant,
) -> Result<View, CommandError> {
    let credentials = client::credentials(&address.login).await?;
    let (stream, _) = dial(address, host, until).await?;
    let ([slots, info], is_standalone) = match exchange(&credentials, stream).await {
        Err(CommandError::Unsent(_)) if dial::wants_tls(address, host, until).await => {
            return Err(CommandError::Refused(
                Refusal::Tls,
                Reason::new(
                    "it speaks TLS; write `rediss` in place of `redis` in the URL's scheme",
                ),
            ));
        }
        answers => answers.map_err(|error| client::of_login(&address.login, error))?,
    };
    let slots = slots.map_err(|error| {
        if is_standalone || error.to_string().contains("cluster support disabled") {
            return CommandError::Setup(Reason::new(
                "it is no node of a cluster; for one server leave `+cluster` out of the URL's scheme",
            ));
        }
        errors::handshake_error(&error)
    })?;
    let listed = read(&slots, host).ok_or_else(|| reply::unexpected("CLUSTER SLOTS", &slots))?;
    if listed.is_empty() {
        return Err(CommandError::Unserved(Reason::new(
            "it knows of no slot that is served: is it in a cluster yet (`redis-cli --cluster create`, `add-node`)?",
        )));
    }
    let masters: BTreeSet<&Host> = listed.iter().map(|it| &it.node).collect();
    if masters.len() > MOST_MASTERS {
        return Err(CommandError::Unsent(Reason::new(format_args!(
            "it lists {} masters; dlock takes a cluster of at most {MOST_MASTERS}",
            masters.len()
        ))));
    }
    let info = info
        .ok()
        .and_then(|info| reply::text(&info))
        .unwrap_or_default();
    if info.contains("cluster_state:fail") {
        let why = "it says that the cluster is down";
        return Err(CommandError::Unserved(Reason::new(why)));
    }
    let epoch = info
        .lines()
        .find_map(|line| line.strip_prefix("cluster_current_epoch:"));
    let epoch = epoch
        .and_then(|epoch| epoch.trim().parse().ok())
        .unwrap_or(0);
    let ids = ids(&slots);
    Ok(View { epoch, listed, ids })
}

/// The answers to `CLUSTER SLOTS` and `CLUSTER INFO`. If the user may not ask, also whether the server
/// says that it is none of a cluster, which it would have answered to another user.
async fn exchange(
    credentials: &Credentials,
    stream: Box<dyn Stream>,
) -> Result<([RedisResult<Value>; 2], bool), CommandError> {
    let config = AsyncConnectionConfig::new();
    let protocol = ProtocolVersion::RESP2; // nothing here needs the other
    let bound = ReplyBound::of(Question::Handshake);
    let (mut connection, _io_task) =
        client::log_in(stream, 0, credentials, protocol, config, &bound).await?;
    bound.set(Question::WhoServesWhat);
    let mut both = redis::pipe();
    both.cmd("CLUSTER").arg("SLOTS").cmd("CLUSTER").arg("INFO");
    both.ignore_errors(); // each has its own answer
    let answers = both.query_async(&mut connection).await;
    let answers: [RedisResult<Value>; 2] =
        answers.map_err(|error| bound.explain(errors::handshake_error(&error)))?;
    let mut mode = None;
    if answers[0]
        .as_ref()
        .err()
        .is_some_and(errors::is_without_right)
    {
        bound.set(Question::Handshake);
        let hello = redis::cmd("HELLO");
        let hello = hello.query_async(&mut connection).await;
        mode = reply::field(&hello.unwrap_or(Value::Nil), "mode");
    }
    Ok((answers, mode.as_deref() == Some("standalone")))
}

/// The answer of `CLUSTER SLOTS`: for each range its first and last slot, its master, and replicas.
fn read(slots: &Value, asked: &Host) -> Option<Vec<Listed>> {
    let Value::Array(ranges) = slots else {
        return None;
    };
    let range = |range: &Value| {
        let Value::Array(range) = range else {
            return None;
        };
        let [first, last, Value::Array(master), ..] = &range[..] else {
            return None;
        };
        let slot = |value| {
            u16::try_from(reply::number(value)?)
                .ok()
                .filter(|it| *it < SLOTS)
        };
        let port = u16::try_from(reply::number(master.get(1)?)?).ok()?;
        let slots = slot(first)?..=slot(last)?;
        let mut name = reply::text(master.first()?);
        if name.as_deref() == Some("?") {
            name = master.get(3).and_then(|added| reply::field(added, "ip")); // it prefers a name, and has none
        }
        (!slots.is_empty()).then_some(Listed {
            slots,
            node: node(name.as_deref(), port, asked)?,
        })
    };
    ranges.iter().map(range).collect()
}

fn parts(value: &Value) -> &[Value] {
    match value {
        Value::Array(parts) => parts,
        _ => &[],
    }
}

/// The ids of the masters and replicas in an answer that could be read; not what is no id.
fn ids(slots: &Value) -> BTreeSet<String> {
    let nodes = parts(slots)
        .iter()
        .flat_map(|range| parts(range).iter().skip(2));
    let ids = nodes.filter_map(|node| reply::text(parts(node).get(2)?));
    let ids = ids.filter(|it| it.len() == LENGTH_OF_AN_ID);
    ids.take(MOST_IDS).collect()
}

#[cfg(test)]
mod tests {
    use redis::Value;

    use super::*;

    fn host(name: &str, port: u16) -> Host {
        let name = name.to_owned();
        Host { name, port }
    }

    fn text(text: &str) -> Value {
        Value::BulkString(text.as_bytes().to_vec())
    }

    fn range(first: i64, last: i64, node: [Value; 2]) -> Value {
        let [name, port] = node;
        let node = Value::Array(vec![name, port, text("id")]);
        Value::Array(vec![Value::Int(first), Value::Int(last), node])
    }

    #[test]
    fn a_list_is_read_whole_or_not_at_all() {
        let asked = host("asked", 1);
        let port = || Value::Int(6381);
        let names = [text("a"), text(""), text("?"), Value::Nil];
        let ranges = names.into_iter().zip(0..);
        let ranges = ranges.map(|(name, at)| range(at, at, [name, port()]));
        let read_names = |listed: Vec<Listed>| listed.into_iter().map(|it| it.node.name);
        let listed = read(&Value::Array(ranges.collect()), &asked);
        assert!(read_names(listed.unwrap()).eq(["a", "asked", "asked", "asked"]));
        for strange in [
            Value::Nil,
            Value::Array(vec![Value::Int(1)]),
            Value::Array(vec![range(-1, 5, [text("a"), port()])]),
            Value::Array(vec![range(0, 16_384, [text("a"), port()])]),
            Value::Array(vec![range(5, 0, [text("a"), port()])]),
            Value::Array(vec![range(0, 5, [text("a"), Value::Int(0)])]),
            Value::Array(vec![range(0, 5, [text("a"), text("six")])]),
        ] {
            assert_eq!(read(&strange, &asked), None, "{strange:?}");
        }
        assert_eq!(read(&Value::Array(Vec::new()), &asked), Some(Vec::new()));
    }

    /// Its preferred kind of endpoint is a name, and it has none.
    #[test]
    fn a_node_without_a_name_is_reached_at_its_ip() {
        let asked = host("asked", 1);
        for (metadata, name) in [
            (vec![text("ip"), text("10.0.0.7")], "10.0.0.7"),
            (
                vec![text("hostname"), text(""), text("ip"), text("10.0.0.7")],
                "10.0.0.7",
            ),
            (vec![text("ip")], "asked"),
            (vec![text("ip"), text("")], "asked"),
            (vec![], "asked"),
        ] {
            let node = vec![
                text("?"),
                Value::Int(6381),
                text("id"),
                Value::Array(metadata),
            ];
            let range = vec![Value::Int(0), Value::Int(1), Value::Array(node)];
            let listed = read(&Value::Array(vec![Value::Array(range)]), &asked).unwrap();
            assert_eq!(listed[0].node, host(name, 6381));
        }
    }

    fn view(node: &str, epoch: u64, ids: &[&str]) -> (String, View) {
        let ids = ids.iter().map(|it| (*it).to_owned()).collect();
        let listed = vec![Listed {
            slots: 0..=1,
            node: host(node, 1),
        }];
        (node.to_owned(), View { epoch, listed, ids })
    }

    /// The nodes whose lists count, in order.
    fn counted(answers: Vec<(String, View)>, known: &[&str]) -> Result<Vec<String>, CommandError> {
        let known = known.iter().map(|it| (*it).to_owned()).collect();
        let said = NodesSaid::of_all(answers, &known)?.unwrap();
        Ok(said
            .lists
            .into_iter()
            .map(|it| it[0].node.name.clone())
            .collect())
    }

    #[test]
    fn another_cluster_counts_only_if_it_is_alone() {
        let ours = || view("ours", 3, &["a", "b"]);
        let late = || view("late", 2, &["b", "c"]);
        let other = || view("other", 9, &["x"]);
        let no_ids = || view("no_ids", 1, &[]);
        for (answers, known, expected) in [
            (vec![late(), ours()], &[][..], &["ours", "late"][..]),
            (vec![late(), ours()], &["c"], &["late"]),
            (vec![other(), ours(), late()], &["b"], &["ours", "late"]),
            (vec![other(), no_ids()], &["b"], &["no_ids"]),
            (vec![other()], &["b"], &["other"]), // it was made anew
            (vec![no_ids(), ours()], &[], &["ours", "no_ids"]),
        ] {
            assert_eq!(counted(answers, known).unwrap(), expected);
        }
        let error = counted(vec![ours(), other()], &[]).unwrap_err();
        let said = error.to_string();
        assert!(
            said.starts_with("other and ours are nodes of two clusters"),
            "{said}"
        );
    }

    #[test]
    fn what_is_no_id_is_no_nodes() {
        let (id, port) = (|digit: &str| digit.repeat(40), || Value::Int(1));
        let node = |id: &str| Value::Array(vec![text("a"), port(), text(id)]);
        let (master, replica) = (id("a"), id("b"));
        let both = vec![Value::Int(0), Value::Int(1), node(&master), node(&replica)];
        let strange = Value::Array(vec![Value::Int(2), Value::Int(2), node("id"), Value::Nil]);
        let slots = Value::Array(vec![Value::Array(both), strange, Value::Nil]);
        assert_eq!(ids(&slots), BTreeSet::from([master, replica]));
        assert_eq!(ids(&Value::Nil), BTreeSet::new());
    }
}
