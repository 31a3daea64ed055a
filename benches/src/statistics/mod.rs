//! Statistics of figures. No clock, no server.

/// The median, and the medians of both halves.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Quartiles {
    pub(crate) lower: f64,
    pub(crate) median: f64,
    pub(crate) upper: f64,
}

impl Quartiles {
    /// `None` for no figures.
    pub(crate) fn of(mut figures: Vec<f64>) -> Option<Self> {
        figures.sort_by(f64::total_cmp);
        Some(Self {
            lower: quantile(&figures, 0.25)?,
            median: quantile(&figures, 0.5)?,
            upper: quantile(&figures, 0.75)?,
        })
    }
}

/// A quantile of ascending figures, interpolated as in R's type 7 and numpy's default. `None` for
/// no figures.
#[allow(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a place among the figures: neither negative nor beyond them"
)]
pub(crate) fn quantile(sorted: &[f64], part: f64) -> Option<f64> {
    let last = sorted.len().checked_sub(1)?;
    let place = part * real(last);
    let below = sorted.get(place.floor() as usize)?;
    let above = sorted.get(place.ceil() as usize)?;
    Some(below + (above - below) * place.fract())
}

/// Jain's index of fairness: 1 if all have the same, 1/n if one has everything. `None` if there is
/// nothing to share.
///
/// Jain, Chiu, Hawe: A Quantitative Measure of Fairness, DEC-TR-301, 1984.
pub(crate) fn jain(shares: &[f64]) -> Option<f64> {
    let sum: f64 = shares.iter().sum();
    let squares: f64 = shares.iter().map(|share| share * share).sum();
    (squares > 0.0).then(|| sum * sum / (real(shares.len()) * squares))
}

/// A count as a divisor.
#[allow(
    clippy::cast_precision_loss,
    reason = "exact to 2^53, and told with three digits"
)]
pub(crate) fn real(count: usize) -> f64 {
    count as f64
}

#[cfg(test)]
mod tests;
