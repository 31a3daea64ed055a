//! Makes a connection: the stream and its TLS, the login, what the server is, and the statements.
//!
//! Of several hosts, the first that takes writes. It does not retry.

use std::future::poll_fn;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

#[cfg(feature = "tls")]
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::task::{AbortHandle, JoinHandle};
use tokio::time::{Instant, timeout_at};
use tokio_postgres::config::SslMode;
use tokio_postgres::types::{ToSql, Type};
use tokio_postgres::{AsyncMessage, Client, Connection, NoTls, Transaction, tls::NoTlsStream};

use super::errors;
use super::push::{self, Asked};
use super::questions;
use super::session::{self, PostgresLink, Session, SessionStatement};
use super::statements::{self, Ask, LAYOUT};
use crate::client::server_clock::ServerClock;
use crate::link::clock::Clock;
use crate::link::command_error::CommandError;
use crate::link::joined;
use crate::link::redis::client;
use crate::link::redis::dial;
use crate::link::redis::outage::Attempts;
use crate::observe;
#[cfg(feature = "tls")]
use crate::values::config::Host;
use crate::values::config::{Credentials, Endpoint, PostgresAddress, Settings, Stream};
use crate::values::error::{Reason, Refusal};
use crate::values::shown::rounded;

/// The oldest version: its `gen_random_uuid` and its rules of locks are those that were tried.
const OLDEST: i32 = 130_000;

const POOLED: &str = "a pooler in transaction mode stands before PostgreSQL: write `?pooler=transaction` into the URL, and set `statement_timeout` and `lock_timeout` for its role";

/// What all connections of a pool have in common.
#[derive(Debug)]
pub(crate) struct PostgresPlan {
    pub(crate) address: Arc<PostgresAddress>,
    pub(crate) settings: Arc<Settings>,
    pub(crate) clock: Clock,
    pub(super) asked: Arc<Asked>,
    attempts: Attempts,
    /// Whether a pooler in transaction mode stands in between, once that is known.
    pooled: OnceLock<bool>,
}

impl PostgresPlan {
    pub(crate) fn new(
        address: &Arc<PostgresAddress>,
        settings: &Arc<Settings>,
        clock: Clock,
    ) -> Self {
        Self {
            address: address.clone(),
            settings: settings.clone(),
            clock,
            asked: Arc::default(),
            attempts: Attempts::default(),
            pooled: OnceLock::new(),
        }
    }

    pub(crate) fn listen(&self, listener: std::sync::Weak<dyn crate::link::Listener>) {
        let _ = self.asked.listener.set(listener); // called once, as `Backend::listen` promises
    }

    /// Makes a connection; logs the beginning and the end of an outage.
    pub(crate) async fn connect(&self) -> Result<PostgresLink, CommandError> {
        let attempt = self.attempts.begin();
        let within = self.settings.connect_timeout;
        let until = Instant::now() + within;
        let connected = timeout_at(until, self.link(until)).await;
        let to = || format!(" to {}", self.address);
        let connected =
            connected.unwrap_or_else(|_| Err(CommandError::not_connected(&to(), within)));
        match &connected {
            Ok(_) => {
                if let Some(failed) = self.attempts.succeeded() {
                    observe::reconnected(&self.address, failed);
                }
            }
            Err(why) if self.attempts.failed(attempt) => observe::unreachable(&self.address, why),
            Err(_) => {}
        }
        connected
    }

    async fn link(&self, until: Instant) -> Result<PostgresLink, CommandError> {
        let (client, io_task) = writable(&self.address, &self.asked, until).await?;
        let is_pooled = self.is_pooled(until).await?;
        if !is_pooled {
            let timeout = self.settings.command_timeout.as_millis().max(1);
            let text = statements::settings(timeout, self.address.synchronous_commit);
            let set = client.batch_execute(&text).await;
            set.map_err(|error| errors::of_connecting(&error))?;
        }
        let (sent, hello) = (
            self.clock.now(),
            hello(&client, &self.address.schema).await?,
        );
        let server_clock = ServerClock {
            time: hello,
            heard: sent,
        };
        let statements = self.statements(&client, is_pooled).await?;
        let channel = if is_pooled {
            None
        } else {
            let channel = push::channel()?;
            let listened = client.batch_execute(&format!("LISTEN {channel}")).await;
            listened.map_err(|error| errors::of_connecting(&error))?;
            Some(channel.into())
        };
        let times = (self.clock, self.settings.command_timeout);
        let session = Session::new(client, statements, io_task.keep(), times, server_clock);
        let schema = self.address.schema.as_str().into();
        Ok(PostgresLink::new(
            session,
            schema,
            channel,
            self.asked.clone(),
        ))
    }

