//! A command without a clear answer: cut, held or late, alone or with others, while its caller
//! stays or goes. Nothing stays of it, and no lock is taken from who holds it.
//!
//! `row` says what a row is, `column` what each topology lacks and promises less, `site` has the
//! servers, and `check` carries a row out. One server runs every row. The others run one
//! row of each table, and with `DLOCK_TEST_ALL_CASES` (`tests/run.sh --rest`) all that they have.

mod check;
mod column;
mod row;
mod site;

use std::time::Duration;

use dlock_harness::Action::{self, CutAfter, CutBefore, CutInside, CutReply, Hold, Signal};

use column::ALL;
use row::{Call, Ends, Row, Step};

/// Of a request arrive: nothing, its head, the script's name, the key, the value, all. Of the
/// reply, a number of 16 digits: nothing, its head, some digits, more, all but the last byte, all.
const CUTS: &[Action] = &[
    CutBefore,
    CutInside(0),
    CutInside(1),
    CutInside(20),
    CutInside(60),
    CutInside(110),
    CutInside(180),
    CutInside(ALL),
    CutAfter,
    CutReply(0),
    CutReply(1),
    CutReply(4),
    CutReply(9),
    CutReply(18),
    CutReply(ALL),
];

const ALL_KINDS: &[&str] = &["r", "w", "p:1/3", "p:3/3", "o:a", "fair"];

const CUTS_OF_KINDS: &[Action] = &[
    CutBefore,
    CutInside(60),
    CutInside(ALL),
    CutAfter,
    CutReply(0),
    CutReply(9),
];

/// The same of a request for many.
const CUTS_OF_MANY: &[Action] = &[
    CutBefore,
    CutInside(0),
    CutInside(200),
    CutInside(2_000),
    CutInside(ALL),
    CutAfter,
    CutReply(0),
    CutReply(1),
    CutReply(30),
    CutReply(40), // all but its last bytes
];

/// The caller gives up, or waits on: it has the lock when the clean-up has freed it.
const ACQUIRES: &[Row] = &[
    Row::of(Call::Try, CUTS, Ends::Unclear),
    Row::of(Call::Wait, CUTS, Ends::Had),
];

/// The same of every kind.
const KINDS: &[Row] = &[
    Row::of(Call::Try, CUTS_OF_KINDS, Ends::Unclear).each(ALL_KINDS),
    Row::of(Call::Wait, CUTS_OF_KINDS, Ends::Had).each(ALL_KINDS),
];

/// Each caller cleans up after its own token.
const BATCHES: &[Row] = &[
    Row::of(Call::Try, CUTS_OF_MANY, Ends::Unclear).together(),
    Row::of(Call::Wait, CUTS_OF_MANY, Ends::Had).together(),
    Row::of(Call::Release, CUTS_OF_MANY, Ends::Told).together(),
];

/// Each clean-up is executed and its answer lost, so it is repeated, while a live token holds the
/// same key.
const CLEAN_UPS: &[Row] = &[Row::of(Call::Wait, &[CutAfter], Ends::Had)
    .at_clean_ups(CutAfter)
    .then(&[Step::Ended, Step::CleanUps])];

/// It carries the server time after which it creates nothing; if it is executed earlier, the
/// clean-up finds what it created.
const LATE: &[Row] = &[
    Row::of(Call::Try, &[Hold], Ends::Unclear)
        .then(&[Step::Ended, Step::LastMoment, Step::Deliver, Step::Executed])
        .creates_nothing(),
    // No clean-up can follow it on its connection.
    Row::of(Call::Try, &[Hold], Ends::Unclear)
        .then(&[
            Step::CutAll,
            Step::Ended,
            Step::LastMoment,
            Step::Deliver,
            Step::Executed,
        ])
        .creates_nothing(),
    Row::of(Call::Try, &[Hold], Ends::Unclear)
        .lease(Duration::from_millis(500))
        .then(&[Step::Ended, Step::LastMoment, Step::Deliver, Step::Executed])
        .creates_nothing(),
    // The first clean-up overtakes it, on another connection, and finds nothing: that must not end
    // the clean-up.
    Row::of(Call::Try, &[Hold], Ends::Unclear)
        .leisurely(Duration::from_millis(1500))
        .then(&[
            Step::CutAll,
            Step::Ended,
            Step::CleanUp,
            Step::Deliver,
            Step::Created,
        ]),
    Row::of(Call::Wait, &[Hold], Ends::Never).in_time().then(&[
        Step::Goes,
        Step::Deliver,
        Step::Created,
    ]),
    // Two timeouts detect a connection that went silent; a machine that stalls for a second may
    // cost one more attempt. What was swallowed arrives then.
    Row::of(Call::Wait, &[Hold], Ends::Had).then(&[Step::Ended, Step::Replaced, Step::Deliver]),
];

/// What waits in the socket of a stopped server.
const STOPPED: &[Row] = &[
    Row::of(Call::Try, &[Signal], Ends::Unclear)
        .at_a_stopped_server()
        .then(&[Step::Ended, Step::Continue, Step::Executed]),
    Row::of(Call::Wait, &[Signal], Ends::Never)
        .in_time()
        .at_a_stopped_server()
        .then(&[Step::Goes, Step::Continue, Step::Executed]),
];

/// The tables that a column has, each as a test.
macro_rules! columns {
    ($($module:ident = $column:ident: $($test:ident $table:ident),*;)*) => {$(
        mod $module {
            $(
                #[tokio::test]
                async fn $test() {
                    super::check::all(super::column::Column::$column, super::$table).await;
                }
            )*
        }
    )*};
}

columns! {
    one_server = OneServer: acquires ACQUIRES, kinds KINDS, batches BATCHES, clean_ups CLEAN_UPS, late LATE, stopped STOPPED;
    by_text = ByText: acquires ACQUIRES, kinds KINDS, batches BATCHES;
    without_scripts = WithoutScripts: acquires ACQUIRES, late LATE, stopped STOPPED;
    sharded = Sharded: acquires ACQUIRES, kinds KINDS, batches BATCHES, clean_ups CLEAN_UPS, late LATE, stopped STOPPED;
    sentinel = Sentinel: acquires ACQUIRES, kinds KINDS, batches BATCHES, clean_ups CLEAN_UPS, late LATE, stopped STOPPED;
    cluster = Cluster: acquires ACQUIRES, kinds KINDS, batches BATCHES, clean_ups CLEAN_UPS, late LATE, stopped STOPPED;
    quorum = Quorum: acquires ACQUIRES, kinds KINDS, batches BATCHES, clean_ups CLEAN_UPS, late LATE, stopped STOPPED;
    minority = Minority: acquires ACQUIRES, kinds KINDS, batches BATCHES, late LATE, stopped STOPPED;
}
