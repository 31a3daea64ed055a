//! A command without a clear answer: cut, held or late, alone or with others, while its caller
//! stays or goes. Nothing stays of it, and no lock is taken from who holds it.
//!
//! `row` says what a row is, `column` what each topology lacks and promises less, `site` has the
//! servers, `check` carries a row out, and `calls` makes its calls. One server runs every row, in
//! each way of talking to it. The others run one row of each table, and with
//! `DLOCK_TEST_ALL_CASES` (`tests/run.sh --rest`) all that they have.

mod calls;
mod check;
mod column;
mod row;
mod site;

use std::time::Duration;

use dlock_harness::Action::{
    self, CutAfter, CutBefore, CutInside, CutReply, Hold, HoldReply, Signal,
};

use column::ALL;
use row::{Call, Caller, Ends, Row, Step};

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

/// What can happen to a release.
const FAULTS: &[Action] = &[
    CutBefore,
    CutInside(1),
    CutInside(60),
    CutInside(ALL),
    CutAfter,
    CutReply(1),
    CutReply(ALL),
    Hold,
    HoldReply,
];

const RUNTIMES: &[Caller] = &[
    Caller::CurrentThread,
    Caller::MultiThread,
    Caller::Background,
    Caller::CurrentThreadInBackground,
];

const CALLERS: &[Caller] = &[
    Caller::Task,
    Caller::CurrentThread,
    Caller::MultiThread,
    Caller::Background,
    Caller::CurrentThreadInBackground,
    Caller::Undriven,
];

/// A timeout that leaves time for the steps, on a machine that is slow to connect.
const LEISURELY: Duration = Duration::from_secs(5);

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

/// Several keys are taken in one command, or one by one; then the last is busy.
const SEVERAL: &[Row] = &[
    Row::of(Call::Several, CUTS_OF_KINDS, Ends::Unclear),
    Row::of(Call::SeveralInTurn, CUTS_OF_KINDS, Ends::Failed).behind_a_holder(),
];

