//! Sentinels: asks them for the master's address, and hears when they agree on another.
//!
//! Only what a majority of all configured sentinels says counts, so one that lies or lives in the
//! past decides nothing; a push of one is a reason to ask them all. Nothing is sent to the master
//! here.

use std::convert::Infallible;
use std::panic::resume_unwind;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, ProtocolVersion, PushInfo, PushKind, RedisError, Value};
use tokio::sync::Notify;
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::link::command_error::{self, CommandError};
use crate::link::redis::client;
use crate::link::redis::dial::dial;
use crate::link::redis::io_task::IoTask;
use crate::link::redis::plan::Plan;
use crate::link::redis::reply_bound::{Question, ReplyBound};
use crate::link::redis::{errors, reply};
use crate::observe;
use crate::topology::votes::Votes;
use crate::values::config::{Host, RedisAddress, Sentinels};
use crate::values::error::{Reason, Refusal};
use crate::values::shown::NAME_AT_MOST;

/// What one sentinel says about the master.
#[derive(Clone, Debug, PartialEq, Eq)]
enum SentinelAnswer {
    At(Host),
    /// It knows no master of this name.
    UnknownName,
    /// It is a server, and no sentinel.
    NoSentinel,
}

/// The address of the master: asks all sentinels at the same time, and returns as soon as a
/// majority agrees.
pub(crate) async fn master(
    address: &Arc<RedisAddress>,
    sentinels: &Arc<Sentinels>,
    within: Duration,
) -> Result<Host, CommandError> {
    let mut asked = JoinSet::new(); // its drop ends the questions that are no longer needed
    for host in &sentinels.hosts {
        let (address, sentinels, host) = (address.clone(), sentinels.clone(), host.clone());
        asked.spawn(async move {
            let asking = ask(&address, &sentinels, &host, within);
            let silent = |_| Err(CommandError::Unsent(Reason::new("no answer")));
            let answer = tokio::time::timeout(within, asking).await;
            (host, answer.unwrap_or_else(silent))
        });
    }
    let mut votes = Votes::of(sentinels.hosts.len());
    let mut said = Vec::new();
    while let Some(ended) = asked.join_next().await {
        let (host, answer) = match ended {
            Ok(ended) => ended,
            Err(error) if error.is_panic() => {
                // Of a runtime without timers or I/O, or of the program's connector.
                let panic = error.into_panic();
                return command_error::needs_drivers(|| resume_unwind(panic));
            }
            Err(_) => continue, // the runtime is shutting down
        };
        match &answer {
            Ok(vote) if votes.count(vote.clone()) => return elected(vote, sentinels),
            _ => said.push((host, answer)),
        }
    }
    Err(no_majority(sentinels.hosts.len(), &said))
}

fn elected(answer: &SentinelAnswer, sentinels: &Sentinels) -> Result<Host, CommandError> {
    match answer {
        SentinelAnswer::At(master) => Ok(master.clone()),
        SentinelAnswer::UnknownName => Err(CommandError::Setup(Reason::new(format_args!(
            "the sentinels know no master called {:?}; `SENTINEL MASTERS` lists the names",
            sentinels.master
        )))),
        SentinelAnswer::NoSentinel => Err(CommandError::Setup(Reason::new(
            "url: most of its sentinels are not sentinels, but servers (unknown command SENTINEL): give the sentinels' own ports, usually 26379, or `redis://host:6379` for a server without sentinels",
        ))),
    }
}

/// Why no majority names a master; a refusal counts as the reason if a majority refuses.
fn no_majority(
    sentinels: usize,
    said: &[(Host, Result<SentinelAnswer, CommandError>)],
) -> CommandError {
    let each = said.iter().map(|(host, answer)| match answer {
        Ok(SentinelAnswer::At(master)) => format!("{host} says {master}"),
        Ok(SentinelAnswer::UnknownName) => format!("{host} does not know the name"),
        Ok(SentinelAnswer::NoSentinel) => format!("{host} is not a sentinel"),
        // What to do about it, the error says once.
        Err(CommandError::Refused(_, why)) => format!("{host}: {why}"),
        Err(why) => format!("{host}: {why}"),
    });
    let why = Reason::new(format_args!(
        "no majority of the sentinels names a master ({})",
        each.collect::<Vec<_>>().join("; ")
    ));
    let refusals = said.iter().filter_map(|(_, answer)| match answer {
        Err(CommandError::Refused(refusal, _)) if !refusal.may_pass() => Some(*refusal),
        _ => None,
    });
    match refusals.clone().next() {
        Some(Refusal::Auth) if refusals.clone().count() * 2 > sentinels => {
            CommandError::Refused(Refusal::SentinelAuth, why)
        }
        Some(refusal) if refusals.count() * 2 > sentinels => CommandError::Refused(refusal, why),
        _ => CommandError::Unsent(why),
    }
}

