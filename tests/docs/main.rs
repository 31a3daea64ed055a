//! Checks the Markdown pages: relative links and anchors exist, all Rust is compiled, tables have a
//! cell for each column, and those of arguments and settings a row for each.
//!
//! `page` splits a page into prose and fenced blocks; `links`, `code` and `tables` check them, and
//! `lists` compares with the code. `names` checks how types are called. Each check is also tested on
//! what is bad.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "test code, also where clippy does not see it"
)]

mod code;
mod links;
mod lists;
mod names;
mod offered;
mod page;
mod tables;

use page::{Page, all, root};

fn complaints(of: impl Fn(&Page) -> Vec<String>) -> String {
    let pages = all(&root());
    assert!(pages.iter().any(|page| page.path == "README.md"));
    assert!(
        pages
            .iter()
            .any(|page| page.path == "docs/inside/guarantees.md")
    );
    assert!(pages.iter().any(|page| page.path == "docs/kinds/fair.md"));
    pages.iter().flat_map(of).collect::<Vec<_>>().join("\n")
}

#[test]
fn every_link_leads_somewhere() {
    let found = complaints(|page| links::broken(page, &root()));
    assert!(found.is_empty(), "{found}");
}

/// The pages in `docs/SUMMARY.md`, from which mdBook builds the book: all but the notes.
#[test]
fn the_book_has_every_page_once() {
    let summary = std::fs::read_to_string(root().join("docs/SUMMARY.md")).unwrap();
    let links = summary.split("](").skip(1);
    let mut listed: Vec<String> = links
        .filter_map(|rest| Some(format!("docs/{}", rest.split_once(')')?.0)))
        .collect();
    listed.sort();
    let mut pages: Vec<String> = all(&root()).into_iter().map(|page| page.path).collect();
    pages.retain(|path| path.starts_with("docs/") && path != "docs/SUMMARY.md");
    pages.retain(|path| !path.starts_with("docs/notes/"));
    assert_eq!(listed, pages);
}

#[test]
fn no_two_types_of_a_crate_share_a_name() {
    for folder in names::CRATES {
        let sources = names::sources(&root().join(folder));
        assert!(!sources.is_empty(), "{folder}");
        let shared = names::shared(sources.into_iter());
        assert!(shared.is_empty(), "{folder}: {}", shared.join("\n"));
    }
}

/// What an answer of a server means, `client` says: `driver` names no variant of one.
#[test]
fn the_driver_reads_no_answer() {
    let answers = [
        "Acquired",
        "AcquiredAll",
        "Landed",
        "Polled",
        "Renewed",
        "TokenStage",
    ];
    let sources = names::sources(&root().join("dlock-runtime/src/driver"));
    assert!(!sources.is_empty());
    for (path, text) in sources {
        for answer in answers {
            let name = format!("{answer}::");
            let mut places = text.match_indices(&name);
            let reads = places.any(|(at, _)| {
                let behind = &text[at + name.len()..];
                let is_variant = behind.starts_with(char::is_uppercase);
                is_variant && !text[..at].ends_with(char::is_alphanumeric)
            });
            assert!(!reads, "{} reads {answer}", path.display());
        }
    }
}

/// The guide has the table by which requests and settings are refused.
#[test]
fn what_servers_refuse_stands_in_the_guide() {
    let page = std::fs::read_to_string(root().join("docs/topologies/which.md")).unwrap();
    let rows: Vec<String> = dlock_runtime::__private::refused().collect();
    assert!(page.contains(&rows.join("\n")), "{}", rows.join("\n"));
}

/// There is one address of the repository, that of the manifest.
#[test]
fn programs_depend_on_the_repository_of_the_manifest() {
    let manifest = std::fs::read_to_string(root().join("Cargo.toml")).unwrap();
    let (_, rest) = manifest.split_once("\nrepository = ").unwrap();
    let address = rest.split_whitespace().next().unwrap();
    let depends = format!("dlock-runtime = {{ git = {address} }}");
    let mut places = 0;
    for page in all(&root()) {
        let lines = page.blocks.iter().flat_map(|block| block.text.lines());
        for line in lines.filter(|line| line.starts_with("dlock-runtime = ")) {
            assert!(line.starts_with(&depends), "{}: {line}", page.path);
            places += 1;
        }
    }
    assert_eq!(places, 2, "the README and the tutorial");
}

#[test]
fn no_rust_goes_uncompiled() {
    let doctests = std::fs::read_to_string(root().join("tests/lib.rs")).unwrap();
    let found = complaints(|page| code::uncompiled(page, &doctests, &root()));
    assert!(found.is_empty(), "{found}");
}

/// What is no doctest there was copied from programs that compile.
#[test]
fn other_clients_check_as_their_examples_do() {
    let page = page::read(&root(), "docs/how-to/checked-transfer.md").unwrap();
    let sources = ["diesel", "sqlx"].map(|client| {
        let path = root().join(format!("examples/clients/{client}.rs"));
        std::fs::read_to_string(path).unwrap()
    });
    let blocks: Vec<_> = (page.blocks.iter())
        .filter(|block| block.info == "rust,ignore")
        .collect();
    assert_eq!(blocks.len(), sources.len());
    for block in blocks {
        let is_copied = sources.iter().any(|source| source.contains(&block.text));
        assert!(is_copied, "{}", block.text);
    }
}

#[test]
fn every_row_has_a_cell_for_each_column() {
    let found = complaints(tables::ragged);
    assert!(found.is_empty(), "{found}");
}
