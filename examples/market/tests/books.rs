//! The audit finds each kind of error: the program runs, and somebody changes its data.

use dlock_harness::until;

use super::program::{CAP, Run};

/// Commands on a run's data, and what the audit then says; `*` is any text. `@` is the name of the
/// run; user 0 sells, user 1 buys, and `#` is an item that was sold. Nobody is user 9: what that
/// user offers gets no other price.
const ROWS: [(&[&str], &str); 9] = [
    (&["ZPOPMAX @:market"], "item * vanished"),
    (
        &["SADD @:inventory:1 777777777"],
        "item 777777777 appeared out of nothing",
    ),
    // Only three are told.
    (
        &["SADD @:inventory:1 777777771 777777772 777777773 777777774 777777775"],
        "item 777777771 appeared out of nothing; item 777777772 appeared out of nothing; \
         item 777777773 appeared out of nothing; and 2 more",
    ),
    (
        &["ZADD @:market 2000000000 #.9"],
        "item # is in two places: user 1 and the market; item # was sold to user 1 and is not there",
    ),
    (
        &["ZADD @:market 0 #.9"],
        "item # was sold twice, to user 1 and to user 1",
    ),
    (
        &["SMOVE @:inventory:1 @:inventory:0 #"],
        "item # was sold to user 1 and is not there",
    ),
    (
        &["HINCRBY @:users:1 funds 1"],
        "all money was 10000000.00 and is 10000000.01; user 1 should have * and has *",
    ),
    // The sum is right, but one user has another's money.
    (
        &["HINCRBY @:users:0 funds -1", "HINCRBY @:users:1 funds 1"],
        "user 0 should have * and has *; user 1 should have * and has *",
    ),
    (
        &[
            "HINCRBY @:users:0 funds 2000000000",
            "HINCRBY @:users:1 funds -2000000000",
        ],
        "user 0 should have * and has *; user 1 should have * and has -*; user 1 owes *",
    ),
];

#[tokio::test]
async fn each_change_of_the_data_is_found() {
    for (changes, says) in ROWS {
        check(changes, says).await;
    }
}

async fn check(changes: &[&str], says: &str) {
    let run = Run::start("--seconds 60 --way watch");
    let market = run.market().await;
    let inventory = format!("{market}:inventory:1");
    let sold: String = run.server.ask(&["SRANDMEMBER", &inventory]).await;
    let fill = |text: &str| text.replace('@', &market).replace('#', &sold);
    for change in changes.iter().map(|change| fill(change)) {
        let words: Vec<&str> = change.split(' ').collect();
        run.server.cmd(&words).await;
    }
    until("what costs nothing is bought", CAP, async || {
        let words = fill("ZSCORE @:market #.9");
        let words: Vec<&str> = words.split(' ').collect();
        run.server.ask::<Option<f64>>(&words).await != Some(0.0)
    })
    .await;
    let ended = run.interrupted().await;
    let says = "WATCH/MULTI/EXEC, 1/1: the books do not balance: ".to_owned() + &fill(says);
    let says = format!("*market: {says}\n");
    assert!(fits(&ended.told, &says), "{says} {}", ended.told);
    assert_eq!(ended.status, Some(1), "{says}");
}

/// Whether a text is the pattern's, in which `*` is any text without an `;`.
fn fits(text: &str, pattern: &str) -> bool {
    let mut parts = pattern.split('*');
    let first = parts.next().unwrap_or_default();
    let Some(mut rest) = text.strip_prefix(first) else {
        return false;
    };
    for part in parts {
        let Some((_, after)) = rest.split_once(part) else {
            return false;
        };
        rest = after;
    }
    rest.is_empty()
}
