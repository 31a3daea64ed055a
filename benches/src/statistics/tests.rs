//! Quantiles and the index of fairness.

use super::{Quartiles, jain, quantile};

fn close(left: f64, right: f64) {
    assert!((left - right).abs() < 1e-9, "{left} is not {right}");
}

/// As `numpy.quantile([1, 2, 3, 4], [.25, .5, .75])`.
#[test]
fn quartiles_lie_between_figures() {
    let of = Quartiles::of(vec![4.0, 1.0, 3.0, 2.0]).unwrap();
    close(of.lower, 1.75);
    close(of.median, 2.5);
    close(of.upper, 3.25);
}

#[test]
fn one_figure_is_its_own_quartiles() {
    let of = Quartiles::of(vec![7.0]).unwrap();
    close(of.lower, 7.0);
    close(of.median, 7.0);
    close(of.upper, 7.0);
}

#[test]
fn nothing_has_no_middle() {
    assert_eq!(Quartiles::of(Vec::new()), None);
    assert_eq!(quantile(&[], 0.5), None);
}

#[test]
fn an_outlier_does_not_move_the_middle() {
    let of = Quartiles::of(vec![1.0, 1.0, 1.0, 1.0, 1000.0]).unwrap();
    close(of.median, 1.0);
    close(of.upper, 1.0);
}

#[test]
fn the_ends_are_quantiles_too() {
    close(quantile(&[1.0, 5.0, 9.0], 0.0).unwrap(), 1.0);
    close(quantile(&[1.0, 5.0, 9.0], 1.0).unwrap(), 9.0);
    close(quantile(&[0.0, 100.0], 0.99).unwrap(), 99.0);
}

#[test]
fn jain_of_equals_is_one_and_of_one_winner_one_of_n() {
    close(jain(&[5.0; 8]).unwrap(), 1.0);
    close(jain(&[5.0, 0.0, 0.0, 0.0]).unwrap(), 0.25);
    close(jain(&[1.0, 3.0]).unwrap(), 0.8);
    assert_eq!(jain(&[0.0, 0.0]), None);
    assert_eq!(jain(&[]), None);
}
