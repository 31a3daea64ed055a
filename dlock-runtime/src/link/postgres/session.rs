//! One connection: statements go out in the order in which they are first polled, each a transaction of its
//! own, and are executed in that order, even if nobody waits for the answer any more. It does not
//! reconnect.

use std::collections::HashMap;
use std::fmt;
use std::ops::Deref;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::task::AbortHandle;
use tokio::time::{Instant, timeout_at};
use tokio_postgres::types::private::BytesMut;
use tokio_postgres::types::{FromSql, IsNull, ToSql, Type};
use tokio_postgres::{Client, Row, Statement};

use super::batches::WaitingOrder;
use super::errors;
use super::push::Asked;
use super::statements::{self, Ask};
use crate::client::server_clock::ServerClock;
use crate::link::batched::state::{BatcherState, MOST, Takes};
use crate::link::clock::Clock;
use crate::link::command_error::CommandError;
use crate::values::error::Reason;
use crate::values::moment::Moment;

/// A connection is given up after this many command timeouts without any answer.
const SILENT_TIMEOUTS: u32 = 2;

pub(crate) struct PostgresLink {
    pub(super) session: Arc<Session>,
    pub(super) runtime: Handle,
    /// Of the tables.
    pub(super) schema: Arc<str>,
    /// Where this connection listens; `None`: a pooler stands in between.
    pub(super) channel: Option<Arc<str>>,
    pub(super) asked: Arc<Asked>,
}

/// What sends statements, and is told by their answers.
pub(crate) struct Session {
    pub(super) client: Arc<Client>,
    /// In the order of [`Ask::ALL`].
    pub(super) statements: Vec<SessionStatement>,
    /// Reads and writes the socket.
    io_task: Option<AbortHandle>,
    /// Of a statement that is not prepared.
    turn: Arc<tokio::sync::Mutex<()>>,
    pub(super) orders: Mutex<BatcherState<WaitingOrder>>,
    pub(super) contended: ContendedKeys,
    pub(super) clock: Clock,
    command_timeout: Duration,
    server_clock: Mutex<ServerClock>,
    broken: AtomicBool,
    /// When the server last answered, and when the first statement after that was sent (0: none was), in
    /// nanoseconds of `clock`.
    last_answer: AtomicU64,
    unanswered: AtomicU64,
    has_answered: AtomicBool,
}

pub(super) struct SessionStatement {
    pub(super) text: String,
    /// `None`: it is sent with each call.
    pub(super) prepared: Option<Statement>,
}

/// Keys for which a single statement was not enough lately: for a while it reads their row, too, which saves round
/// trips where several want a lock.
#[derive(Debug, Default)]
pub(super) struct ContendedKeys(pub(super) Mutex<HashMap<Arc<str>, Instant>>);

impl ContendedKeys {
    const FOR: Duration = Duration::from_secs(1);
    const MOST: usize = 1024;

    pub(super) fn note(&self, key: &Arc<str>) {
        let mut since = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if since.len() >= Self::MOST {
            since.clear(); // a round trip more for each
        }
        since.insert(key.clone(), Instant::now());
    }

    pub(super) fn contains(&self, key: &str) -> bool {
        let since = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        since.get(key).is_some_and(|at| at.elapsed() < Self::FOR)
    }
}

impl Session {
    pub(super) async fn send(
        &self,
        ask: Ask,
        params: &[&(dyn ToSql + Sync)],
    ) -> Result<Vec<Row>, tokio_postgres::Error> {
        let Some(statement) = self.statements.get(ask as usize) else {
            return Ok(Vec::new());
        };
        if let Some(prepared) = &statement.prepared {
            return self.client.query(prepared, params).await;
        }
        self.send_in_turn(&statement.text, params).await
    }

