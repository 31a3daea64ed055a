//! The generations of a target: a late answer about the master before the last one changes nothing.

use crate::backend::redis::target::Target;
use crate::values::config::Host;

fn host(port: u16) -> Host {
    let name = "h".to_owned();
    Host { name, port }
}

#[test]
fn each_master_begins_a_generation() {
    let target = Target::default();
    assert_eq!(target.master_is(&host(1), 0), Some(1));
    assert_eq!(target.master_is(&host(1), 1), Some(1));
    assert_eq!(target.master_is(&host(2), 1), Some(2));
    assert_eq!(target.master_is(&host(1), 2), Some(3), "and back");
    assert_eq!(target.generation(), 3);
}

#[test]
fn an_answer_from_before_a_move_is_not_believed() {
    let target = Target::default();
    assert_eq!(target.master_is(&host(2), 0), Some(1));
    assert_eq!(target.master_is(&host(1), 0), None, "it was asked before");
    assert_eq!(
        target.master_is(&host(2), 0),
        Some(1),
        "the same is no news"
    );
    assert_eq!(target.generation(), 1);
}
