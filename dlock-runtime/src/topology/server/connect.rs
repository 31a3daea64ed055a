//! Makes one connection: logs in on a stream of `dial`, and checks the server. It does not retry;
//! `slot` does. A connection that it returns is authenticated, checked and, if the server
//! allows it, subscribed to its channel.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;

use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, ProtocolVersion, PushInfo};
use tokio::sync::Semaphore;
use tokio::time::{Instant, timeout_at};

use crate::client::clock_watch::ClockAnswer;
use crate::extras::server_check::Pushes;
use crate::link::command_error::{self, CommandError};
use crate::link::joined::both;
use crate::link::redis::client;
use crate::link::redis::dial::{self, dial};
use crate::link::redis::epochs;
use crate::link::redis::errors;
use crate::link::redis::link::connection::Connection;
use crate::link::redis::link::{Hello, RedisLink};
use crate::link::redis::membership::Membership;
use crate::link::redis::node;
use crate::link::redis::plan::Plan;
use crate::link::redis::push::{Grants, PushReceiver};
use crate::link::redis::reply_bound::{Question, ReplyBound};
use crate::link::redis::server_info::{ServerInfo, ServerRole, read_server_info};
use crate::link::redis::target::{Landing, Outdated};
use crate::observe;
use crate::topology::sentinel;
use crate::values::config::{Credentials, Endpoint, Host, Stream};
use crate::values::error::{Reason, Refusal};

/// The client library's pipeline buffer, large enough for every command. If commands waited for
/// room in it, they would not be sent in the order in which they came, so a cancel could overtake
/// its acquire; and a command that is never polled again would keep its room for ever.
const PIPE: usize = Semaphore::MAX_PERMITS;

/// Makes a connection on the current runtime and completes its handshake.
pub(crate) async fn connect(plan: &Plan) -> Result<RedisLink, CommandError> {
    let within = plan.settings.connect_timeout;
    let mut attempt = pin!(async {
        let until = Instant::now() + within;
        let connected = timeout_at(until, try_protocols(plan, until)).await;
        let to = || format!(" to {}", plan.address);
        connected.unwrap_or_else(|_| Err(CommandError::not_connected(&to(), within)))
    });
    std::future::poll_fn(
        |cx| match command_error::needs_drivers(|| attempt.as_mut().poll(cx)) {
            Ok(progress) => progress,
            Err(missing) => Poll::Ready(Err(missing)),
        },
    )
    .await
}

/// Tries RESP3, then RESP2 if a proxy does not know RESP3.
async fn try_protocols(plan: &Plan, until: Instant) -> Result<RedisLink, CommandError> {
    let destination = Destination::of(plan, until).await?;
    if plan.node.is_some()
        && let Some(why) = node::unfit_settings(plan, destination.generation.is_some())
    {
        return Err(CommandError::Setup(Reason::new(why)));
    }
    let login = &plan.address.login;
    let credentials = client::credentials(login).await?;
    if !plan.address.resp2_only {
        let protocol = ProtocolVersion::RESP3;
        match try_protocol(plan, &destination, protocol, &credentials).await {
            Err(CommandError::Refused(Refusal::Other, why)) if says_no_hello(&why) => {}
            answer => return answer,
        }
    }
    try_protocol(plan, &destination, ProtocolVersion::RESP2, &credentials).await
}

/// Where one connection goes.
struct Destination {
    peer: Peer,
    /// When the attempt to connect ends.
    until: Instant,
    /// The generation of the pool's target when the attempt began.
    begun: u64,
    /// The generation of the pool's target, if the sentinels named the peer: it has to be a master.
    generation: Option<u64>,
}

enum Peer {
    Host(Host),
    Socket(PathBuf),
}