async fn ask(
    address: &RedisAddress,
    sentinels: &Sentinels,
    host: &Host,
    within: Duration,
) -> Result<SentinelAnswer, CommandError> {
    let asking = AsyncConnectionConfig::new();
    let (mut connection, _io_task) = connect(address, sentinels, host, within, asking).await?;
    let mut question = redis::cmd("SENTINEL");
    question
        .arg("GET-MASTER-ADDR-BY-NAME")
        .arg(&sentinels.master);
    let answer: Value = match question.query_async(&mut connection).await {
        Err(error) if is_unknown_command(&error) => return Ok(SentinelAnswer::NoSentinel),
        answer => answer.map_err(|error| errors::handshake_error(&error))?,
    };
    read(&answer).ok_or_else(|| {
        CommandError::Unsent(Reason::new("its answer is not the address of a master"))
    })
}

fn is_unknown_command(error: &RedisError) -> bool {
    let said = error.detail().unwrap_or_default();
    said.to_ascii_lowercase().starts_with("unknown command")
}

fn read(answer: &Value) -> Option<SentinelAnswer> {
    match answer {
        Value::Nil => Some(SentinelAnswer::UnknownName),
        Value::Array(words) => match &words[..] {
            [name, port] => {
                let (name, port) = (reply::text(name)?, reply::text(port)?);
                let fits = (1..=NAME_AT_MOST).contains(&name.len());
                let port = port.parse().ok().filter(|port| *port > 0 && fits)?;
                Some(SentinelAnswer::At(Host { name, port }))
            }
            _ => None,
        },
        _ => None,
    }
}

/// A connection to a sentinel; it ends with the second value.
async fn connect(
    address: &RedisAddress,
    sentinels: &Sentinels,
    host: &Host,
    within: Duration,
    config: AsyncConnectionConfig,
) -> Result<(MultiplexedConnection, IoTask), CommandError> {
    let (stream, _) = dial(address, host, Instant::now() + within).await?;
    let (login, bound) = (&sentinels.login, ReplyBound::of(Question::Sentinel));
    client::log_in(stream, 0, login, ProtocolVersion::RESP3, config, &bound).await
}

/// How long a sentinel is left alone after a connection to it has ended.
const RECONNECT_AFTER: Duration = Duration::from_secs(1);

/// The least time between two rounds of questions, whatever a sentinel pushes; doubled up to the
/// other as long as rounds follow each other and bring nothing new.
const PAUSE: Duration = Duration::from_millis(250);
const LONGEST_PAUSE: Duration = Duration::from_secs(8);

/// How often the sentinels are asked although none has said anything: a push may be lost.
const AT_LEAST_EVERY: Duration = Duration::from_secs(30);

/// So many rounds in a row without a majority are logged: a failover may cost one.
const SILENT_ROUNDS: u32 = 3;

/// Follows the master for as long as the pool lives: asks all sentinels whenever one of them says
/// that it has moved.
pub(crate) async fn follow(plan: Arc<Plan>, sentinels: Arc<Sentinels>) {
    plan.target.found().await; // a pool that is `lazy` has not connected yet
    let mut listening = JoinSet::new();
    for host in &sentinels.hosts {
        listening.spawn(listen(plan.clone(), sentinels.clone(), host.clone()));
    }
    let mut pause = PAUSE;
    let failed = Arc::<AtomicU32>::default();
    loop {
        let (began, before) = (Instant::now(), plan.target.generation());
        let may_have_moved = plan.target.may_have_moved.notified();
        // The rounds that are logged follow each other, so that it is told soon.
        if !(1..SILENT_ROUNDS).contains(&failed.load(Ordering::Relaxed)) {
            let _ = tokio::time::timeout(AT_LEAST_EVERY, may_have_moved).await;
        }
        let was_quiet = began.elapsed() >= LONGEST_PAUSE;
        alone(ask_all(plan.clone(), sentinels.clone(), failed.clone())).await;
        let is_news = plan.target.generation() != before;
        pause = if was_quiet || is_news {
            PAUSE
        } else {
            (pause * 2).min(LONGEST_PAUSE)
        };
        tokio::time::sleep(pause).await;
    }
}