    /// Sends a statement that is not prepared. Behind a pooler, one statement is under way, even if its caller
    /// has gone: `PgBouncer` 1.18 gives the session to another client when a statement is answered, though
    /// it may have passed on a part of the next one already ("invalid frontend message type").
    pub(super) async fn send_in_turn(
        &self,
        text: &str,
        params: &[&(dyn ToSql + Sync)],
    ) -> Result<Vec<Row>, tokio_postgres::Error> {
        let typed = params.iter().zip(statements::types(text));
        let owned = typed.map(|(it, of)| (Encoded::new(*it, &of), of));
        let owned: Vec<_> = owned.collect();
        let (client, text) = (self.client.clone(), text.to_owned());
        let turn = self.turn.clone().lock_owned().await;
        let answered = tokio::spawn(async move {
            let _turn = turn;
            let binds = owned
                .iter()
                .map(|(it, of)| (it as &(dyn ToSql + Sync), of.clone()));
            let binds: Vec<_> = binds.collect();
            client.query_typed(&text, &binds).await
        });
        // It only fails with the runtime, which drops this future, too.
        answered.await.unwrap_or_else(|_| Ok(Vec::new()))
    }
}

/// A parameter that outlives its caller; `Err`: it can't be encoded, which no parameter of [`Ask`] does.
#[derive(Debug)]
struct Encoded(Result<Option<BytesMut>, String>);

impl Encoded {
    fn new(param: &(dyn ToSql + Sync), of: &Type) -> Self {
        let mut bytes = BytesMut::new();
        Self(match param.to_sql_checked(of, &mut bytes) {
            Ok(IsNull::No) => Ok(Some(bytes)),
            Ok(IsNull::Yes) => Ok(None),
            Err(why) => Err(why.to_string()),
        })
    }
}

impl ToSql for Encoded {
    fn to_sql(
        &self,
        _: &Type,
        out: &mut BytesMut,
    ) -> Result<IsNull, Box<dyn std::error::Error + Sync + Send>> {
        match &self.0 {
            Ok(Some(bytes)) => {
                out.extend_from_slice(bytes);
                Ok(IsNull::No)
            }
            Ok(None) => Ok(IsNull::Yes),
            Err(why) => Err(why.as_str().into()),
        }
    }

    fn accepts(_: &Type) -> bool {
        true
    }

    tokio_postgres::types::to_sql_checked!();
}

impl PostgresLink {
    pub(super) fn new(
        session: Session,
        schema: Arc<str>,
        channel: Option<Arc<str>>,
        asked: Arc<Asked>,
    ) -> Self {
        Self {
            session: Arc::new(session),
            runtime: Handle::current(),
            schema,
            channel,
            asked,
        }
    }
}

impl Deref for PostgresLink {
    type Target = Session;

    fn deref(&self) -> &Session {
        &self.session
    }
}

impl Session {
    pub(super) fn new(
        client: Client,
        statements: Vec<SessionStatement>,
        io_task: Option<AbortHandle>,
        (clock, command_timeout): (Clock, Duration),
        server_clock: ServerClock,
    ) -> Self {
        Self {
            client: Arc::new(client),
            statements,
            io_task,
            turn: Arc::default(),
            orders: Mutex::new(BatcherState::new(MOST, Takes::OneSort)),
            contended: ContendedKeys::default(),
            clock,
            command_timeout,
            last_answer: AtomicU64::new(server_clock.heard.as_nanos()),
            server_clock: Mutex::new(server_clock),
            broken: AtomicBool::new(false),
            unanswered: AtomicU64::new(0),
            has_answered: AtomicBool::new(false),
        }
    }

    pub(crate) fn works(&self) -> bool {
        !self.broken.load(Ordering::Acquire) && !self.client.is_closed()
    }

    pub(crate) fn has_answered(&self) -> bool {
        self.has_answered.load(Ordering::Relaxed)
    }

    /// How long ago the server last answered.
    pub(crate) fn idle(&self, now: Moment) -> Duration {
        Moment::from_nanos(self.last_answer.load(Ordering::Relaxed)).until(now)
    }

