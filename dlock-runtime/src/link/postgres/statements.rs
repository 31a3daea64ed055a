//! The texts of the statements, and how each is sent: prepared once for a connection, or unnamed where a
//! pooler gives each transaction another session.
//!
//! Invariants: every table is named with its schema, so that a `search_path` leads nowhere; nobody waits for
//! a row's lock (`SKIP LOCKED`), because a statement that waits stops all others of its connection; time is
//! the server's clock when the statement runs, never when a transaction began; who becomes a holder locks
//! the row `FOR UPDATE`, which a transaction of the user's with `FOR KEY SHARE` keeps out.

use tokio_postgres::types::Type;

use super::machine::HEADS;
use crate::rules::queue;

/// The server's time, in µs.
pub(super) const NOW: &str = "(extract(epoch FROM pg_catalog.clock_timestamp()) * 1000000)::bigint";

/// The layout of the tables that this version needs.
pub(super) const LAYOUT: i32 = 1;

/// Evaluated in a statement whose commit need not wait for a flush.
const UNFLUSHED: &str = "pg_catalog.set_config('synchronous_commit', 'off', true)";

/// What [`Ask::Take`] and [`Ask::Make`] get.
const TAKES: &str = "unnest($1::text[], $2::text[], $3::bigint[], $4::bigint[], $5::bigint[])";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ask {
    /// keys, heads, own entries: rows, and windows of their queues.
    Read,
    /// keys: makes rows that are not there.
    Ensure,
    /// Writes changes, all or none or each by itself, if versions are still those that were read, and epochs,
    /// since a row that was removed and made again may have come to the same version. Returns which keys.
    /// `$18`: the time after which none is written. `$21`: nothing is lost if a crash undoes it.
    Store,
    /// A waiter's key and entry: notes a sign of life; who holds the lock.
    Beat,
    /// channels, payloads.
    Notify,
    /// keys, entries, places, leases, not after: takes those free locks that nobody waits for; of two for
    /// the same key one gets it.
    Take,
    /// The same for locks that have no row.
    Make,
    /// keys, entries, places: gives back those locks that nobody waits for.
    Give,
    /// The two of one key, which tell what they did, and what [`Ask::Read`] does beside it.
    TakeOrRead,
    GiveOrRead,
    /// keys, entries, ttls: renews exclusive locks.
    Renew,
    /// prefix, after which key, how many, whether records are sought.
    Keys,
}

impl Ask {
    /// In the order of the variants.
    pub(super) const ALL: [Self; 12] = [
        Ask::Read,
        Ask::Ensure,
        Ask::Store,
        Ask::Beat,
        Ask::Notify,
        Ask::Take,
        Ask::Make,
        Ask::Give,
        Ask::TakeOrRead,
        Ask::GiveOrRead,
        Ask::Renew,
        Ask::Keys,
    ];

    /// Whether it changes nothing, so that it may be asked again whatever became of it.
    pub(super) fn only_reads(self) -> bool {
        matches!(self, Ask::Read | Ask::Keys)
    }

