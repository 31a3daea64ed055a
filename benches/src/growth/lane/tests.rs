//! Ratios to the lowest number within a round, and the series of a picture.

use super::{Lanes, Sample};

fn sample(time: f64, server: f64, commands: f64) -> Sample {
    Sample {
        time,
        server,
        commands,
        count: 10,
    }
}

/// Two contenders with 2 and 20 waiters, in two rounds; the second round is twice as slow for all.
fn lanes() -> Lanes {
    let with = ["2 waiters", "20 waiters"].map(str::to_owned);
    let mut lanes = Lanes::new(&with, &["first", "second"]);
    for slow in [1.0, 2.0] {
        lanes.add(0, sample(10.0 * slow, 4.0, 2.0));
        lanes.add(1, sample(20.0 * slow, 4.0, 2.0));
        lanes.add(2, sample(15.0 * slow, 8.0, 2.0));
        lanes.add(3, sample(60.0 * slow, 4.0, 1.0));
    }
    lanes
}

#[test]
fn each_is_divided_by_itself_with_the_fewest_in_the_same_round() {
    let rows = lanes().rows();
    let told: Vec<_> = rows.iter().map(|row| row.join(" | ")).collect();
    assert_eq!(
        told,
        [
            "2 waiters | first | 15.0 [12.5–17.5] | 1.00 [1.00–1.00] | 4.0 [4.0–4.0] | 1.00 [1.00–1.00] | 2.00 | 1.00 [1.00–1.00] | 20",
            "2 waiters | second | 30.0 [25.0–35.0] | 1.00 [1.00–1.00] | 4.0 [4.0–4.0] | 1.00 [1.00–1.00] | 2.00 | 1.00 [1.00–1.00] | 20",
            "20 waiters | first | 22.5 [18.8–26.2] | 1.50 [1.50–1.50] | 8.0 [8.0–8.0] | 2.00 [2.00–2.00] | 2.00 | 1.00 [1.00–1.00] | 20",
            "20 waiters | second | 90.0 [75.0–105.0] | 3.00 [3.00–3.00] | 4.0 [4.0–4.0] | 1.00 [1.00–1.00] | 1.00 | 0.50 [0.50–0.50] | 20",
        ]
    );
}

#[test]
fn a_picture_has_the_times_of_each_contender_with_each_number() {
    let lanes = lanes();
    assert_eq!((lanes.groups().len(), lanes.rounds()), (2, 2));
    let series = lanes.series();
    let drawn: Vec<_> = series.iter().map(|it| (&*it.name, &*it.bars)).collect();
    assert_eq!(
        drawn,
        [
            ("first", &[Some(1.0), Some(1.5)][..]),
            ("second", &[Some(1.0), Some(3.0)])
        ]
    );
}

#[test]
fn a_round_without_a_handoff_has_no_figure() {
    let mut lanes = lanes();
    lanes.add(2, sample(f64::NAN, f64::NAN, f64::NAN));
    assert!(lanes.rows()[2][2].starts_with("22.5 "));
    assert!(lanes.rows()[2][3].starts_with("1.50 "));
}
