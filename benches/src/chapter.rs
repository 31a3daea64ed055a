//! The results of one benchmark: a table, notes, and panels that plot some of its columns.

use crate::statistics::Quartiles;

pub(crate) struct Chapter {
    pub(crate) title: String,
    /// One line each: how much was measured, and what must hold for it.
    pub(crate) notes: Vec<String>,
    pub(crate) head: Vec<&'static str>,
    pub(crate) rows: Vec<Vec<String>>,
    pub(crate) panels: Vec<Panel>,
}

/// A bar chart.
pub(crate) struct Panel {
    pub(crate) title: String,
    /// The label of each group of bars.
    pub(crate) groups: Vec<String>,
    pub(crate) series: Vec<Series>,
}

/// One contender's bars, one for each group, in one colour.
pub(crate) struct Series {
    pub(crate) name: String,
    pub(crate) bars: Vec<Option<f64>>,
}

/// Marks a cell that has no figure.
pub(crate) const NONE: &str = "–";

/// The median, followed by the quartiles.
pub(crate) fn spread(figure: Option<Quartiles>, digits: usize) -> String {
    figure.map_or(NONE.to_owned(), |figure| {
        let Quartiles {
            lower,
            median,
            upper,
        } = figure;
        format!("{median:.digits$} [{lower:.digits$}–{upper:.digits$}]")
    })
}

pub(crate) fn number(figure: Option<f64>, digits: usize) -> String {
    figure.map_or(NONE.to_owned(), |figure| format!("{figure:.digits$}"))
}