impl Destination {
    async fn of(plan: &Plan, until: Instant) -> Result<Self, CommandError> {
        let begun = plan.target.generation();
        let (peer, generation) = match &plan.address.endpoint {
            Endpoint::Tcp(host) => (Peer::Host(host.clone()), None),
            Endpoint::Unix(path) => (Peer::Socket(path.clone()), None),
            Endpoint::Sentinels(sentinels) => {
                let (asked, within) = (plan.target.generation(), plan.settings.connect_timeout / 2);
                let master = sentinel::master(&plan.address, sentinels, within).await?;
                let Some(generation) = plan.target.master_is(&master, asked) else {
                    return Err(CommandError::Unsent(Reason::new(
                        "the master moved while the sentinels were asked for it",
                    )));
                };
                (Peer::Host(master), Some(generation))
            }
        };
        Ok(Self {
            peer,
            until,
            begun,
            generation,
        })
    }

    fn role(&self, plan: &Plan) -> ServerRole {
        match (&plan.of_cluster, self.generation) {
            (Some(_), _) => ServerRole::NodeOfCluster,
            (None, Some(_)) => ServerRole::Discovered,
            (None, None) => ServerRole::Given,
        }
    }

    fn named_master(&self) -> Option<Host> {
        match &self.peer {
            Peer::Host(host) if self.generation.is_some() => Some(host.clone()),
            _ => None,
        }
    }

    /// Names the master that sentinels named: the pool's address does not say which server it is.
    /// One that was a replica may lack the user.
    fn named_in(&self, plan: &Plan, error: CommandError) -> CommandError {
        let error = match error {
            CommandError::Refused(refusal @ Refusal::Auth, why)
                if self.generation.is_some() || plan.of_cluster.is_some() =>
            {
                let more = "users are not replicated, so create them at each server, before a failover makes it the master";
                CommandError::Refused(refusal, Reason::new(format_args!("{why}; {more}")))
            }
            error => error,
        };
        match (&error, self.named_master()) {
            (CommandError::Refused(..) | CommandError::NoLogin(_), Some(master)) => {
                error.at(format_args!("the master, {master}"))
            }
            _ => error,
        }
    }

    /// The stream, and the address that it goes to, if that is known.
    async fn dial(
        &self,
        plan: &Plan,
    ) -> Result<(Box<dyn Stream>, Option<SocketAddr>), CommandError> {
        match &self.peer {
            Peer::Host(host) => dial(&plan.address, host, self.until).await,
            Peer::Socket(path) => Ok((dial::unix(path).await?, None)),
        }
    }

    /// Notes which server the connection goes to. The master that sentinels name is known by their
    /// word, any other by its run id.
    fn reached(
        &self,
        plan: &Plan,
        connection: &Arc<Connection>,
        peer: Option<SocketAddr>,
    ) -> Result<(), CommandError> {
        let outdated: Arc<dyn Outdated> = connection.clone();
        if let Some(generation) = self.generation {
            plan.target.attach(&outdated, generation);
            return Ok(());
        }
        let run_id = connection.run_id();
        if run_id.is_empty() || (plan.node.is_none() && is_proxy(plan)) {
            return Ok(());
        }
        let landing = Landing {
            run_id: run_id.into(),
            at: peer.map_or_else(|| format!("run id {run_id}"), |peer| peer.to_string()),
        };
        let landed = plan.target.lands(&outdated, landing, self.begun);
        landed.map_err(|several| {
            if let Some([one, other]) = several {
                observe::several_servers(&plan.address, &one, &other);
            }
            CommandError::Unsent(Reason::new(format_args!(
                "{} leads to several servers, and the pool stays with the one that it uses",
                plan.address
            )))
        })
    }

    /// Whether it ended a plain connection because it speaks TLS.
    async fn wants_tls(&self, plan: &Plan) -> bool {
        match &self.peer {
            Peer::Host(host) => dial::wants_tls(&plan.address, host, self.until).await,
            Peer::Socket(_) => false,
        }
    }
}

