//! The estimate of the server's clock.

use crate::client::server_clock::ServerClock;
use crate::values::moment::Moment;

fn ms(millis: u64) -> Moment {
    Moment::from_nanos(millis * 1_000_000)
}

fn heard() -> ServerClock {
    ServerClock {
        time: 1_000_000,
        heard: ms(100),
    }
}

#[test]
fn it_goes_on_between_answers() {
    assert_eq!(heard().at(ms(350)), 1_250_000);
}

#[test]
fn an_answer_that_was_read_late_does_not_set_it_back() {
    let mut clock = heard();
    clock.hear(1_001_000, ms(101), ms(700)); // said at 101 or later, read at 700
    assert_eq!(clock.at(ms(700)), 1_600_000);
}

#[test]
fn a_quicker_answer_makes_it_better() {
    let mut clock = heard();
    clock.hear(1_550_000, ms(600), ms(601));
    assert_eq!(clock.at(ms(601)), 1_550_000);
}

#[test]
fn a_clock_that_was_set_back_is_believed() {
    let mut clock = heard();
    clock.hear(500_000, ms(600), ms(601));
    assert_eq!(clock.at(ms(601)), 500_000);
}
