//! A page of Markdown: its fenced blocks, and the prose between them.

use std::fs;
use std::path::{Path, PathBuf};

/// A fenced block.
pub(crate) struct Block {
    /// The text behind the backticks: `rust`, `sql`, or nothing.
    pub(crate) info: String,
    pub(crate) text: String,
    pub(crate) line: usize,
}

/// A page, split into prose and blocks.
pub(crate) struct Page {
    /// From the root of the repository, with `/`.
    pub(crate) path: String,
    /// Its lines outside of blocks, with their numbers.
    pub(crate) prose: Vec<(usize, String)>,
    pub(crate) blocks: Vec<Block>,
}

impl Page {
    pub(crate) fn parse(path: &str, text: &str) -> Self {
        let (mut prose, mut blocks) = (Vec::new(), Vec::new());
        let mut open: Option<Block> = None;
        for (at, line) in text.lines().enumerate() {
            let fence = line.trim_start().strip_prefix("```");
            match (&mut open, fence) {
                (None, None) => prose.push((at + 1, line.to_owned())),
                (None, Some(info)) => {
                    open = Some(Block {
                        info: info.trim().to_owned(),
                        text: String::new(),
                        line: at + 1,
                    });
                }
                (Some(block), None) => block.text.extend([line, "\n"]),
                (Some(_), Some(_)) => blocks.extend(open.take()),
            }
        }
        assert!(open.is_none(), "{path}: a block is never closed");
        Self {
            path: path.to_owned(),
            prose,
            blocks,
        }
    }

    /// The anchors of its headings, as GitHub and crates.io make them.
    pub(crate) fn anchors(&self) -> Vec<String> {
        let mut slugs: Vec<String> = Vec::new();
        let mut anchors = Vec::new();
        for (_, line) in &self.prose {
            let title = line.trim_start_matches('#');
            if title.len() == line.len() || !title.starts_with(' ') {
                continue;
            }
            let kept = |c: &char| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_');
            let slug: String = title.trim().to_lowercase().chars().filter(kept).collect();
            let slug = slug.replace(' ', "-");
            anchors.push(match slugs.iter().filter(|seen| **seen == slug).count() {
                0 => slug.clone(),
                again => format!("{slug}-{again}"),
            });
            slugs.push(slug);
        }
        anchors
    }
}

/// The root of the repository.
pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .unwrap()
        .to_owned()
}

/// The page at `path`, if there is one.
pub(crate) fn read(root: &Path, path: &str) -> Option<Page> {
    let text = fs::read_to_string(root.join(path)).ok()?;
    Some(Page::parse(path, &text))
}

/// All pages at the root, and in `docs/` with its folders.
pub(crate) fn all(root: &Path) -> Vec<Page> {
    let mut paths = named(root, "");
    let mut folders = vec!["docs/".to_owned()];
    while let Some(folder) = folders.pop() {
        paths.extend(named(root, &folder));
        let path = root.join(&folder);
        let inner = subfolders(&path);
        folders.extend(inner.map(|name| format!("{folder}{name}/")));
    }
    paths.sort();
    paths.iter().filter_map(|path| read(root, path)).collect()
}

/// The pages in a folder, not those of its folders.
fn named(root: &Path, folder: &str) -> Vec<String> {
    let entries = fs::read_dir(root.join(folder)).unwrap();
    let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let is_page = |name: &String| Path::new(name).extension().is_some_and(|end| end == "md");
    let pages = names.filter(is_page);
    pages.map(|name| format!("{folder}{name}")).collect()
}

fn subfolders(folder: &Path) -> impl Iterator<Item = String> {
    let entries = fs::read_dir(folder).unwrap().map(Result::unwrap);
    let folders = entries.filter(|entry| entry.file_type().unwrap().is_dir());
    folders.map(|entry| entry.file_name().into_string().unwrap())
}
