//! What a program has to tell: a table, what to know about it, and pictures of some of its columns.

use crate::statistics::Quartiles;

pub(crate) struct Chapter {
    pub(crate) title: String,
    /// A line each: how much was measured, and what must be true of it.
    pub(crate) notes: Vec<String>,
    pub(crate) head: Vec<&'static str>,
    pub(crate) rows: Vec<Vec<String>>,
    pub(crate) panels: Vec<Panel>,
}

/// Bars side by side.
pub(crate) struct Panel {
    pub(crate) title: String,
    /// What stands below each group of bars.
    pub(crate) groups: Vec<String>,
    pub(crate) series: Vec<Series>,
}

/// Bars of one colour: a contender's, one in each group.
pub(crate) struct Series {
    pub(crate) name: String,
    pub(crate) bars: Vec<Option<f64>>,
}

/// Where there is no figure.
pub(crate) const NONE: &str = "–";

/// The median, and the quartiles behind it.
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
