//! Draws the stories: a panel for each, with a row for each master, for holder, waiter and
//! resource. Time goes to the right.

use std::time::Duration;

use crate::record::{Event, Story, What, Who};
use crate::sheet::{INK, LEGEND_ROW, LINE, Look, SOFT, Sheet};

const WIDTH: f64 = 824.0;

/// Where time begins, and where the longest story ends.
const BEGIN: f64 = 72.0;
const END: f64 = 755.0;

/// From row to row, and half the height of a bar.
const ROW: f64 = 32.0;
const HALF: f64 = 11.0;

/// The height of a renewal's mark: between the bar's edge and its text.
const RENEWAL: f64 = 4.0;

/// Half the distance between the holder's writes and those of the waiter: marks of one moment stand
/// one above the other.
const WRITES: f64 = 6.5;

const ENDS: &str = "#82071e";
const HOLDER: &str = "#116329";
const WAITER: &str = "#0a3069";

const MASTER: Look = (SOFT, "#f6f8fa");
const CUT_OFF: Look = (ENDS, "#ffcecb");
const WAITS: Look = (WAITER, "#ddf4ff");
const HAS_IT: Look = (HOLDER, "#dafbe1");
const NO_ANSWER: Look = ("#7d4e00", "#fff8c5");

/// Where two have the lock.
const BOTH: Look = ("#ffebe9", "#ffebe9");

/// The columns of the legend.
const LEGEND: [f64; 3] = [0.0, 250.0, 488.0];

pub(crate) fn svg(stories: &[Story]) -> String {
    let longest = stories.iter().map(Story::length).max();
    let mut sheet = Sheet::new(BEGIN, END, longest.unwrap_or_default());
    let mut top = 8.0;
    for story in stories {
        top = sheet.panel(story, top);
    }
    sheet.legend(top);
    top += 3.0 * LEGEND_ROW;
    let title = "Two failovers: masters, holder, waiter and resource; time goes to the right.";
    sheet.finish((WIDTH, top + 6.0), "failover", title)
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
            let x = self.x(from);
            let (middle, half) = (row(2.75), 1.25 * ROW + HALF);
            self.rect((x, self.x(to) - x), middle, half, BOTH);
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
        self.bar(MASTER, &["master"], Duration::ZERO, left, old);
        if story.count(What::CutOff) > 0 {
            let last = story.last_answer().unwrap_or(end);
            self.bar(CUT_OFF, &["still answers the holder"], left, last, old);
        }
        for Event { at, what, .. } in story.of(Who::Servers).skip(1) {
            if let What::Master(server) = what {
                self.name(&format!("server {}", server + 1), new);
                self.bar(MASTER, &["master"], *at, end, new);
            }
        }
    }

    /// What the holder or the waiter does, and why it ends.
    fn actor(&mut self, story: &Story, who: Who, y: f64) {
        self.name(&who.to_string(), y);
        let fence = format!("fence {}", story.rank(who));
        let holds = format!("holds the lock, {fence}");
        let texts: [(Look, &[&str]); 3] = [
            (WAITS, &["waits"]),
            (HAS_IT, &[&holds, &fence]),
            (NO_ANSWER, &["renewals unanswered"]),
        ];
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
                let texts = texts.iter().find(|it| it.0 == look);
                self.bar(look, texts.map_or(&[], |it| it.1), from, *at, y);
            }
            under_way = next.map(|look| (look, *at));
        }
        for Event { at, .. } in story.of(who).filter(|it| it.what == What::Renewed) {
            let x = self.x(*at);
            self.line((x, y - HALF), (x, y - HALF + RENEWAL), HOLDER, "");
        }
        let end = story.of(who).find(|it| it.what.ends_work());
        if let Some(Event { at, what, .. }) = end {
            let text = match what {
                What::Lost(_) => "lost",
                What::Stopped { .. } => "refused, so it stops",
                _ if story.of(who).any(|it| it.what == What::ReleaseUnclear) => "release unclear",
                _ => "released",
            };
            self.text(self.x(*at) + 6.0, y, "start", INK, text);
        }
    }

    fn resource(&mut self, story: &Story, y: f64) {
        self.name("resource", y);
        for Event { at, what, .. } in story.of(Who::Resource) {
            let is_waiters = matches!(
                what,
                What::Accepted(Who::Waiter) | What::Refused(Who::Waiter)
            );
            let lane = if is_waiters { WRITES } else { -WRITES };
            self.mark(*what, self.x(*at), y + lane);
        }
    }

    fn legend(&mut self, top: f64) {
        let [left, middle, right] = LEGEND.map(|x| (x, top));
        self.explain_bar(left, 0, MASTER, "master");
        self.explain_bar(left, 1, CUT_OFF, "cut off, still answers the holder");
        self.explain_bar(left, 2, BOTH, "both count on the lock");
        self.explain_bar(middle, 0, WAITS, "waits for the lock");
        self.explain_bar(middle, 1, HAS_IT, "holds the lock");
        self.explain_bar(middle, 2, NO_ANSWER, "holds it, renewals unanswered");
        let (x, y) = self.explain(middle, 3, "the lease is renewed");
        self.line((x, y - RENEWAL / 2.0), (x, y + RENEWAL / 2.0), HOLDER, "");
        let accepted = What::Accepted;
        let marks = [
            (accepted(Who::Holder), "a write of the holder is accepted"),
            (accepted(Who::Waiter), "a write of the waiter is accepted"),
            (
                What::Refused(Who::Holder),
                "a write of the holder is refused: the resource",
            ),
        ];
        for ((mark, text), row) in marks.into_iter().zip(0..) {
            let (x, y) = self.explain(right, row, text);
            self.mark(mark, x, y);
        }
        self.explain(right, 3, "has already seen a higher fence");
        let fences = "fences, shortened: 1 &lt; 2";
        self.text(0.0, top + 3.0 * LEGEND_ROW, "start", INK, fences);
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

    /// A bar with the first of these texts that fits.
    fn bar(&mut self, look: Look, texts: &[&str], from: Duration, to: Duration, y: f64) {
        let (x, width) = (self.x(from), self.x(to) - self.x(from));
        self.rect((x, width), y, HALF, look);
        if let Some(text) = texts.iter().find(|it| width > 7.0 * count(it)) {
            self.text(x + width / 2.0, y, "middle", look.0, text);
        }
    }
}

#[allow(clippy::cast_precision_loss, reason = "a text has some ten characters")]
fn count(text: &str) -> f64 {
    text.len() as f64
}