    /// The URL says it, or the first connection finds out.
    async fn is_pooled(&self, until: Instant) -> Result<bool, CommandError> {
        if self.address.is_pooled {
            return Ok(true);
        }
        if let Some(known) = self.pooled.get() {
            return Ok(*known);
        }
        let is_pooled = !questions::hears_others(&self.address, until).await?;
        if self.pooled.set(is_pooled).is_ok() && is_pooled {
            observe::waiters_poll(&self.address, &POOLED);
        }
        Ok(is_pooled)
    }

    async fn statements(
        &self,
        client: &Client,
        is_pooled: bool,
    ) -> Result<Vec<SessionStatement>, CommandError> {
        let schema = &self.address.schema;
        let mut statements: Vec<_> = Ask::ALL
            .into_iter()
            .map(|ask| SessionStatement {
                text: ask.text(schema),
                prepared: None,
            })
            .collect();
        if is_pooled {
            return Ok(statements);
        }
        let prepared = statements.iter();
        let prepared = prepared.map(|it| Box::pin(client.prepare(&it.text)));
        let prepared = joined::all(prepared.collect()).await;
        for (statement, prepared) in statements.iter_mut().zip(prepared) {
            let prepared = prepared.map_err(|error| errors::of_connecting(&error))?;
            statement.prepared = Some(prepared);
        }
        Ok(statements)
    }
}

/// The task that reads and writes a connection's socket, which ends with an attempt that failed.
pub(super) struct SocketTask(Option<AbortHandle>);

impl SocketTask {
    fn of(task: &JoinHandle<()>) -> Self {
        Self(Some(task.abort_handle()))
    }

    fn keep(mut self) -> Option<AbortHandle> {
        self.0.take()
    }
}

impl Drop for SocketTask {
    fn drop(&mut self) {
        if let Some(task) = self.0.take() {
            task.abort();
        }
    }
}

/// A connection to the first host that takes writes.
pub(super) async fn writable(
    address: &PostgresAddress,
    asked: &Arc<Asked>,
    until: Instant,
) -> Result<(Client, SocketTask), CommandError> {
    let login = &address.login;
    let credentials = client::credentials(login).await?;
    let mut refused = None;
    for (at, endpoint) in address.endpoints.iter().enumerate() {
        let hosts = u32::try_from(address.endpoints.len() - at).unwrap_or(1);
        let own = Instant::now() + dial::left(until) / hosts;
        let reached = timeout_at(
            own,
            reach(address, (endpoint, &credentials), asked.clone(), own),
        )
        .await;
        let reached = reached.unwrap_or_else(|_| {
            let why = "it did not answer in time";
            Err(CommandError::Unsent(Reason::new(why)))
        });
        match reached.map_err(|error| client::of_login(login, error)) {
            Ok(connected) => return Ok(connected),
            Err(error) if hosts > 1 => refused = Some(error),
            // Of several, the first one that says more than that it is away.
            Err(error) => {
                return Err(match refused {
                    Some(first @ CommandError::Refused(..)) => first,
                    _ => error,
                });
            }
        }
    }
    Err(CommandError::Unsent(Reason::new("the URL names no host")))
}

type IoConnection = Connection<Box<dyn Stream>, NoTlsStream>;

async fn reach(
    address: &PostgresAddress,
    (endpoint, credentials): (&Endpoint, &Credentials),
    asked: Arc<Asked>,
    until: Instant,
) -> Result<(Client, SocketTask), CommandError> {
    let stream = match endpoint {
        Endpoint::Unix(path) => dial::unix(path).await?,
        Endpoint::Tcp(host) => {
            let stream = dial::tcp_stream(host, until).await?;
            #[cfg(feature = "tls")] // without it, the URL asks for none
            let stream = encrypted(address, host, stream, until).await?;
            stream
        }
        Endpoint::Sentinels(_) => {
            return Err(CommandError::Setup(Reason::new("sentinels are for Redis")));
        }
    };
    let user = credentials.user.as_deref().unwrap_or_default();
    let mut config = tokio_postgres::Config::new();
    config.user(user).application_name("dlock");
    config.dbname(address.database.as_deref().unwrap_or(user));
    config.ssl_mode(SslMode::Disable); // `encrypted` has done it
    if let Some(password) = &credentials.password {
        config.password(password.reveal());
    }
    let connected = config.connect_raw(stream, NoTls).await;
    let (client, connection) = connected.map_err(|error| errors::of_connecting(&error))?;
    let io_task = SocketTask::of(&tokio::spawn(read_and_write(connection, asked)));
    let text = "SELECT pg_catalog.pg_is_in_recovery() OR pg_catalog.current_setting('transaction_read_only')::boolean";
    let rows = client.query_typed(text, &[]).await;
    let rows = rows.map_err(|error| errors::of_connecting(&error))?;
    let is_read_only = rows.first().map(|row| session::read(row, 0)).transpose()?;
    if is_read_only != Some(false) {
        let why = "it is a standby, or its transactions are read-only";
        return Err(CommandError::Refused(Refusal::ReadOnly, Reason::new(why)));
    }
    Ok((client, io_task))
}

