//! Draws the stories: a panel for each, with a row for each master, for holder, waiter and
//! resource. Time goes to the right.

use std::time::Duration;

use crate::record::{Event, Story, What, Who};
use crate::sheet::{INK, LINE, SOFT, Sheet};

const WIDTH: f64 = 824.0;

/// Where time begins, and where the longest story ends.
const BEGIN: f64 = 72.0;
const END: f64 = 755.0;

/// From row to row, and half the height of a bar.
const ROW: f64 = 32.0;
const HALF: f64 = 11.0;

const ENDS: &str = "#82071e";
const HOLDER: &str = "#116329";
const WAITER: &str = "#0a3069";

/// How a bar is drawn, and its text.
#[derive(Clone, Copy, PartialEq)]
struct Look {
    line: &'static str,
    filling: &'static str,
    text: &'static str,
}

const fn look(line: &'static str, filling: &'static str, text: &'static str) -> Look {
    Look {
        line,
        filling,
        text,
    }
}

const MASTER: Look = look(SOFT, "#f6f8fa", "the master");
const CUT_OFF: Look = look(ENDS, "#ffebe9", "answers the holder still");
const WAITS: Look = look(WAITER, "#ddf4ff", "waits");
const HAS_IT: Look = look(HOLDER, "#dafbe1", "has the lock");
const NO_ANSWER: Look = look("#7d4e00", "#fff8c5", "renewals unanswered");

pub(crate) fn svg(stories: &[Story]) -> String {
    let longest = stories.iter().map(Story::length).max();
    let mut sheet = Sheet::new(BEGIN, END, longest.unwrap_or_default());
    let mut top = 8.0;
    for story in stories {
        top = sheet.panel(story, top);
    }
    sheet.legend(top);
    let title = "Two failovers: masters, holder, waiter and resource; time goes to the right.";
    sheet.finish((WIDTH, top + 8.0), "failover", title)
}

impl Sheet {
    /// Draws a story from `top` on; returns where it ends.
    fn panel(&mut self, story: &Story, top: f64) -> f64 {
        self.put(format_args!(
            "<text y=\"{top}\" dy=\"0.35em\" font-weight=\"bold\" fill=\"{INK}\">{}</text>",
            story.title
        ));
        let row = |number: f64| top + 62.0 + number * ROW;
        let bottom = row(4.0) + 20.0;
        self.axis(story, row(0.0) - HALF - 6.0, bottom);
        if let Some((from, to)) = story.overlap() {
            let (top, end) = (row(1.5), row(4.0) + HALF);
            self.shade(self.x(from), self.x(to), top, end);
        }
        self.masters(story, row(0.0), row(1.0));
        self.actor(story, Who::Holder, row(2.0));
        self.actor(story, Who::Waiter, row(3.0));
        self.resource(story, row(4.0));
        bottom + 48.0
    }

    /// The seconds, and a line at each event of the servers.
    fn axis(&mut self, story: &Story, top: f64, bottom: f64) {
        let mut second = Duration::ZERO;
        while second <= story.length() {
            let x = self.x(second);
            self.line((x, top), (x, bottom), LINE, "");
            let text = format!("{} s", second.as_secs());
            self.text(x, bottom + 9.0, "middle", SOFT, &text);
            second += Duration::from_secs(1);
        }
        for Event { at, what, .. } in story.of(Who::Servers).skip(1) {
            let (line, text) = match what {
                What::Killed => (ENDS, "killed".to_owned()),
                What::CutOff => (ENDS, "cut off".to_owned()),
                What::Master(server) => (
                    SOFT,
                    format!("the sentinels agree on server {}", server + 1),
                ),
                _ => continue,
            };
            let x = self.x(*at);
            self.line((x, top), (x, bottom), line, " stroke-dasharray=\"4,4\"");
            self.text(x, top - 9.0, "middle", line, &text);
        }
    }

    fn masters(&mut self, story: &Story, old: f64, new: f64) {
        let end = story.length();
        let is_end = |what| matches!(what, What::Killed | What::CutOff);
        let left = story.first(Who::Servers, is_end).unwrap_or(end);
        self.name("server 1", old);
        self.bar(MASTER, Duration::ZERO, left, old);
        if story.count(What::CutOff) > 0 {
            self.bar(CUT_OFF, left, story.last_answer().unwrap_or(end), old);
        }
        for Event { at, what, .. } in story.of(Who::Servers).skip(1) {
            if let What::Master(server) = what {
                self.name(&format!("server {}", server + 1), new);
                self.bar(MASTER, *at, end, new);
            }
        }
    }