/// Tries one protocol. A port that ends a plain connection is asked whether it speaks TLS.
async fn try_protocol(
    plan: &Plan,
    destination: &Destination,
    protocol: ProtocolVersion,
    credentials: &Credentials,
) -> Result<RedisLink, CommandError> {
    let dialed = destination.dial(plan).await?;
    let bound = ReplyBound::of(Question::Handshake);
    let shaken = shake_hands(plan, destination, protocol, credentials, dialed, &bound).await;
    match shaken.map_err(|error| bound.explain(error)) {
        Err(CommandError::Unsent(_)) if destination.wants_tls(plan).await => {
            Err(CommandError::Refused(
                Refusal::Tls,
                Reason::new(
                    "the port speaks TLS; write `rediss` in place of `redis` in the URL's scheme",
                ),
            ))
        }
        ended => ended,
    }
    .map_err(|error| destination.named_in(plan, client::of_login(&plan.address.login, error)))
}

fn says_no_hello(why: &Reason) -> bool {
    let why = why.to_string().to_ascii_lowercase();
    why.contains("hello") || why.contains("resp3") || why.contains("noproto")
}

/// What a message that says it is a grant means on a connection.
fn grants_on(plan: &Plan) -> Grants {
    match plan.node {
        Some(_) => Grants::None,
        None if plan.settings.durability.is_asked_for() => Grants::NeedAPoll,
        None => Grants::Count,
    }
}

async fn shake_hands(
    plan: &Plan,
    destination: &Destination,
    protocol: ProtocolVersion,
    credentials: &Credentials,
    (stream, peer): (Box<dyn Stream>, Option<SocketAddr>),
    bound: &Arc<ReplyBound>,
) -> Result<RedisLink, CommandError> {
    let mut config = AsyncConnectionConfig::new().set_pipeline_buffer_size(PIPE);
    if let Some(limit) = plan.settings.max_in_flight {
        config = config.set_concurrency_limit(limit);
    }
    let push_receiver = PushReceiver::new(
        plan.clock,
        plan.settings.clock_margin,
        channels(plan)?,
        plan.grant_key.clone(),
        plan.listener.get().cloned(),
        grants_on(plan),
    );
    if protocol.supports_resp3() {
        let push_receiver = push_receiver.clone();
        config = config.set_push_sender(move |push: PushInfo| {
            push_receiver.hear(&push);
            Ok::<(), Infallible>(())
        });
    }
    let database = plan.address.database;
    let (connection, io_task) =
        client::log_in(stream, database, credentials, protocol, config, bound).await?;
    let sent = plan.clock.now();
    // Both are sent before either is answered, which saves a round trip.
    let key = plan.names.quorum(); // any of the namespace, for a question about rights
    let role = destination.role(plan);
    let server_info = read_server_info(connection.clone(), role, &key, (protocol, is_proxy(plan)));
    let subscribed = async {
        if plan.settings.without_scripts {
            return None; // only scripts publish grants
        }
        let channels = push_receiver.channels();
        Some(subscribe(protocol, channels, connection.clone()).await)
    };
    let (server_info, subscribed) = both(server_info, subscribed).await;
    let ServerInfo {
        time,
        native,
        reads,
        run_id,
        uptime,
    } = match (server_info, plan.node) {
        (Err(error), Some(_)) => return Err(node::refusal_as_node(error)),
        (server_info, _) => server_info?,
    };
    let received = plan.clock.now();
    if plan.settings.durability.is_asked_for() && run_id.is_empty() {
        return Err(CommandError::Refused(
            Refusal::NoPermission,
            Reason::new(
                "`min_replicas` and `min_aof` tell servers apart by their run id; type `ACL SETUSER <user> +info`",
            ),
        ));
    }
    keep_epochs_rising(plan, destination, connection.clone(), time).await?;
    let node = match plan.node {
        None => None,
        Some(of) => {
            let uptime = uptime.filter(|_| !run_id.is_empty());
            let votes_from =
                node::join(&of, &key, connection.clone(), reads, uptime, received).await?;
            let heard = plan.clock.now();
            let clock = ClockAnswer { sent, heard, time };
            Some(Membership::new(of, &key, votes_from, clock))
        }
    };
    push_receiver.answered(time, sent);
    plan.pace.heard(time, sent, plan.clock.now());
    let (address, pushes) = match subscribed {
        None => (None, Pushes::Unused),
        Some(Ok(())) => {
            let run_id = if is_proxy(plan) { "" } else { &run_id };
            let address = format!("{run_id};{}", push_receiver.channel());
            (Some(address.into()), Pushes::Available)
        }
        // A refusal that passes by itself does not mean that the server has no pushes.
        Some(Err(CommandError::Refused(refusal, why))) if !refusal.may_pass() => {
            plan.waiters_poll(&why);
            (None, no_pushes(plan, protocol, why))
        }
        Some(Err(error)) => return Err(error),
    };
    let hello = Hello {
        time,
        push_receiver,
        address,
        pushes,
        native,
        reads,
        run_id,
        generation: destination.generation,
        master: destination.named_master(),
        node,
    };
    bound.set(Question::AboutLocks);
    let link = RedisLink::new(connection, io_task, plan, hello);
    destination.reached(plan, &link.connection, peer)?;
    Ok(link)
}

