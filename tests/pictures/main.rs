//! The pictures of `docs/img`: each is drawn again from the text beside it, and must come out the
//! same; or an example, or a test of the command `dlock`, drew it from a run.
//!
//! The texts are [Pikchr](https://pikchr.org); the first line is the picture's title. After a
//! change of one, run `DRAW=1 cargo test -p dlock-tests --test pictures`, then look at it.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "test code, also where clippy does not see it"
)]

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::{env, fs};

use pikchr::{Pikchr, PikchrFlags};

/// Between a drawing and the edge of its sheet, in px.
const MARGIN: f64 = 16.0;

fn docs() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs")
}

/// The files of `docs/img` with this ending, without the ending.
fn named(ending: &str) -> BTreeSet<String> {
    let files = fs::read_dir(docs().join("img")).unwrap();
    let names = files.map(|file| file.unwrap().file_name().into_string().unwrap());
    let names = names.filter_map(|name| Some(name.strip_suffix(ending)?.to_owned()));
    names.collect()
}

fn read(name: &str) -> String {
    let path = docs().join(name);
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The drawing on a white sheet, so that it looks the same on a page of any colour, in the reader's
/// own font.
fn draw(name: &str) -> String {
    let text = read(&format!("img/{name}.pikchr"));
    let title = text.lines().next().unwrap().trim_start_matches("# ");
    assert!(!title.contains(['<', '&']), "{name}: {title}");
    let drawing = Pikchr::render(&text, None, PikchrFlags::default());
    let drawing = drawing.unwrap_or_else(|error| panic!("{name}: {error}"));
    let (head, body) = drawing.split_once('>').unwrap();
    let (_, size) = head.split_once("viewBox=\"0 0 ").unwrap();
    let (width, height) = size.trim_end_matches('"').split_once(' ').unwrap();
    let [width, height] = [width, height].map(|it| it.parse::<f64>().unwrap() + 2.0 * MARGIN);
    let (sheet_width, sheet_height) = (width - 1.0, height - 1.0);
    // Some viewers don't know `dominant-baseline`.
    let body = body.replace("dominant-baseline=\"central\"", "dy=\"0.35em\"");
    let edge = 0.5 - MARGIN;
    format!(
        r##"<svg xmlns="http://www.w3.org/2000/svg" viewBox="-{MARGIN} -{MARGIN} {width:.3} {height:.3}" font-family="-apple-system, Segoe UI, Helvetica, Arial, sans-serif" font-size="15">
<!-- Drawn from {name}.pikchr by tests/pictures: change that. -->
<title>{title}</title>
<rect x="{edge}" y="{edge}" width="{sheet_width:.3}" height="{sheet_height:.3}" rx="8" fill="#fff" stroke="#d0d7de"/>
{body}"##
    )
}

#[test]
fn each_picture_is_drawn_from_the_text_beside_it() {
    let texts = named(".pikchr");
    for name in ["lease", "life", "hand-over"] {
        assert!(texts.contains(name), "{name}");
    }
    for name in &texts {
        let drawn = draw(name);
        let path = docs().join(format!("img/{name}.svg"));
        if env::var_os("DRAW").is_some() {
            fs::write(path, drawn).unwrap();
        } else {
            let is_same = fs::read_to_string(path).is_ok_and(|kept| kept == drawn);
            assert!(is_same, "{name}.svg is not what {name}.pikchr says: DRAW=1");
        }
    }
}

#[test]
fn each_picture_has_a_source_and_a_page() {
    let drawn_from_a_run = |name: &String| {
        let picture = read(&format!("img/{name}.svg"));
        let by = |who: String| picture.contains(&format!("<!-- Drawn by {who}, from a run. -->"));
        by(format!("examples/{name}"))
            || name.starts_with("dlock-") && by("dlock-runtime/cli/tests".to_owned())
    };
    let others: BTreeSet<String> = named(".svg")
        .difference(&named(".pikchr"))
        .cloned()
        .collect();
    assert!(others.iter().all(drawn_from_a_run), "{others:?}");
    let summary = read("SUMMARY.md");
    let links = summary.split("](").skip(1);
    let listed = links.filter_map(|it| it.split(')').next());
    let pages: Vec<String> = listed.chain(["../README.md"]).map(read).collect();
    for name in named(".svg") {
        let link = format!("img/{name}.svg)");
        assert!(pages.iter().any(|page| page.contains(&link)), "{name}");
    }
}