    pub(super) fn text(self, schema: &str) -> String {
        let now = format!("WITH n AS MATERIALIZED (SELECT {NOW} AS t)");
        let (lock, waiter) = (format!("\"{schema}\".lock"), format!("\"{schema}\".waiter"));
        let heartbeat = queue::HEARTBEAT.as_micros();
        match self {
            Ask::Read => {
                let read = read(&lock, &waiter, ["$2::bigint", "$3::text[]", "NULL::bigint"]);
                format!("{now} {read}")
            }
            Ask::Ensure => format!(
                "INSERT INTO {lock} (key) SELECT k FROM unnest($1::text[]) AS u(k), (SELECT {UNFLUSHED}) s
                ORDER BY k COLLATE \"C\" ON CONFLICT (key) DO NOTHING"
            ),
            Ask::Store => store(&now, &lock, &waiter),
            Ask::Beat => format!(
                "{now},
                beat AS (UPDATE {waiter} q SET alive_until = n.t + {heartbeat} FROM n
                    WHERE q.key = $1::text AND q.entry = $2::text RETURNING 1)
                SELECT n.t, EXISTS (SELECT 1 FROM beat), l.holder, l.ends FROM n LEFT JOIN {lock} l ON l.key = $1"
            ),
            Ask::Notify => "SELECT pg_catalog.pg_notify(u.channel, u.payload)
                FROM unnest($1::text[], $2::text[]) AS u(channel, payload)"
                .to_owned(),
            Ask::Take => format!("{now} {}", take(&lock)),
            Ask::TakeOrRead => or_read(&now, &take(&lock), &lock, &waiter),
            Ask::Make => format!(
                "{now},
                made AS (INSERT INTO {lock} AS l (key, version, holder, ends, epoch, sole)
                    SELECT w.key, 1, w.holder, n.t + w.lease, n.t, n.t FROM n, {TAKES} AS w(key, holder, at, lease, not_after)
                    WHERE n.t <= w.not_after AND (SELECT true FROM {lock} l WHERE l.key = w.key) IS NULL
                    ORDER BY w.key COLLATE \"C\"
                    ON CONFLICT (key) DO NOTHING RETURNING l.key, l.holder, l.epoch)
                SELECT n.t, w.at, m.epoch FROM n, made m, unnest($1::text[], $2::text[], $3::bigint[]) AS w(key, holder, at)
                WHERE w.key = m.key AND w.holder = m.holder"
            ),
            Ask::Give => format!("{now} {}", give(&lock)),
            Ask::GiveOrRead => or_read(&now, &give(&lock), &lock, &waiter),
            Ask::Renew => format!(
                "{now},
                want AS MATERIALIZED (SELECT * FROM unnest($1::text[], $2::text[], $3::bigint[])
                    WITH ORDINALITY AS w(key, holder, ttl, at)),
                locked AS MATERIALIZED (SELECT l.key, w.at, w.ttl FROM {lock} l JOIN want w ON l.key = w.key CROSS JOIN n
                    WHERE l.holder = w.holder AND l.ends > n.t
                    ORDER BY l.key FOR NO KEY UPDATE OF l SKIP LOCKED),
                done AS (UPDATE {lock} l SET version = l.version + 1, ends = greatest(l.ends, n.t + k.ttl)
                    FROM locked k, n WHERE l.key = k.key RETURNING k.at)
                SELECT n.t, w.at, w.at IN (SELECT at FROM done), l.key IS NOT NULL
                FROM n CROSS JOIN want w LEFT JOIN {lock} l ON l.key = w.key AND l.holder = w.holder AND l.ends > n.t"
            ),
            Ask::Keys => format!(
                "{now}
                SELECT n.t, l.key FROM n CROSS JOIN {lock} l
                WHERE l.key >= $1::text AND l.key > $2::text AND starts_with(l.key, $1)
                    AND CASE WHEN $4::boolean THEN l.record <> '' AND l.record_ends > n.t
                        ELSE l.holder <> '' AND l.ends > n.t END
                ORDER BY l.key LIMIT $3::bigint"
            ),
        }
    }
}

fn read(lock: &str, waiter: &str, [heads, own, told]: [&str; 3]) -> String {
    format!(
        "SELECT n.t, w.at, l.version, l.holder, l.ends, l.epoch, l.sole, l.members, l.waiting,
            l.record, l.record_ends, q.arrival, q.alive_until, q.entry, q.place, q.places, {told}
        FROM n CROSS JOIN unnest($1::text[]) WITH ORDINALITY AS w(key, at)
        LEFT JOIN {lock} l ON l.key = w.key
        LEFT JOIN LATERAL (
            SELECT * FROM (
                SELECT i.arrival, i.alive_until, i.entry,
                    row_number() OVER (ORDER BY i.arrival) AS place, count(*) OVER () AS places
                FROM {waiter} i WHERE l.waiting AND i.key = l.key) i
            WHERE i.place <= {heads} OR i.alive_until <= n.t OR i.entry = ANY ({own})
        ) q ON true
        ORDER BY w.at, q.arrival"
    )
}

