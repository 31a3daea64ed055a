//! Rounds: in each, every contender has one block, in another order each time, and its figure is
//! compared with another contender's in the same round.
//!
//! The machine's other work changes within seconds, so only blocks close to each other can be
//! compared.

use std::time::{Duration, Instant};

use crate::statistics::Quartiles;

/// When to stop.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Rounds {
    pub(crate) most: usize,
    /// No round begins after this time, once there are [`LEAST`].
    pub(crate) within: Duration,
}

/// Fewer have no meaningful quartiles.
const LEAST: usize = 3;

impl Rounds {
    /// Whether another round begins after `done` of them.
    pub(crate) fn another(&self, done: usize, begun: Instant) -> bool {
        done < self.most && (done < LEAST || begun.elapsed() < self.within)
    }
}

/// The order of a round: each contender has each position equally often. Every other cycle of
/// rounds is reversed; otherwise one contender would always follow the same one.
pub(crate) fn order(contenders: usize, round: usize) -> Vec<usize> {
    let wheel = contenders.max(1);
    let mut places: Vec<usize> = (0..contenders).collect();
    if (round / wheel) % 2 == 1 {
        places.reverse();
    }
    places.rotate_left(round % wheel);
    places
}

/// Each contender's figure divided by that of `base` in the same round;
/// `figures[contender][round]`.
pub(crate) fn ratios(figures: &[Vec<f64>], base: usize) -> Vec<Option<Quartiles>> {
    let Some(base) = figures.get(base) else {
        return vec![None; figures.len()];
    };
    let within = |own: &Vec<f64>| {
        let pairs = own.iter().zip(base);
        let ratios = pairs.filter(|(own, base)| own.is_finite() && **base > 0.0);
        Quartiles::of(ratios.map(|(own, base)| own / base).collect())
    };
    figures.iter().map(within).collect()
}

#[cfg(test)]
mod tests;
