//! Draws who led when: a row for each process, time to the right. As text, and as SVG.

use std::fmt::Write as _;
use std::time::Duration;

use crate::sheet::{INK, LINE, Look, SOFT, Sheet};
use crate::story::Event;
use crate::troupe::Led;

/// When the next term after this one began.
fn next_after(terms: &[Led], led: &Led) -> u64 {
    let later = terms
        .iter()
        .map(|it| it.from)
        .filter(|from| *from > led.from);
    later.min().unwrap_or(led.from)
}

/// Each term in a line.
pub(crate) fn text(begun: u64, terms: &[Led]) -> String {
    let mut text = String::new();
    let since = |at: u64| Duration::from_nanos(at.saturating_sub(begun)).as_secs_f64();
    let mut before = None;
    for Led {
        name,
        from,
        to,
        outcome,
    } in terms
    {
        let gap = before.map(|before: u64| since(*from) - since(before));
        let gap = gap.map_or(String::new(), |gap| match gap {
            0.0.. => format!("{:>7.0} ms after", gap * 1e3),
            _ => "  while the former stood still".to_owned(),
        });
        let _ = writeln!(
            text,
            "{name} led from {:>5.2} s to {:>5.2} s, {outcome:<8}{gap}",
            since(*from),
            since(to.unwrap_or(*from)),
        );
        before = *to;
    }
    text
}

const WIDTH: f64 = 860.0;
const BEGIN: f64 = 64.0;
const END: f64 = 850.0;
const TOP: f64 = 20.0;
const ROW: f64 = 44.0;
const HALF: f64 = 11.0;

const LEADS: Look = ("#116329", "#aceebb");
const OVER: Look = ("#82071e", "#ffcecb");

pub(crate) fn svg(begun: u64, terms: &[Led], events: &[Event]) -> String {
    let since = |at: u64| Duration::from_nanos(at.saturating_sub(begun));
    let ends = terms.iter().filter_map(|led| led.to);
    let length = ends.map(since).max().unwrap_or_default() + Duration::from_secs(1);
    let mut sheet = Sheet::new(BEGIN, END, length);
    let mut names: Vec<&str> = terms.iter().map(|led| led.name.as_str()).collect();
    names.sort_unstable();
    names.dedup();
    let rows: Vec<(&str, f64)> = names
        .into_iter()
        .zip(0_u32..)
        .map(|(name, at)| (name, TOP + f64::from(at) * ROW))
        .collect();
    let bottom = rows.last().map_or(TOP, |(_, y)| y + ROW / 2.0 + 4.0);
    for second in (0..=length.as_secs()).step_by(2) {
        let x = sheet.x(Duration::from_secs(second));
        sheet.line((x, 0.0), (x, bottom), LINE, "");
        sheet.text(x, bottom + 12.0, "middle", SOFT, &format!("{second} s"));
    }
    for (name, y) in &rows {
        sheet.text(0.0, *y, "start", INK, name);
        for led in terms.iter().filter(|led| led.name == *name) {
            let end = led.to.unwrap_or(led.from);
            let over = if led.outcome == "lost" {
                next_after(terms, led)
            } else {
                end
            };
            let [from, over, to] = [led.from, over, end].map(|at| sheet.x(since(at)));
            sheet.rect((from, over - from), *y, HALF, LEADS);
            if to > over {
                sheet.rect((over, to - over), *y, HALF, OVER);
            }
        }
        for event in events.iter().filter(|event| event.name == *name) {
            let x = sheet.x(since(event.at));
            sheet.line(
                (x, y - HALF - 4.0),
                (x, y + HALF + 4.0),
                INK,
                " stroke-width=\"1.5\"",
            );
            sheet.text(x + 3.0, y + HALF + 9.0, "start", SOFT, event.what);
        }
    }
    let legend = (0.0, bottom + 40.0);
    sheet.explain_bar(legend, 0, LEADS, "leads");
    sheet.explain_bar(
        (130.0, bottom + 40.0),
        0,
        OVER,
        "its lease is over: another one leads, and it does nothing more",
    );
    let title = "Three processes of which one leads; the first resigns, the second is killed, the third is stopped for longer than its lease; time goes to the right.";
    sheet.finish((WIDTH, bottom + 56.0), "leader", title)
}
