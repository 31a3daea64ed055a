//! A terminal's screen as a picture: text with the styles that tmux captures, to SVG.
//!
//! It brings its own dark background, like a terminal's window, so that it looks the same on a page of
//! any colour, and its own size, so that two pictures have letters of one size. Each piece of a line stands at its own column and has its width prescribed, so that
//! columns stay columns in every font.

use std::fmt::Write as _;

const FONT: f64 = 13.0;
/// Of a character and of a line, in px.
const WIDTH: f64 = 7.8;
const LINE: f64 = 19.0;
/// Between the text and the window's edge, and the height of its bar.
const MARGIN: f64 = 18.0;
const BAR: f64 = 30.0;

const PAPER: &str = "#161b22";
const EDGE: &str = "#444c56";
const INK: &str = "#c9d1d9";
const BRIGHT: &str = "#ffffff";
const SOFT: &str = "#8b949e";

/// How text is written.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Style {
    is_bold: bool,
    /// Of the eight colours of a terminal; `None` for its own.
    colour: Option<u32>,
}

const PLAIN: Style = Style {
    is_bold: false,
    colour: None,
};

/// Text of one style, without two spaces in a row.
struct Piece {
    column: usize,
    text: String,
    style: Style,
}

/// The screen with a title for those who do not see it.
pub(crate) fn svg(screen: &str, title: &str) -> String {
    let lines: Vec<Vec<Piece>> = screen.trim_end().lines().map(pieces).collect();
    let ends = lines.iter().flatten();
    let columns = ends.map(|it| it.column + it.text.chars().count()).max();
    let width = px(columns.unwrap_or_default()) * WIDTH + 2.0 * MARGIN;
    let height = px(lines.len()) * LINE + BAR + 2.0 * MARGIN;
    let mut body = String::new();
    for (at, colour) in [(18, "#ff5f57"), (36, "#febc2e"), (54, "#28c840")] {
        let _ = writeln!(
            body,
            "<circle cx=\"{at}\" cy=\"17\" r=\"5.5\" fill=\"{colour}\"/>"
        );
    }
    for (row, line) in lines.iter().enumerate() {
        let y = BAR + MARGIN + (px(row) + 0.7) * LINE;
        for piece in line {
            body.push_str(&element(piece, y));
        }
    }
    let (sheet_width, sheet_height) = (width - 1.0, height - 1.0);
    let title = escaped(title);
    format!(
        r#"<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0}" height="{height:.0}" viewBox="0 0 {width:.1} {height:.1}" font-family="ui-monospace, SFMono-Regular, Menlo, Consolas, 'DejaVu Sans Mono', monospace" font-size="{FONT}">
<!-- Drawn by dlock-runtime/cli/tests, from a run. -->
<title>{title}</title>
<rect x="0.5" y="0.5" width="{sheet_width:.1}" height="{sheet_height:.1}" rx="8" fill="{PAPER}" stroke="{EDGE}"/>
<path d="M1,{BAR}H{sheet_width:.1}" stroke="{EDGE}"/>
{body}</svg>
"#
    )
}

fn element(piece: &Piece, y: f64) -> String {
    let x = MARGIN + px(piece.column) * WIDTH;
    let length = px(piece.text.chars().count()) * WIDTH;
    let (colour, weight) = match piece.style {
        Style {
            colour: Some(colour),
            ..
        } => (ansi(colour), ""),
        Style { is_bold: true, .. } => (BRIGHT, " font-weight=\"bold\""),
        _ => (INK, ""),
    };
    let text = escaped(&piece.text);
    format!(
        "<text x=\"{x:.1}\" y=\"{y:.1}\" textLength=\"{length:.1}\" lengthAdjust=\"spacingAndGlyphs\" fill=\"{colour}\"{weight}>{text}</text>\n"
    )
}

/// A line with escape sequences, cut where the style changes and at two spaces or more.
fn pieces(line: &str) -> Vec<Piece> {
    let (mut pieces, mut style, mut column) = (Vec::<Piece>::new(), PLAIN, 0);
    for (at, part) in line.split('\x1b').enumerate() {
        let text = if at == 0 {
            part
        } else {
            let (codes, text) = part.strip_prefix('[').unwrap().split_once('m').unwrap();
            codes
                .split(';')
                .for_each(|code| style = styled(style, code));
            text
        };
        let mut spaces = usize::from(at > 0) * 2; // a new style is a new piece
        for c in text.chars() {
            if c == ' ' {
                spaces += 1;
            } else {
                match pieces.last_mut().filter(|_| spaces < 2) {
                    Some(piece) => piece.text.extend([" ", ""][1 - spaces].chars().chain([c])),
                    None => pieces.push(Piece {
                        column,
                        text: c.to_string(),
                        style,
                    }),
                }
                spaces = 0;
            }
            column += 1;
        }
    }
    pieces
}

/// The style after an SGR code; others than these are not used, or must be learned here first.
fn styled(style: Style, code: &str) -> Style {
    match code.parse::<u32>().unwrap_or_default() {
        0 => PLAIN,
        1 => Style {
            is_bold: true,
            ..style
        },
        colour @ 30..=37 => Style {
            colour: Some(colour - 30),
            ..style
        },
        39 => Style {
            colour: None,
            ..style
        },
        49 => style, // the background
        other => panic!("the style {other} is not known"),
    }
}

fn ansi(colour: u32) -> &'static str {
    match colour {
        1 => "#ff7b72",
        2 => "#7ee787",
        3 => "#e3b341",
        4 | 6 => "#79c0ff",
        5 => "#d2a8ff",
        7 => INK,
        _ => SOFT,
    }
}

fn escaped(text: &str) -> String {
    let text = text.replace('&', "&amp;").replace('<', "&lt;");
    text.replace('>', "&gt;")
}

fn px(count: usize) -> f64 {
    f64::from(u32::try_from(count).unwrap())
}

#[test]
fn styles_and_columns_are_kept() {
    let line = "\x1b[1mKEY  AS\x1b[0m a <b>  c\x1b[31mred";
    let pieces = pieces(line);
    let told: Vec<_> = pieces
        .iter()
        .map(|it| {
            (
                it.column,
                it.text.as_str(),
                it.style.is_bold,
                it.style.colour,
            )
        })
        .collect();
    assert_eq!(
        told,
        [
            (0, "KEY", true, None),
            (5, "AS", true, None),
            (8, "a <b>", false, None),
            (15, "c", false, None),
            (16, "red", false, Some(1)),
        ]
    );
    let drawn = svg("$ ls\n\n  x", "a & b");
    assert!(drawn.contains("<title>a &amp; b</title>"), "{drawn}");
    assert!(drawn.contains("x=\"33.6\""), "column 2: {drawn}");
}