/// `failed`: how many rounds in a row no majority has answered.
async fn ask_all(plan: Arc<Plan>, sentinels: Arc<Sentinels>, failed: Arc<AtomicU32>) {
    let (asked, within) = (plan.target.generation(), plan.settings.connect_timeout / 2);
    match master(&plan.address, &sentinels, within).await {
        Ok(master) => {
            if failed.swap(0, Ordering::Relaxed) >= SILENT_ROUNDS {
                observe::majority_again(&plan.address);
            }
            plan.target.master_is(&master, asked);
        }
        Err(why) => {
            if failed.fetch_add(1, Ordering::Relaxed) + 1 == SILENT_ROUNDS {
                observe::no_majority(&plan.address, &why);
            }
        }
    }
}

/// Runs a task that may panic in the program's connector, and ends it with the caller.
async fn alone(task: impl Future<Output = ()> + Send + 'static) {
    let mut only = JoinSet::new();
    only.spawn(task);
    let _ = only.join_next().await;
}

/// Listens to one sentinel, over a connection that is made again whenever it ends. A refusal that
/// does not pass by itself is logged once.
async fn listen(plan: Arc<Plan>, sentinels: Arc<Sentinels>, host: Host) {
    let warned = Arc::<AtomicBool>::default();
    loop {
        let (plan, sentinels) = (plan.clone(), sentinels.clone());
        let (host, warned) = (host.clone(), warned.clone());
        alone(async move {
            if let Err(CommandError::Refused(refusal, why)) =
                listen_once(&plan, &sentinels, &host).await
                && !refusal.may_pass()
                && !warned.swap(true, Ordering::Relaxed)
            {
                observe::sentinel_not_heard(&host, &why);
            }
        })
        .await;
        tokio::time::sleep(RECONNECT_AFTER).await;
    }
}

async fn listen_once(
    plan: &Arc<Plan>,
    sentinels: &Arc<Sentinels>,
    host: &Host,
) -> Result<(), CommandError> {
    let ended = Arc::new(Notify::new());
    let (target, ends, of) = (plan.target.clone(), ended.clone(), sentinels.clone());
    let config = AsyncConnectionConfig::new().set_push_sender(move |push: PushInfo| {
        match push.kind {
            PushKind::Disconnection => ends.notify_one(),
            PushKind::Message if is_about(&push, &of.master) => target.may_have_moved.notify_one(),
            _ => {}
        }
        Ok::<(), Infallible>(())
    });
    let within = plan.settings.connect_timeout;
    let subscribed = async {
        let (mut connection, io_task) =
            connect(&plan.address, sentinels, host, within, config).await?;
        let subscribed = connection.subscribe("+switch-master").await;
        subscribed.map_err(|error| errors::handshake_error(&error))?;
        Ok::<_, CommandError>((connection, io_task))
    };
    let Ok(subscribed) = tokio::time::timeout(within, subscribed).await else {
        return Ok(());
    };
    let (mut connection, _io_task) = subscribed?;
    plan.target.may_have_moved.notify_one(); // what it said meanwhile was lost
    let ended = hear(&mut connection, &ended, within).await;
    plan.target.may_have_moved.notify_one(); // whether the others are still a majority
    ended
}

/// Returns once the connection has ended.
async fn hear(
    connection: &mut MultiplexedConnection,
    ended: &Notify,
    within: Duration,
) -> Result<(), CommandError> {
    loop {
        let ping = redis::cmd("PING");
        let ping = ping.exec_async(connection); // a connection may be lost unnoticed
        match tokio::time::timeout(within, ping).await {
            Ok(pinged) => pinged.map_err(|error| errors::handshake_error(&error))?,
            Err(_) => return Ok(()),
        }
        let lost = tokio::time::timeout(AT_LEAST_EVERY, ended.notified()).await;
        if lost.is_ok() {
            return Ok(());
        }
    }
}

/// Whether a message is about this master: `name old-host old-port new-host new-port`.
fn is_about(push: &PushInfo, master: &str) -> bool {
    let said = push.data.last().and_then(reply::text);
    let rest = said.as_deref().and_then(|said| said.strip_prefix(master));
    rest.is_some_and(|rest| rest.starts_with(' '))
}
