//! Parsing INFO, and the difference of two readings.

use std::time::Duration;

use super::Reading;

fn reading(text: &str) -> Reading {
    Reading::parse(text).unwrap()
}

const BEFORE: &str = "# CPU\r\nused_cpu_sys:1.500000\r\nused_cpu_user:0.250000\r\nused_cpu_sys_children:9.0\r\n\
    # Commandstats\r\ncmdstat_set:calls=10,usec=5,usec_per_call=0.50,rejected_calls=0,failed_calls=0\r\n";
const AFTER: &str = "# CPU\r\nused_cpu_sys:1.600000\r\nused_cpu_user:0.400000\r\nused_cpu_sys_children:9.0\r\n\
    # Commandstats\r\ncmdstat_set:calls=13,usec=5\r\ncmdstat_evalsha:calls=2,usec=5\r\ncmdstat_client|setinfo:calls=4,usec=1\r\n";

#[test]
fn what_it_did_between_two_readings() {
    let work = reading(AFTER).since(&reading(BEFORE));
    assert!(work.cpu.abs_diff(Duration::from_millis(250)) < Duration::from_micros(1));
    assert_eq!(work.calls(&["set"]), 3);
    assert_eq!(work.calls(&["set", "evalsha", "eval"]), 5);
    assert_eq!(work.calls(&["client|setinfo"]), 4);
    assert_eq!(work.calls(&[]), 0);
}

#[test]
fn of_several_servers_all_is_added_up() {
    let [first, second] = ["total_reads_processed:7\r\n", "total_reads_processed:5\r\n"];
    let before = [BEFORE, first, BEFORE, second].concat();
    let after = [AFTER, "total_reads_processed:9\r\n", BEFORE, second].concat();
    let work = reading(&after).since(&reading(&before));
    assert!(work.cpu.abs_diff(Duration::from_millis(250)) < Duration::from_micros(1));
    assert_eq!((work.calls(&["set"]), work.reads), (3, 2));
}

#[test]
fn work_adds_up() {
    let work = reading(AFTER).since(&reading(BEFORE));
    let mut all = work.clone();
    all.add(&work);
    assert_eq!(all.cpu, work.cpu * 2);
    assert_eq!(all.calls(&["set", "evalsha"]), 10);
}

#[test]
fn no_cpu_time_is_an_error() {
    let told = Reading::parse("used_cpu_sys:1.0\r\n")
        .unwrap_err()
        .to_string();
    assert!(told.contains("used_cpu_user"), "{told}");
}