/// The same stream, encrypted if the address asks for it.
#[cfg(feature = "tls")]
async fn encrypted(
    address: &PostgresAddress,
    host: &Host,
    mut stream: Box<dyn Stream>,
    until: Instant,
) -> Result<Box<dyn Stream>, CommandError> {
    const SSL_REQUEST: [u8; 8] = [0, 0, 0, 8, 0x04, 0xd2, 0x16, 0x2f];
    let Some(tls) = &address.tls else {
        return Ok(stream);
    };
    let broken = |why: std::io::Error| CommandError::Unsent(Reason::new(why));
    stream.write_all(&SSL_REQUEST).await.map_err(broken)?;
    match stream.read_u8().await.map_err(broken)? {
        b'S' => crate::link::redis::tls::secure(stream, tls, host, until, false).await,
        _ => Err(CommandError::Refused(
            Refusal::Tls,
            Reason::new(
                "the server does not encrypt: set `ssl = on` there, or write `?sslmode=disable` in a network that you trust",
            ),
        )),
    }
}

/// Until the client is dropped, or the connection ends.
async fn read_and_write(mut connection: IoConnection, asked: Arc<Asked>) {
    loop {
        match poll_fn(|cx| connection.poll_message(cx)).await {
            Some(Ok(AsyncMessage::Notification(it))) => asked.hear(it.payload()),
            Some(Ok(_)) => {}
            Some(Err(_)) | None => break,
        }
    }
    if let Some(listener) = asked.listener() {
        listener.disconnected();
    }
}

/// What the server is; its time.
async fn hello(client: &Client, schema: &str) -> Result<u64, CommandError> {
    let asked = |error: tokio_postgres::Error| errors::of_connecting(&error);
    let rows = client
        .query_typed(&statements::hello(), &[])
        .await
        .map_err(asked)?;
    let row = rows.first().ok_or_else(session::strange)?;
    let (name, version): (&str, i32) = (session::read(row, 1)?, session::read(row, 2)?);
    if version < OLDEST || !name.starts_with("PostgreSQL ") {
        return Err(CommandError::Setup(Reason::new(format_args!(
            "it is {name}: dlock needs PostgreSQL 13 or newer itself, since servers that only speak its protocol may not lock rows as it does"
        ))));
    }
    let rows = client
        .query_typed(&statements::layout(schema), &[])
        .await
        .map_err(asked)?;
    let tables = rows.first().ok_or_else(session::strange)?;
    if session::read::<i32>(tables, 0)? < LAYOUT {
        return Err(session::strange());
    }
    if let Some(lacks) = session::read::<Option<&str>>(tables, 1)? {
        let why = format!("the role lacks {lacks}: GRANT it");
        return Err(CommandError::Refused(
            Refusal::NoPermission,
            Reason::new(why),
        ));
    }
    session::unsigned(row, 0)
}

/// Makes the tables of a schema, or brings them up to date.
pub(crate) async fn migrate(
    address: &PostgresAddress,
    within: Duration,
) -> Result<(), CommandError> {
    let until = Instant::now() + within;
    let migration = async {
        let (client, _io_task) = writable(address, &Arc::default(), until).await?;
        let text = statements::migration(&address.schema);
        let migrated = client.batch_execute(&text).await;
        migrated.map_err(|error| errors::of_connecting(&error))
    };
    timeout_at(until, migration).await.unwrap_or_else(|_| {
        let why = format!("{address} did not answer within {:?}", rounded(within));
        Err(CommandError::Unclear(Reason::new(why)))
    })
}

/// Executes the statements of a check in a transaction of the user's; unnamed, for a pooler may stand in
/// between. `None`: it is not held; `false`: the transaction is nested.
pub(crate) async fn check_in(
    transaction: &Transaction<'_>,
    (begin, sql): (&str, &str),
    (keys, epochs): (&[String], &[i64]),
) -> Result<Option<bool>, CommandError> {
    let is_inside = transaction.batch_execute(begin).await;
    is_inside.map_err(|it| errors::of_check(&it, "USAGE on the schema, SELECT on the table"))?;
    let binds: [(&(dyn ToSql + Sync), Type); 2] =
        [(&keys, Type::TEXT_ARRAY), (&epochs, Type::INT8_ARRAY)];
    let held = transaction.query_typed(sql, &binds).await;
    let held = held.map_err(|error| errors::of_check(&error, "UPDATE (epoch) on the table"))?;
    if held.is_empty() {
        return Ok(None);
    }
    let rows = transaction.query_typed(statements::IS_OUTERMOST, &[]).await;
    let rows = rows.map_err(|error| errors::of_connecting(&error))?;
    let row = rows.first().ok_or_else(session::strange)?;
    session::read(row, 0).map(Some)
}