    pub(super) fn time_at(&self, now: Moment) -> u64 {
        let clock = self.server_clock.lock();
        clock.unwrap_or_else(PoisonError::into_inner).at(now)
    }

    /// Sends a statement; its rows, and when it was sent.
    pub(super) async fn query(
        &self,
        ask: Ask,
        params: &[&(dyn ToSql + Sync)],
        until: Instant,
    ) -> Result<(Vec<Row>, Moment), CommandError> {
        let asked = self.send(ask, params);
        self.answer(asked, ask.only_reads(), until).await
    }

    /// The answer to a statement that the first poll of `asked` sends. `only_reads`: it changes nothing,
    /// or what it changes is asked for again.
    pub(super) async fn answer(
        &self,
        asked: impl Future<Output = Result<Vec<Row>, tokio_postgres::Error>>,
        only_reads: bool,
        until: Instant,
    ) -> Result<(Vec<Row>, Moment), CommandError> {
        if !self.works() {
            let why = "the connection to PostgreSQL ended";
            return Err(CommandError::Unsent(Reason::new(why)));
        }
        let sent = self.clock.now();
        let order = Ordering::AcqRel;
        let _ = (self.unanswered).compare_exchange(0, sent.as_nanos(), order, Ordering::Acquire);
        let Ok(answer) = timeout_at(until, asked).await else {
            return Err(self.no_answer(only_reads));
        };
        let answer = answer.map_err(|error| errors::of_statement(&error, only_reads));
        match &answer {
            Err(error) if errors::ends_the_connection(error) || self.client.is_closed() => {
                self.give_up();
            }
            _ => {
                self.unanswered.store(0, Ordering::Release);
                self.has_answered.store(true, Ordering::Relaxed);
                let now = self.clock.now().as_nanos();
                self.last_answer.store(now, Ordering::Relaxed);
            }
        }
        Ok((answer?, sent))
    }

    /// Reads the server's time in an answer.
    pub(super) fn heard(&self, row: &Row, at: usize, sent: Moment) -> Result<u64, CommandError> {
        let time = unsigned(row, at)?;
        self.note_time(time, sent);
        Ok(time)
    }

    pub(super) fn note_time(&self, time: u64, sent: Moment) {
        let clock = self.server_clock.lock();
        let mut clock = clock.unwrap_or_else(PoisonError::into_inner);
        clock.hear(time, sent, self.clock.now());
    }

    pub(super) fn no_answer(&self, only_reads: bool) -> CommandError {
        let since = Moment::from_nanos(self.unanswered.load(Ordering::Acquire));
        let is_silent = since > Moment::from_nanos(0)
            && since.until(self.clock.now()) >= self.command_timeout * SILENT_TIMEOUTS;
        if is_silent {
            self.give_up();
        }
        let why = Reason::new("PostgreSQL did not answer in time");
        if only_reads {
            CommandError::Unsent(why)
        } else {
            CommandError::Unclear(why)
        }
    }

    fn give_up(&self) {
        self.broken.store(true, Ordering::Release);
        self.io_task.iter().for_each(AbortHandle::abort);
    }
}

impl fmt::Debug for PostgresLink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let works = self.works();
        f.debug_struct("PostgresLink")
            .field("works", &works)
            .finish_non_exhaustive()
    }
}

/// A column of an answer.
pub(super) fn read<'r, T: FromSql<'r>>(row: &'r Row, at: usize) -> Result<T, CommandError> {
    row.try_get(at).map_err(|_| strange())
}

pub(super) fn unsigned(row: &Row, at: usize) -> Result<u64, CommandError> {
    let number: i64 = read(row, at)?;
    u64::try_from(number).map_err(|_| strange())
}

/// An answer that no table of ours gives.
pub(super) fn strange() -> CommandError {
    CommandError::Setup(Reason::new(
        "the answer is none of dlock's tables; look who changed them, and run `dlock migrate --url …`",
    ))
}