fn take(lock: &str) -> String {
    format!(
        "UPDATE {lock} l SET version = l.version + 1, holder = f.holder, ends = f.t + f.lease, members = '',
            epoch = greatest(l.epoch + 1, f.t), sole = greatest(l.epoch + 1, f.t)
        FROM (SELECT l.key, w.holder, w.at, w.lease, n.t FROM n, {TAKES} AS w(key, holder, at, lease, not_after),
            LATERAL (SELECT l.key FROM {lock} l WHERE l.key = w.key AND l.ends <= n.t AND NOT l.waiting
                FOR UPDATE SKIP LOCKED) l
            WHERE n.t <= w.not_after) f
        WHERE l.key = f.key RETURNING f.t, f.at, l.epoch"
    )
}

fn give(lock: &str) -> String {
    format!(
        "UPDATE {lock} l SET version = l.version + 1, holder = '', ends = 0, sole = NULL
        FROM (SELECT l.key, w.at, l.found, n.t FROM n, unnest($1::text[], $2::text[], $3::bigint[]) AS w(key, holder, at),
            LATERAL (SELECT l.key, l.ends > n.t AS found FROM {lock} l
                WHERE l.key = w.key AND l.holder = w.holder AND NOT l.waiting
                FOR NO KEY UPDATE SKIP LOCKED) l) h
        WHERE l.key = h.key RETURNING h.t, h.at, h.found::int::bigint"
    )
}

/// Of one key: what was read is as it was before.
fn or_read(now: &str, change: &str, lock: &str, waiter: &str) -> String {
    let heads = HEADS.to_string();
    let read = read(lock, waiter, [&heads, "$2", "(SELECT told FROM done)"]);
    format!("{now}, done(t, at, told) AS ({change}) {read}")
}

/// The types of a statement's parameters: the text says each of them where the parameter stands first.
pub(super) fn types(text: &str) -> Vec<Type> {
    const KNOWN: [(&str, Type); 6] = [
        ("text[]", Type::TEXT_ARRAY),
        ("bigint[]", Type::INT8_ARRAY),
        ("boolean[]", Type::BOOL_ARRAY),
        ("text", Type::TEXT),
        ("bigint", Type::INT8),
        ("boolean", Type::BOOL),
    ];
    let of = |number: usize| {
        let (_, rest) = text.split_once(&format!("${number}::"))?;
        let found = KNOWN.into_iter().find(|(name, _)| rest.starts_with(name));
        found.map(|(_, of)| of)
    };
    (1..).map_while(of).collect()
}

fn store(now: &str, lock: &str, waiter: &str) -> String {
    format!(
        "{now},
    want AS MATERIALIZED (SELECT * FROM unnest($1::text[], $2::bigint[], $3::text[], $4::bigint[],
        $5::bigint[], $6::bigint[], $7::text[], $8::boolean[], $9::text[], $10::bigint[], $11::boolean[], $19::bigint[])
        AS w(key, version, holder, ends, epoch, sole, members, waiting, record, record_ends, is_grant, seen_epoch)),
    strong AS MATERIALIZED (SELECT l.key FROM {lock} l JOIN want w ON l.key = w.key CROSS JOIN n
        WHERE l.version = w.version AND l.epoch = w.seen_epoch AND w.is_grant AND n.t <= $18::bigint
        ORDER BY l.key FOR UPDATE OF l SKIP LOCKED),
    weak AS MATERIALIZED (SELECT l.key FROM {lock} l JOIN want w ON l.key = w.key CROSS JOIN n
        WHERE l.version = w.version AND l.epoch = w.seen_epoch AND NOT w.is_grant AND n.t <= $18::bigint
        ORDER BY l.key FOR NO KEY UPDATE OF l SKIP LOCKED),
    locked AS MATERIALIZED (SELECT key FROM strong UNION ALL SELECT key FROM weak),
    won AS MATERIALIZED (SELECT key FROM locked
        WHERE $20::boolean OR (SELECT count(*) FROM locked) = (SELECT count(*) FROM want)),
    gone AS (DELETE FROM {waiter} q USING unnest($12::text[], $13::bigint[]) AS g(key, arrival), won
        WHERE g.key = won.key AND q.key = g.key AND q.arrival = g.arrival),
    come AS (INSERT INTO {waiter} (key, arrival, alive_until, entry)
        SELECT c.key, c.arrival, c.alive_until, c.entry
        FROM unnest($14::text[], $15::bigint[], $16::bigint[], $17::text[])
            AS c(key, arrival, alive_until, entry), won
        WHERE c.key = won.key ORDER BY c.key, c.arrival
        ON CONFLICT (key, arrival) DO UPDATE SET alive_until = excluded.alive_until),
    done AS (UPDATE {lock} l SET version = l.version + 1, holder = w.holder, ends = w.ends,
            epoch = w.epoch, sole = w.sole, members = w.members, waiting = w.waiting,
            record = w.record, record_ends = w.record_ends
        FROM want w, won WHERE w.key = won.key AND l.key = w.key)
    SELECT n.t, ARRAY(SELECT key FROM won), CASE WHEN $21::boolean THEN {UNFLUSHED} END FROM n"
    )
}

