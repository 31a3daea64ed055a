//! The generations of a target: a late answer about the master before the last one changes nothing,
//! and connections that work go to one server.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::link::redis::target::{ConnectionTarget, Landing, Outdated};
use crate::values::config::Host;

fn host(port: u16) -> Host {
    let name = "h".to_owned();
    Host { name, port }
}

#[test]
fn each_master_begins_a_generation() {
    let target = ConnectionTarget::default();
    assert_eq!(target.master_is(&host(1), 0), Some(1));
    assert_eq!(target.master_is(&host(1), 1), Some(1));
    assert_eq!(target.master_is(&host(2), 1), Some(2));
    assert_eq!(target.master_is(&host(1), 2), Some(3), "and back");
    assert_eq!(target.generation(), 3);
}

#[test]
fn an_answer_from_before_a_move_is_not_believed() {
    let target = ConnectionTarget::default();
    assert_eq!(target.master_is(&host(2), 0), Some(1));
    assert_eq!(target.master_is(&host(1), 0), None, "it was asked before");
    assert_eq!(
        target.master_is(&host(2), 0),
        Some(1),
        "the same is no news"
    );
    assert_eq!(target.generation(), 1);
}

#[derive(Debug, Default)]
struct Ended(AtomicBool);

impl Outdated for Ended {
    fn end(&self) {
        self.0.store(true, Ordering::SeqCst);
    }

    fn works(&self) -> bool {
        !self.0.load(Ordering::SeqCst)
    }
}

type Landed = Result<(), Option<[String; 2]>>;

/// A connection to the server that has this name for its run id and its address.
fn lands(target: &ConnectionTarget, at: &str, begun: u64) -> (Arc<dyn Outdated>, Landed) {
    let connection: Arc<dyn Outdated> = Arc::new(Ended::default());
    let landing = Landing {
        run_id: at.into(),
        at: at.to_owned(),
    };
    let landed = target.lands(&connection, landing, begun);
    (connection, landed)
}

#[test]
fn a_name_s_connections_that_work_go_to_one_server() {
    let target = ConnectionTarget::default();
    let (first, landed) = lands(&target, "a", 0);
    assert_eq!(landed, Ok(()));
    let (second, landed) = lands(&target, "a", 0);
    assert!(landed.is_ok() && first.works() && second.works());
    let (other, landed) = lands(&target, "b", 0);
    assert!(landed.is_ok() && other.works());
    assert!(!first.works() && !second.works(), "they are replaced");

    let (_, landed) = lands(&target, "a", 0);
    assert_eq!(landed, Err(None), "it began before that");
    assert_eq!(target.several(), None);
    let both = ["b", "a"].map(str::to_owned);
    let (_, landed) = lands(&target, "a", target.generation());
    assert_eq!(landed, Err(Some(both.clone())));
    let (_, landed) = lands(&target, "a", target.generation());
    assert_eq!(landed, Err(None), "it was told");
    assert_eq!(target.several(), Some(both));

    target.is_replica("a");
    assert!(other.works(), "no connection goes there");
    let (there, _) = lands(&target, "b", target.generation());
    target.is_replica("b");
    assert!(!other.works() && !there.works(), "it was demoted");
    let (back, landed) = lands(&target, "a", target.generation());
    assert!(landed.is_ok() && back.works(), "a failover back");
    back.end();
    let (other, landed) = lands(&target, "b", target.generation());
    assert!(landed.is_ok(), "the other one is gone");

    other.end();
    let (back, landed) = lands(&target, "a", target.generation());
    assert!(landed.is_ok() && back.works(), "the other one is gone");
}
