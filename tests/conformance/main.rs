//! One suite for every backend: what a user may rely on with any server.
//!
//! A case is an async function that gets a fresh pool. [`backends`] runs it on `memory://` in real
//! time, on `memory://` under tokio's paused clock, and on a Redis server of its own, where nothing
//! may be left afterwards; there also without local hand-off, so that the server decides each turn,
//! and without scripts; on PostgreSQL; and, where asked for, behind `PgBouncer`, and on three servers of
//! which a quorum decides.
//! Tests without a second backend to compare with are separate: `namespaces` and `fleets` (several
//! pools on one server), `global` and `shutting_down` (the process's own pools; each test in a
//! process of its own), and `lock_order`, whose pools have another setting and whose events are
//! recorded (`log`).

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test fails by panicking; clippy knows this only inside the test functions"
)]

/// Makes a test of each case, on each server that has what the case needs. Cases behind `seconds:`
/// take some seconds, and do not run on memory in real time. Cases behind `scripts:` need more than
/// a server without scripts offers, those behind `scripts_and_seconds:` both; those behind
/// `many_holders:` and `many_holders_and_seconds:` are the same, of kinds that a quorum has too; those behind
/// `pushed:` and `many_holders_pushed:` hear messages as well, which no pooler passes on. Cases behind
/// `one_server:` ask for longer leases than nodes of a quorum can wait for when they start, or for
/// records, which they do not keep. Cases behind `by_the_server:` are about the server's queue, and run only without local hand-off; those behind
/// `handed_on:` are about long chains of local hand-offs, those behind `handed_on_with_writes:` need guarded writes, too. Cases behind `with_data:` get a [`data::Site`].
macro_rules! on_every_backend {
    (
        $($case:ident),* $(,)?
        $(; one_server: $($lease:ident),* $(,)?)?
        $(; seconds: $($long:ident),* $(,)?)?
        $(; scripts: $($scripted:ident),* $(,)?)?
        $(; scripts_and_seconds: $($scripted_long:ident),* $(,)?)?
        $(; many_holders: $($many:ident),* $(,)?)?
        $(; many_holders_and_seconds: $($many_long:ident),* $(,)?)?
        $(; pushed: $($pushed:ident),* $(,)?)?
        $(; many_holders_pushed: $($many_pushed:ident),* $(,)?)?
        $(; by_the_server: $($turn:ident),* $(,)?)?
        $(; handed_on: $($handed:ident),* $(,)?)?
        $(; handed_on_with_writes: $($writes:ident),* $(,)?)?
        $(; with_data: $($data:ident),* $(,)?)?
    ) => {
        mod memory {
            each!(#[tokio::test] on_memory: $($case)* $($($lease)*)? $($($scripted)*)? $($($many)*)?);
            each!(#[tokio::test] on_memory: $($($pushed)*)? $($($many_pushed)*)?);
            each!(#[tokio::test] on_memory_handing_on: $($($handed)*)? $($($writes)*)?);
            each!(#[tokio::test] on_memory_with_data: $($($data)*)?);
        }

        mod memory_paused {
            each!(#[tokio::test(start_paused = true)] on_memory: $($case)* $($($lease)*)? $($($scripted)*)? $($($many)*)?);
            each!(#[tokio::test(start_paused = true)] on_memory: $($($pushed)*)? $($($many_pushed)*)?);
            each!(#[tokio::test(start_paused = true)] on_memory: $($($long)*)? $($($scripted_long)*)? $($($many_long)*)?);
            each!(#[tokio::test(start_paused = true)] on_memory_by_the_server: $($($turn)*)?);
            each!(#[tokio::test(start_paused = true)] on_memory_handing_on: $($($handed)*)? $($($writes)*)?);
            each!(#[tokio::test(start_paused = true)] on_memory_with_data: $($($data)*)?);
        }

        mod redis {
            each!(#[tokio::test] on_redis: $($case)* $($($lease)*)? $($($scripted)*)? $($($many)*)?);
            each!(#[tokio::test] on_redis: $($($pushed)*)? $($($many_pushed)*)?);
            each!(#[tokio::test] on_redis: $($($long)*)? $($($scripted_long)*)? $($($many_long)*)?);
            each!(#[tokio::test] on_redis_handing_on: $($($handed)*)? $($($writes)*)?);
            each!(#[tokio::test] on_redis_with_data: $($($data)*)?);
        }

        mod redis_by_the_server {
            each!(#[tokio::test] on_redis_by_the_server: $($case)* $($($lease)*)? $($($scripted)*)? $($($many)*)?);
            each!(#[tokio::test] on_redis_by_the_server: $($($pushed)*)? $($($many_pushed)*)?);
            each!(#[tokio::test] on_redis_by_the_server: $($($long)*)? $($($scripted_long)*)? $($($many_long)*)?);
            each!(#[tokio::test] on_redis_by_the_server: $($($turn)*)?);
        }

        mod redis_without_scripts {
            each!(#[tokio::test] on_redis_without_scripts: $($case)* $($($lease)*)? $($($long)*)?);
        }

        mod postgres {
            each!(#[tokio::test] on_postgres: $($case)* $($($lease)*)? $($($scripted)*)? $($($many)*)?);
            each!(#[tokio::test] on_postgres: $($($pushed)*)? $($($many_pushed)*)?);
            each!(#[tokio::test] on_postgres: $($($long)*)? $($($scripted_long)*)? $($($many_long)*)?);
            each!(#[tokio::test] on_postgres_handing_on: $($($handed)*)?);
            each!(#[tokio::test] on_postgres_by_the_server: $($($turn)*)?);
        }

        mod postgres_pooled {
            each!(#[tokio::test] #[ignore = "needs PgBouncer; with --rest"]
                on_postgres_pooled: $($case)* $($($lease)*)? $($($scripted)*)? $($($many)*)?);
        }

        mod quorum {
            each!(#[tokio::test] #[ignore = "the servers vote after two minutes; with --rest"]
                on_quorum: $($case)* $($($long)*)? $($($many)*)? $($($many_pushed)*)? $($($many_long)*)?);
        }
    };
    // The first list is empty.
    ($list:ident: $($rest:tt)*) => {
        on_every_backend!(; $list: $($rest)*);
    };
}

macro_rules! each {
    (#[$test:meta] $(#[$ignored:meta])? $backend:ident: $($case:ident)*) => {
        each!(@ #[$test] [$(#[$ignored])?] $backend: $($case)*);
    };
    (@ #[$test:meta] $ignored:tt $backend:ident: $($case:ident)*) => {
        $(each!(@@ #[$test] $ignored $backend: $case);)*
    };
    (@@ #[$test:meta] [$(#[$ignored:meta])?] $backend:ident: $case:ident) => {
        #[$test]
        $(#[$ignored])?
        async fn $case() {
            crate::backends::$backend(|given| Box::pin(super::$case(given))).await;
        }
    };
}

mod backends;
mod bounds;
mod bugs;
mod bugs_elsewhere;
mod data;
mod database;
mod evictions;
mod exclusion;
mod fences;
mod fleets;
mod global;
mod guarded_writes;
mod guards;
mod handed_on;
mod holds;
mod in_turn;
mod kinds;
mod leading;
mod leases;
mod lock_order;
mod log;
mod looking;
mod namespaces;
mod nested_edges;
mod once_per;
mod owners;
mod permits;
mod queueing;
mod reading;
mod reentrant;
mod releases;
mod scopes;
mod several_edges;
mod several_keys;
mod shutting_down;
mod stalls;
mod transactions;
mod waiting;