/// Each caller cleans up after its own token.
const BATCHES: &[Row] = &[
    Row::of(Call::Try, CUTS_OF_MANY, Ends::Unclear).together(),
    Row::of(Call::Wait, CUTS_OF_MANY, Ends::Had).together(),
    Row::of(Call::Release, CUTS_OF_MANY, Ends::Told).together(),
    // Who goes takes nothing from its neighbours.
    Row::of(Call::Wait, &[Hold, HoldReply], Ends::Had)
        .together()
        .then(&[Step::HalfGo, Step::Deliver]),
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
        .leisurely(LEISURELY)
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

/// The same of every kind.
const LATE_KINDS: &[Row] = &[Row::of(Call::Try, &[Hold], Ends::Unclear)
    .each(ALL_KINDS)
    .then(&[Step::Ended, Step::LastMoment, Step::Deliver, Step::Executed])
    .creates_nothing()];

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

/// It ends with an answer or an error, and the key is gone; and it costs a body nothing.
const RELEASES: &[Row] = &[
    Row::of(Call::Release, FAULTS, Ends::Told),
    Row::of(Call::Run, FAULTS, Ends::Value),
    // It returns while its release is on its way.
    Row::of(Call::RunInBackground, &[Hold, HoldReply], Ends::Value)
        .in_time()
        .then(&[Step::Ended, Step::Deliver]),
    // It comes behind a renewal that is under way; none follows it.
    Row::of(Call::Release, &[Hold, HoldReply], Ends::Freed)
        .in_time()
        .renewed()
        .then(&[Step::There, Step::Deliver]),
    // It was executed, and its answer is lost for many periods.
    Row::of(Call::Release, &[HoldReply], Ends::Freed)
        .in_time()
        .renewed()
        .at_its_release()
        .then(&[Step::NotThere, Step::Periods, Step::Deliver]),
];

/// What a holder asks for meanwhile. What it wrote is written once or not at all, and never after
/// its call has ended: its caller may have gone on.
const HELD: &[Row] = &[
    Row::of(Call::Verify, FAULTS, Ends::Kept),
    Row::of(Call::Extend, FAULTS, Ends::Kept).lease(Duration::from_secs(8)),
    Row::of(Call::Write, &[CutBefore], Ends::Kept).then(&[Step::Ended, Step::Unwritten]),
    Row::of(Call::Write, &[CutAfter, CutReply(1), HoldReply], Ends::Kept)
        .leisurely(LEISURELY)
        .then(&[Step::Ended, Step::Written]),
    Row::of(Call::Write, &[Hold], Ends::Kept)
        .leisurely(LEISURELY)
        .then(&[Step::Ended, Step::Deliver, Step::Executed, Step::Unwritten]),
];

/// The caller drops its call, or its runtime ends.
const GONE: &[Row] = &[
    goes(Call::Body, &[Signal, HoldReply])
        .from(CALLERS)
        .then(&[Step::There, Step::Goes]),
    goes(Call::Keep, &[Signal, HoldReply])
        .from(CALLERS)
        .then(&[Step::There, Step::Goes]),
    goes(Call::Body, &[Hold]).then(&[Step::NotThere, Step::Goes, Step::Deliver, Step::Created]),
    // A first clean-up finds nothing.
    goes(Call::Body, &[Hold]).from(RUNTIMES).then(&[
        Step::NotThere,
        Step::Goes,
        Step::CleanUp,
        Step::Deliver,
        Step::Executed,
    ]),
    goes(Call::Run, &[Hold])
        .from(CALLERS)
        .then(&[Step::There, Step::Goes]),
    goes(Call::Run, &[HoldReply])
        .from(CALLERS)
        .then(&[Step::NotThere, Step::Goes]),
    goes(Call::Release, &[Hold, HoldReply])
        .from(CALLERS)
        .then(&[Step::Goes]),
    // Repeated, it frees nobody else's lock.
    goes(Call::Run, &[HoldReply]).then(&[
        Step::NotThere,
        Step::Next,
        Step::Goes,
        Step::Deliver,
        Step::CleanUp,
        Step::Undisturbed,
    ]),
    goes(Call::Wait, &[Signal])
        .behind_a_holder()
        .from(CALLERS)
        .then(&[Step::Queued, Step::Goes, Step::Undisturbed]),
    // A renewal does not outlive its lock.
    goes(Call::Body, &[Signal, Hold])
        .renewed()
        .from(CALLERS)
        .then(&[Step::There, Step::Goes, Step::Deliver]),
];

const fn goes(call: Call, faults: &'static [Action]) -> Row {
    Row::of(call, faults, Ends::Never).in_time()
}

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
    one_server = OneServer: acquires ACQUIRES, kinds KINDS, several SEVERAL, batches BATCHES, clean_ups CLEAN_UPS, releases RELEASES, held HELD, gone GONE, late LATE, late_kinds LATE_KINDS, stopped STOPPED;
    by_text = ByText: acquires ACQUIRES, kinds KINDS, batches BATCHES;
    without_scripts = WithoutScripts: acquires ACQUIRES, releases RELEASES, held HELD, gone GONE, late LATE, stopped STOPPED;
    sharded = Sharded: acquires ACQUIRES, kinds KINDS, several SEVERAL, batches BATCHES, clean_ups CLEAN_UPS, releases RELEASES, held HELD, gone GONE, late LATE, late_kinds LATE_KINDS, stopped STOPPED;
    sentinel = Sentinel: acquires ACQUIRES, kinds KINDS, several SEVERAL, batches BATCHES, clean_ups CLEAN_UPS, releases RELEASES, held HELD, gone GONE, late LATE, late_kinds LATE_KINDS, stopped STOPPED;
    cluster = Cluster: acquires ACQUIRES, kinds KINDS, several SEVERAL, batches BATCHES, clean_ups CLEAN_UPS, releases RELEASES, held HELD, gone GONE, late LATE, late_kinds LATE_KINDS, stopped STOPPED;
    quorum = Quorum: acquires ACQUIRES, kinds KINDS, batches BATCHES, clean_ups CLEAN_UPS, releases RELEASES, held HELD, gone GONE, late LATE, late_kinds LATE_KINDS, stopped STOPPED;
    minority = Minority: acquires ACQUIRES, kinds KINDS, batches BATCHES, releases RELEASES, held HELD, gone GONE, late LATE, late_kinds LATE_KINDS, stopped STOPPED;
}