/// Behind a proxy that shards, the run id that a connection shows is not that of each lock's server.
fn is_proxy(plan: &Plan) -> bool {
    plan.names.only_counter().is_none() && plan.of_cluster.is_none()
}

/// With a clock that is past all epochs that this pool was given, those drawn from now on are higher
/// by themselves. Counters by slot are not raised: there are too many.
async fn keep_epochs_rising(
    plan: &Plan,
    destination: &Destination,
    connection: MultiplexedConnection,
    time: u64,
) -> Result<(), CommandError> {
    let highest = plan.highest_epoch.get();
    let Some(counter) = plan.names.only_counter().filter(|_| highest >= time) else {
        return Ok(());
    };
    let by = if plan.settings.without_scripts {
        epochs::RaiseBy::Transaction
    } else {
        epochs::RaiseBy::Script
    };
    let raised = epochs::raise(connection, counter, highest, by).await;
    raised.map_err(|error| match error {
        CommandError::Refused(refusal, why)
            if destination.generation.is_some() && errors::is_of_a_failover(refusal, &why) =>
        {
            CommandError::Unsent(why)
        }
        error => error,
    })
}

/// A random channel name, and at a node that of the pool. Two connections that share a random one ignore
/// each other's messages.
fn channels(plan: &Plan) -> Result<Vec<String>, CommandError> {
    let mut id = [0; 8];
    getrandom::fill(&mut id).map_err(|why| {
        CommandError::Setup(Reason::new(format_args!(
            "the system gives no random numbers: {why}"
        )))
    })?;
    let of_pool = plan.node.map(|it| it.pool);
    let all = [u64::from_le_bytes(id)].into_iter().chain(of_pool);
    Ok(all.map(|id| plan.names.channel(id)).collect())
}

/// Subscribes the connection to its channels. Refused if the ACL or a proxy forbids it, or with RESP2.
async fn subscribe(
    protocol: ProtocolVersion,
    channels: &[String],
    mut connection: MultiplexedConnection,
) -> Result<(), CommandError> {
    if !protocol.supports_resp3() {
        let why = Reason::new("RESP2 has no pushes");
        return Err(CommandError::Refused(Refusal::Other, why));
    }
    let subscribed = connection.subscribe(channels).await;
    subscribed.map_err(|error| errors::handshake_error(&error))
}

fn no_pushes(plan: &Plan, protocol: ProtocolVersion, why: Reason) -> Pushes {
    if protocol.supports_resp3() {
        return Pushes::Refused(why);
    }
    Pushes::Resp2 {
        asked_for: plan.address.resp2_only,
    }
}