/// key: names the open transactions that have locked its row, if any has. `xmax` is one of them, or a number
/// that stands for several. It may be a savepoint's that was released, which no view knows: then it is one of
/// those that have locked any row of the table. A
/// connection of dlock's keeps none for longer than a moment.
pub(super) fn keepers(schema: &str) -> String {
    format!(
        "WITH free AS (SELECT {UNFLUSHED} FROM \"{schema}\".lock WHERE key = $1::text FOR UPDATE SKIP LOCKED),
        named AS (SELECT coalesce('prepared transaction ' || pg_catalog.quote_literal(p.gid),
                'backend ' || t.pid || ' ('
                    || pg_catalog.concat_ws(', ', a.usename, nullif(a.application_name, ''), a.state) || ')') AS name,
            EXISTS (SELECT FROM pg_catalog.pg_locks k WHERE k.virtualtransaction = t.virtualtransaction
                AND k.locktype = 'transactionid' AND k.mode = 'ExclusiveLock' AND k.transactionid IN (l.xmax, m.xid)) AS is_sure,
            a.application_name IS NOT DISTINCT FROM 'dlock' AS is_ours
        FROM \"{schema}\".lock l
        JOIN pg_catalog.pg_locks t ON t.locktype = 'relation' AND t.relation = l.tableoid AND t.mode IN ('RowShareLock', 'RowExclusiveLock')
            AND t.pid IS DISTINCT FROM pg_catalog.pg_backend_pid()
        LEFT JOIN LATERAL pg_catalog.pg_get_multixact_members(
            CASE WHEN pg_catalog.mxid_age(l.xmax) BETWEEN 1 AND (SELECT pg_catalog.mxid_age(datminmxid)
                FROM pg_catalog.pg_database WHERE datname = pg_catalog.current_database()) THEN l.xmax END) m ON true
        LEFT JOIN pg_catalog.pg_stat_activity a ON a.pid = t.pid
        LEFT JOIN pg_catalog.pg_prepared_xacts p ON t.pid IS NULL AND EXISTS (SELECT FROM pg_catalog.pg_locks k
            WHERE k.virtualtransaction = t.virtualtransaction AND k.pid IS NULL AND k.transactionid = p.transaction)
        WHERE l.key = $1 AND NOT EXISTS (SELECT FROM free))
        SELECT who FROM (SELECT coalesce(pg_catalog.string_agg(DISTINCT name, ', ') FILTER (WHERE is_sure AND NOT is_ours),
            CASE WHEN NOT bool_or(is_sure) THEN 'one of ' || pg_catalog.string_agg(DISTINCT name, ', ')
                FILTER (WHERE NOT is_ours) END) AS who FROM named) found WHERE who IS NOT NULL"
    )
}

