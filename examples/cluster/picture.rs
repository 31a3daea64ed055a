//! Draws the run: above, each lock that is held, at the height of its slot; below, how many locks
//! each master granted, and a legend. Time goes to the right, and each master has a colour.

use std::time::Duration;

use crate::load::Hold;
use crate::moves::SLOTS;
use crate::sheet::{INK, LEGEND_ROW, LINE, SOFT, Sheet};
use crate::{MASTERS, Record};

const WIDTH: f64 = 824.0;

/// Where time begins and ends.
const BEGIN: f64 = 112.0;
const END: f64 = 814.0;

/// The slots, from the first to the last one.
const TOP: f64 = 46.0;
const HEIGHT: f64 = 270.0;

/// The counts, from the most to none.
const COUNTS: f64 = 366.0;
const COUNTS_HEIGHT: f64 = 100.0;

/// Half the height of a lock.
const HALF: f64 = 1.0;

/// Pauses between two holds up to this are not drawn.
const PAUSE: Duration = Duration::from_millis(60);

/// Locks are counted in steps of this.
const STEP: Duration = Duration::from_millis(250);

const COLOURS: [&str; MASTERS] = ["#0969da", "#1a7f37", "#bc4c00"];
/// Of a slot that is being moved.
const MOVES: &str = "#afb8c1";
const NAMES: [&str; MASTERS] = ["first master", "second master", "third master"];
const PARTS: [&str; 3] = [
    "each key in its own slot",
    "all keys share a hash tag",
    "own slots again; those of the first master move",
];

/// The columns of the legend.
const LEGEND: [f64; 4] = [0.0, 160.0, 380.0, 610.0];

pub(crate) fn svg(record: &Record) -> String {
    let [.., end] = record.parts;
    let mut sheet = Sheet::new(BEGIN, END, end);
    let bottom = COUNTS + COUNTS_HEIGHT;
    sheet.axis(end, bottom);
    sheet.parts(record, bottom);
    sheet.slots(record);
    sheet.counts(record);
    let legend = bottom + 42.0;
    sheet.legend(legend);
    let title = "Locks over the slots of a cluster of three masters: held locks by slot, and locks that each master granted; time goes to the right.";
    let height = legend + 2.0 * LEGEND_ROW + 6.0;
    sheet.finish((WIDTH, height), "cluster", title)
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
        self.text(0.0, TOP - 14.0, "start", SOFT, "held locks by slot");
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
            let colour = COLOURS.get(run.master).copied().unwrap_or(INK);
            self.at_slot(run.slot, [run.from, run.to], colour);
        }
        self.one_slot(record);
        for moved in record.moves.all() {
            self.at_slot(moved.slot, [moved.from, moved.until], MOVES);
        }
    }

    /// Says at its line that the second part has one slot.
    fn one_slot(&mut self, record: &Record) {
        let [_, from, to, _] = record.parts;
        let in_part = |hold: &&Hold| (from..to).contains(&hold.from);
        if let Some(hold) = record.holds.iter().find(in_part) {
            let x = f64::midpoint(self.x(from), self.x(to));
            let y = height(hold.slot) - 12.0;
            self.text(x, y, "middle", SOFT, "all of them in one slot");
        }
    }

    fn at_slot(&mut self, slot: u16, [from, to]: [Duration; 2], colour: &'static str) {
        let (x, to) = (self.x(from), self.x(to));
        self.rect((x, to - x), height(slot), HALF, (colour, colour));
    }

    fn legend(&mut self, top: f64) {
        let [moves, ..] = LEGEND;
        let masters = COLOURS.iter().zip(NAMES).zip(LEGEND.into_iter().skip(1));
        for ((colour, name), x) in masters {
            let text = format!("granted by the {name}");
            self.explain_bar((x, top), 0, (colour, colour), &text);
        }
        self.explain_bar((moves, top), 0, (MOVES, MOVES), "slot being moved");
        let above = "Above: a line for each slot, coloured by the master that granted its locks. \
             Pauses up to 60 ms are not drawn.";
        let below =
            "Below: the locks that each master granted per second. Dashed lines: the load changes.";
        for (text, row) in [(above, 1.0), (below, 2.0)] {
            self.text(0.0, top + row * LEGEND_ROW, "start", INK, text);
        }
    }

    /// A line for each master.
    fn counts(&mut self, record: &Record) {
        self.text(
            0.0,
            COUNTS - 18.0,
            "start",
            SOFT,
            "locks granted per second",
        );
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

/// The height of a slot in the picture.
fn height(slot: u16) -> f64 {
    TOP + f64::from(slot) / f64::from(SLOTS) * HEIGHT
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