    /// What the holder or the waiter does, and why it ends.
    fn actor(&mut self, story: &Story, who: Who, y: f64) {
        self.name(&who.to_string(), y);
        let mut under_way: Option<(Look, Duration)> = None;
        for Event { at, what, .. } in story.of(who) {
            let next = match what {
                What::Asked => Some(WAITS),
                What::Granted(_) | What::Renewed => Some(HAS_IT),
                What::NotRenewed => Some(NO_ANSWER),
                what if what.ends_work() => None,
                _ => continue,
            };
            if next == under_way.map(|(look, _)| look) {
                continue;
            }
            if let Some((look, from)) = under_way {
                self.bar(look, from, *at, y);
            }
            under_way = next.map(|look| (look, *at));
        }
        for Event { at, .. } in story.of(who).filter(|it| it.what == What::Renewed) {
            let x = self.x(*at);
            self.line((x, y - HALF), (x, y - HALF + 6.0), HOLDER, "");
        }
        let end = story.of(who).find(|it| it.what.ends_work());
        if let Some(Event { at, what, .. }) = end {
            let text = match what {
                What::Lost(_) => "lost",
                What::Stopped { .. } => "refused: it stops",
                _ if story.of(who).any(|it| it.what == What::ReleaseUnclear) => "release unclear",
                _ => "released",
            };
            self.text(self.x(*at) + 6.0, y, "start", INK, text);
        }
    }

    fn resource(&mut self, story: &Story, y: f64) {
        self.name("resource", y);
        for Event { at, what, .. } in story.of(Who::Resource) {
            self.mark(*what, self.x(*at), y);
        }
    }

    fn legend(&mut self, y: f64) {
        let marks = [
            (What::Accepted(Who::Holder), "accepts a write of the holder"),
            (What::Accepted(Who::Waiter), "of the waiter"),
            (
                What::Refused(Who::Holder),
                "refuses one, whose fence is lower than one that it has seen",
            ),
        ];
        let mut x = 6.0;
        for (mark, text) in marks {
            self.mark(mark, x, y);
            self.text(x + 12.0, y, "start", INK, text);
            x += 34.0 + 5.8 * count(text);
        }
        self.line((x, y - 3.0), (x, y + 3.0), HOLDER, "");
        self.text(x + 8.0, y, "start", INK, "a renewal");
    }

    /// What the resource says to a write.
    fn mark(&mut self, what: What, x: f64, y: f64) {
        match what {
            What::Accepted(Who::Holder) => self.put(format_args!(
                "<circle cx=\"{x:.1}\" cy=\"{y}\" r=\"5\" fill=\"{HOLDER}\"/>"
            )),
            What::Accepted(_) => self.put(format_args!(
                "<circle cx=\"{x:.1}\" cy=\"{y}\" r=\"4\" fill=\"#fff\" stroke=\"{WAITER}\" stroke-width=\"2\"/>"
            )),
            _ => self.put(format_args!(
                "<path d=\"M{:.1},{:.1}l10,10m0,-10l-10,10\" stroke=\"{ENDS}\" stroke-width=\"3\"/>",
                x - 5.0,
                y - 5.0
            )),
        }
    }

    fn name(&mut self, text: &str, y: f64) {
        self.text(0.0, y, "start", INK, text);
    }

    /// A bar with its text, if that fits.
    fn bar(&mut self, look: Look, from: Duration, to: Duration, y: f64) {
        let (x, width) = (self.x(from), self.x(to) - self.x(from));
        let Look {
            line,
            filling,
            text,
        } = look;
        self.put(format_args!(
            "<rect x=\"{x:.1}\" y=\"{:.1}\" width=\"{width:.1}\" height=\"{}\" rx=\"3\" fill=\"{filling}\" stroke=\"{line}\" stroke-width=\"1.5\"/>",
            y - HALF,
            2.0 * HALF
        ));
        if width > 7.0 * count(text) {
            self.text(x + width / 2.0, y, "middle", line, text);
        }
    }

    fn shade(&mut self, from: f64, to: f64, top: f64, bottom: f64) {
        self.put(format_args!(
            "<rect x=\"{from:.1}\" y=\"{top:.1}\" width=\"{:.1}\" height=\"{:.1}\" fill=\"#ffebe9\"/>",
            to - from,
            bottom - top
        ));
    }
}

#[allow(clippy::cast_precision_loss, reason = "a text has some ten characters")]
fn count(text: &str) -> f64 {
    text.len() as f64
}