/// What can harm locks, as lines of a name and a text.
pub(super) fn harms() -> String {
    let names = [
        "fsync",
        "full_page_writes",
        "synchronous_commit",
        "statement_timeout",
        "idle_in_transaction_session_timeout",
        "default_transaction_isolation",
    ];
    let settings = names.map(|name| {
        format!("('{name}', (SELECT setting FROM pg_catalog.pg_settings WHERE name = '{name}'))")
    });
    let settings = settings.join(", ");
    let open = "FROM pg_catalog.pg_stat_activity WHERE datname = pg_catalog.current_database()
        AND coalesce(backend_type, 'client backend') = 'client backend' AND pid <> pg_catalog.pg_backend_pid()";
    format!(
        "SELECT v.name, coalesce(v.value, '') FROM (VALUES
        ('time', {NOW}::text), {settings},
        ('transaction_timeout', (SELECT coalesce(max(setting), '0')
            FROM pg_catalog.pg_settings WHERE name = 'transaction_timeout')),
        ('oldest_seconds', (SELECT (extract(epoch FROM pg_catalog.clock_timestamp() - coalesce(min(xact_start),
            pg_catalog.clock_timestamp())))::bigint::text {open})),
        ('oldest', (SELECT 'backend ' || pid {open} AND xact_start IS NOT NULL ORDER BY xact_start LIMIT 1)),
        ('hidden', (SELECT count(*)::text {open} AND coalesce(backend_xid, backend_xmin) IS NOT NULL AND xact_start IS NULL)),
        ('prepared', (SELECT string_agg(pg_catalog.quote_literal(gid), ', ') FROM pg_catalog.pg_prepared_xacts
            WHERE database = pg_catalog.current_database()
                AND prepared < pg_catalog.clock_timestamp() - interval '1 minute'))
        ) AS v(name, value)"
    )
}

