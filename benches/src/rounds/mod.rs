//! Rounds: in each, every contender has one block, in another order each time, and is compared with another one's block of that round.
//!
//! What else the machine does changes within seconds, so only blocks that are neighbours say anything about each other.

use std::time::{Duration, Instant};

use crate::statistics::Quartiles;

/// Until when rounds go on.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Rounds {
    pub(crate) most: usize,
    /// No round begins after this long, once there were [`LEAST`].
    pub(crate) within: Duration,
}

/// Fewer have no quartiles worth the name.
const LEAST: usize = 3;

impl Rounds {
    /// Whether another one begins after `done` of them.
    pub(crate) fn another(&self, done: usize, begun: Instant) -> bool {
        done < self.most && (done < LEAST || begun.elapsed() < self.within)
    }
}

/// Who goes when: each has each place equally often. Every other turn of the wheel is backwards, else one would always follow the same one.
pub(crate) fn order(contenders: usize, round: usize) -> Vec<usize> {
    let wheel = contenders.max(1);
    let mut places: Vec<usize> = (0..contenders).collect();
    if (round / wheel) % 2 == 1 {
        places.reverse();
    }
    places.rotate_left(round % wheel);
    places
}

/// Of each contender, its figure over that of `base` in the same round. `figures[contender][round]`.
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
