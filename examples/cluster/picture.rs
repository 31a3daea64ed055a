//! Draws the run: above, each lock that is held, at the height of its slot; below, how many locks
//! each master gave. Time goes to the right, and each master has a colour.

use std::time::Duration;

use crate::moves::SLOTS;
use crate::sheet::{INK, LINE, SOFT, Sheet};
use crate::{MASTERS, Record};

const WIDTH: f64 = 824.0;

/// Where time begins and ends.
const BEGIN: f64 = 112.0;
const END: f64 = 814.0;

/// The slots, from the first to the last one.
const TOP: f64 = 30.0;
const HEIGHT: f64 = 270.0;

/// The counts, from the most to none.
const COUNTS: f64 = 340.0;
const COUNTS_HEIGHT: f64 = 100.0;

/// Half the height of a lock.
const HALF: f64 = 1.5;

/// Pauses between two holds up to this are not drawn.
const PAUSE: Duration = Duration::from_millis(60);

/// Locks are counted in steps of this.
const STEP: Duration = Duration::from_millis(250);

const COLOURS: [&str; MASTERS] = ["#0969da", "#1a7f37", "#bc4c00"];
/// Of a slot that is being moved.
const MOVES: &str = "#d0d7de";
const NAMES: [&str; MASTERS] = ["first master", "second master", "third master"];
const PARTS: [&str; 3] = [
    "keys in slots of their own",
    "keys that share a tag",
    "their own again; slots move",
];

pub(crate) fn svg(record: &Record) -> String {
    let [.., end] = record.parts;
    let mut sheet = Sheet::new(BEGIN, END, end);
    let bottom = COUNTS + COUNTS_HEIGHT;
    sheet.axis(end, bottom);
    sheet.parts(record, bottom);
    sheet.slots(record);
    sheet.counts(record);
    let title = "Locks over the slots of a cluster of three masters: held locks by slot, and locks that each master gave; time goes to the right.";
    sheet.finish((WIDTH, bottom + 22.0), "cluster", title)
}

impl Sheet {
    fn axis(&mut self, end: Duration, bottom: f64) {
        for second in (0..=end.as_secs()).step_by(2) {
            let x = self.x(Duration::from_secs(second));
            self.text(x, bottom + 12.0, "middle", SOFT, &format!("{second} s"));
        }
        for (y, height) in [(TOP, HEIGHT), (COUNTS, COUNTS_HEIGHT)] {
            self.line((BEGIN, y), (BEGIN, y + height), LINE, "");
            self.line((BEGIN, y + height), (END, y + height), LINE, "");
        }
    }

    fn parts(&mut self, record: &Record, bottom: f64) {
        for (name, ends) in PARTS.iter().zip(record.parts.windows(2)) {
            let [from, to] = ends else { continue };
            let (from, to) = (self.x(*from), self.x(*to));
            self.text(f64::midpoint(from, to), 8.0, "middle", INK, name);
            self.line((to, 0.0), (to, bottom), LINE, " stroke-dasharray=\"4,4\"");
        }
    }

    fn slots(&mut self, record: &Record) {
        self.text(0.0, TOP - 14.0, "start", SOFT, "held locks, by slot");
        let share = HEIGHT / real(MASTERS);
        for (at, (name, colour)) in NAMES.iter().zip(COLOURS).enumerate() {
            let middle = TOP + share * (real(at) + 0.5);
            self.text(0.0, middle - 9.0, "start", colour, name);
            let [first, next] = [at, at + 1].map(|it| usize::from(SLOTS) * it / MASTERS);
            let slots = format!("{first} to {}", next - 1);
            self.text(0.0, middle + 9.0, "start", SOFT, &slots);
            if at > 0 {
                let y = TOP + share * real(at);
                self.line((0.0, y), (END, y), LINE, "");
            }
        }
        for run in runs(record) {
            let colour = COLOURS.get(run.master).unwrap_or(&INK);
            self.at_slot(run.slot, [run.from, run.to], colour);
        }
        for moved in record.moves.all() {
            self.at_slot(moved.slot, [moved.from, moved.until], MOVES);
        }
    }

    fn at_slot(&mut self, slot: u16, [from, to]: [Duration; 2], colour: &str) {
        let y = TOP + f64::from(slot) / f64::from(SLOTS) * HEIGHT - HALF;
        let (x, to) = (self.x(from), self.x(to));
        let (width, height) = ((to - x).max(0.5), 2.0 * HALF);
        self.put(format_args!(
            "<rect x=\"{x:.1}\" y=\"{y:.1}\" width=\"{width:.1}\" height=\"{height}\" fill=\"{colour}\"/>"
        ));
    }

    /// A line for each master.
    fn counts(&mut self, record: &Record) {
        self.text(0.0, COUNTS - 14.0, "start", SOFT, "locks taken a second");
        let [.., end] = record.parts;
        let steps = end.as_millis() / STEP.as_millis();
        let steps = u32::try_from(steps).unwrap_or(0);
        let taken = |step| record.taken_between(STEP * step, STEP * (step + 1));
        let taken: Vec<[usize; MASTERS]> = (0..steps).map(taken).collect();
        let rate = |number: usize| real(number) / STEP.as_secs_f64();
        let most = taken.iter().flatten().max().map_or(1.0, |it| rate(*it));
        let most = (most / 500.0).ceil() * 500.0;
        for (part, at) in [(1.0, COUNTS), (0.0, COUNTS + COUNTS_HEIGHT)] {
            let text = format!("{:.0}", part * most);
            self.text(BEGIN - 8.0, at, "end", SOFT, &text);
        }
        for (master, colour) in COLOURS.iter().enumerate() {
            let numbers = taken.iter().filter_map(|it| it.get(master));
            let points: Vec<String> = numbers
                .zip(0_u32..)
                .map(|(number, step)| {
                    let x = self.x(STEP * step + STEP / 2);
                    let y = COUNTS + COUNTS_HEIGHT * (1.0 - rate(*number) / most);
                    format!("{x:.1},{y:.1}")
                })
                .collect();
            self.put(format_args!(
                "<polyline points=\"{}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"2\"/>",
                points.join(" ")
            ));
        }
    }
}

/// Holds of a slot at a master, one right after the other.
struct Run {
    slot: u16,
    master: usize,
    from: Duration,
    to: Duration,
}

fn runs(record: &Record) -> Vec<Run> {
    let mut holds: Vec<_> = record.holds.iter().collect();
    holds.sort_by_key(|it| (it.slot, it.from));
    let mut runs: Vec<Run> = Vec::new();
    for hold in holds {
        let master = record.moves.owner(hold.slot, hold.from);
        let next = |it: &&mut Run| {
            (it.slot, it.master) == (hold.slot, master) && hold.from <= it.to + PAUSE
        };
        if let Some(run) = runs.last_mut().filter(next) {
            run.to = run.to.max(hold.to);
        } else {
            let (slot, from, to) = (hold.slot, hold.from, hold.to);
            runs.push(Run {
                slot,
                master,
                from,
                to,
            });
        }
    }
    runs
}

#[allow(clippy::cast_precision_loss, reason = "counts of a few thousand")]
fn real(number: usize) -> f64 {
    number as f64
}