/// after which key, how many, how old in µs: looks at so many rows, and removes those that are not used, with
/// waiters that are dead. Returns the last key, and how many rows it looked at. Whoever has come to wait since
/// has drawn an epoch.
pub(super) fn sweep(schema: &str) -> String {
    format!(
        "WITH n AS MATERIALIZED (SELECT {NOW} AS t),
        part AS MATERIALIZED (SELECT l.key FROM \"{schema}\".lock l WHERE l.key > $1::text ORDER BY l.key LIMIT $2::bigint),
        old AS MATERIALIZED (SELECT l.key FROM \"{schema}\".lock l JOIN part p ON p.key = l.key CROSS JOIN n
            WHERE greatest(l.ends, l.record_ends, l.epoch) < n.t - $3::bigint
                AND NOT EXISTS (SELECT 1 FROM \"{schema}\".waiter q WHERE q.key = l.key AND q.alive_until >= n.t - $3)
            FOR UPDATE OF l SKIP LOCKED),
        dead AS (DELETE FROM \"{schema}\".waiter q USING old WHERE q.key = old.key),
        gone AS (DELETE FROM \"{schema}\".lock l USING old WHERE l.key = old.key)
        SELECT max(key), count(*) FROM part"
    )
}

/// What a transaction of the user's checks so many keys with: a statement that fails outside one, and one
/// that returns a row if all are held. A row is locked so that whoever is granted the lock waits for the end
/// of the transaction, and renewals and releases do not.
pub(crate) fn check(schema: &str, keys: usize) -> (String, String) {
    let begin = format!("LOCK TABLE \"{schema}\".lock IN ACCESS SHARE MODE");
    let sql = format!(
        "SELECT 1 FROM (
            SELECT l.key FROM \"{schema}\".lock l
            JOIN unnest($1::text[], $2::bigint[]) AS c(key, epoch) ON l.key = c.key AND l.sole = c.epoch
            WHERE l.ends > {NOW}
            ORDER BY l.key FOR KEY SHARE OF l) held
        HAVING count(*) = {keys}"
    );
    (begin, sql)
}

/// Whether a transaction that has locked a row is the outermost one: each nested one that has written or
/// locked anything has a lock on a number of its own.
pub(super) const IS_OUTERMOST: &str = "SELECT count(*) <= 1 FROM pg_catalog.pg_locks
    WHERE pid = pg_catalog.pg_backend_pid() AND locktype = 'transactionid' AND mode = 'ExclusiveLock' AND granted";

/// What a connection is set to, before anything else: a statement that waits would stop all others of its
/// connection, and a role may have an isolation of its own. A plan is made once and kept, perhaps since the
/// table was empty: so it finds rows by their keys, whatever the planner thinks of their number.
pub(super) fn settings(command_timeout: u128, synchronous_commit: Option<&str>) -> String {
    let lock_timeout = command_timeout.clamp(1, 250);
    let level = synchronous_commit.map_or_else(String::new, |level| {
        format!("SET synchronous_commit = {level};")
    });
    format!(
        "SET search_path = pg_catalog; SET lock_timeout = {lock_timeout};
        SET statement_timeout = {command_timeout}; SET default_transaction_isolation = 'read committed'; {level}
        SET plan_cache_mode = force_generic_plan;
        SELECT set_config(name, 'off', false) FROM pg_settings
        WHERE name IN ('jit', 'enable_seqscan', 'enable_hashjoin', 'enable_mergejoin', 'enable_memoize',
            'enable_material')"
    )
}

/// What is asked of a server before it is used.
pub(super) fn hello() -> String {
    format!(
        "SELECT {NOW}, pg_catalog.version(), pg_catalog.current_setting('server_version_num')::int"
    )
}

/// The layout of the tables, and which of the rights that all this needs the role lacks.
pub(super) fn layout(schema: &str) -> String {
    format!(
        "SELECT coalesce(max(version), 0), (
            SELECT pg_catalog.string_agg(need.privilege || ' on \"{schema}\".' || need.name, ', ')
            FROM (VALUES ('lock', 'SELECT'), ('lock', 'INSERT'), ('lock', 'UPDATE'), ('lock', 'DELETE'),
                ('waiter', 'SELECT'), ('waiter', 'INSERT'), ('waiter', 'UPDATE'), ('waiter', 'DELETE')) AS need(name, privilege)
            WHERE NOT pg_catalog.has_table_privilege('\"{schema}\".' || need.name, need.privilege))
        FROM \"{schema}\".layout"
    )
}

/// Makes the tables, or brings them to this layout: a later layout only adds. What is printed can be run
/// again, and by several at a time.
pub(crate) fn migration(schema: &str) -> String {
    format!(
        "BEGIN;
SELECT pg_catalog.pg_advisory_xact_lock(pg_catalog.hashtext('dlock migrate'));
CREATE SCHEMA IF NOT EXISTS \"{schema}\";
CREATE TABLE IF NOT EXISTS \"{schema}\".lock (
    key text COLLATE \"C\" PRIMARY KEY,
    version bigint NOT NULL DEFAULT 0,
    holder text NOT NULL DEFAULT '',
    ends bigint NOT NULL DEFAULT 0,
    epoch bigint NOT NULL DEFAULT 0,
    sole bigint,
    members text NOT NULL DEFAULT '',
    waiting boolean NOT NULL DEFAULT false,
    record text NOT NULL DEFAULT '',
    record_ends bigint NOT NULL DEFAULT 0
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000);
CREATE UNLOGGED TABLE IF NOT EXISTS \"{schema}\".waiter (
    key text COLLATE \"C\" NOT NULL,
    arrival bigint NOT NULL,
    alive_until bigint NOT NULL,
    entry text NOT NULL,
    PRIMARY KEY (key, arrival)
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000);
CREATE TABLE IF NOT EXISTS \"{schema}\".layout (version int PRIMARY KEY);
INSERT INTO \"{schema}\".layout (version) VALUES ({LAYOUT}) ON CONFLICT (version) DO NOTHING;
COMMIT;
"
    )
}
