//! Checks of the book: links lead to files, every page is in the table of contents, every example
//! is compiled.

#[path = "../tools/book/src/llms.rs"]
mod llms;
#[path = "../tools/book/src/outside.rs"]
mod outside;

use std::path::{Path, PathBuf};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// The folders with pages: the repository's root, the book, and what rustdoc of a crate includes.
const FOLDERS: [&str; 6] = [
    "",
    "docs",
    "docs/guide",
    "cdb-derive/docs",
    "cdb-emulator/docs",
    "cdb-model/docs",
];

/// All pages: path from the root, and text.
fn pages() -> Vec<(String, String)> {
    let mut found = Vec::new();
    for folder in FOLDERS {
        for entry in std::fs::read_dir(root().join(folder)).expect("a folder can be listed") {
            let path = entry.expect("an entry").path();
            if path.extension().is_some_and(|extension| extension == "md") {
                let name = path.file_name().expect("a name").to_string_lossy();
                let text = std::fs::read_to_string(&path).expect("a page can be read");
                let separator = if folder.is_empty() { "" } else { "/" };
                found.push((format!("{folder}{separator}{name}"), text));
            }
        }
    }
    found
}

fn refuse(found: &[String], cure: &str) {
    assert!(found.is_empty(), "{cure}:\n{}", found.join("\n"));
}

/// Returns the links of a text that lead to no file, seen from a folder.
fn broken<'a>(folder: &'a Path, text: &'a str) -> impl Iterator<Item = &'a str> {
    let targets = text
        .split("](")
        .skip(1)
        .map(|link| link.split([')', '#']).next().unwrap_or_default());
    targets.filter(|target| {
        let elsewhere = target.is_empty() || target.contains("://");
        !elsewhere && !folder.join(target).exists()
    })
}

#[test]
fn links_lead_to_existing_files() {
    let mut found = Vec::new();
    for (page, text) in pages() {
        let place = root().join(&page);
        let folder = place.parent().expect("a page lies somewhere");
        found.extend(broken(folder, &text).map(|target| format!("{page}: {target}")));
    }
    refuse(&found, "fix the link");
}

/// mdBook knows only files in its folder, so `cargo book` builds a copy that has the other ones too.
#[test]
fn the_copy_that_the_book_is_built_from_has_all_that_its_pages_link_to() {
    let staged = std::env::temp_dir().join(format!("cdb-book-{}", std::process::id()));
    outside::stage(&root(), &staged).expect("it can be written");
    let mut found = Vec::new();
    for folder in ["", "guide", "reference"] {
        let folder = staged.join(folder);
        for entry in std::fs::read_dir(&folder).expect("a folder can be listed") {
            let path = entry.expect("an entry").path();
            if path.extension().is_some_and(|extension| extension == "md") {
                let text = std::fs::read_to_string(&path).expect("a page can be read");
                let page = path.display();
                found.extend(broken(&folder, &text).map(|target| format!("{page}: {target}")));
            }
        }
    }
    let contents = std::fs::read_to_string(staged.join("SUMMARY.md")).expect("a table");
    std::fs::remove_dir_all(&staged).expect("it can be removed");
    refuse(&found, "copy what the page links to");
    assert!(contents.contains("(reference/cdb-derive-docs-document.md)"));
}

#[test]
fn links_out_of_the_book_lead_to_copies() {
    let text = "[a](../sql.md#x) [b](../../cdb-derive/docs/sql.md) [c](../../examples/a.rs) [d](https://e.org)\n";
    let (text, outside) = outside::rewritten("docs/guide/start.md", text);
    let expected = "[a](../sql.md#x) [b](../reference/cdb-derive-docs-sql.md) [c](../files/examples-a.rs) [d](https://e.org)\n";
    assert_eq!(text, expected);
    assert_eq!(
        Vec::from_iter(outside),
        ["cdb-derive/docs/sql.md", "examples/a.rs"]
    );
}

#[test]
fn every_page_is_in_the_table_of_contents() {
    let contents = std::fs::read_to_string(root().join("docs/SUMMARY.md")).expect("a table");
    let missing: Vec<String> = pages()
        .into_iter()
        .filter_map(|(page, _)| page.strip_prefix("docs/").map(str::to_owned))
        .filter(|page| page != "SUMMARY.md" && !contents.contains(&format!("({page})")))
        .collect();
    refuse(&missing, "list the page in docs/SUMMARY.md");
}

#[test]
fn every_page_with_rust_is_compiled() {
    let compiled =
        std::fs::read_to_string(root().join("tests/support/docs.rs")).expect("a list of pages");
    let has_rust = |text: &str| {
        let mut fences = text.lines().filter_map(|line| line.strip_prefix("```rust"));
        fences.any(|flags| !flags.contains("ignore"))
    };
    let missing: Vec<String> = pages()
        .into_iter()
        .filter(|(_, text)| has_rust(text))
        .map(|(page, _)| page)
        .filter(|page| !compiled.contains(&format!("\"../../{page}\"")))
        .collect();
    refuse(&missing, "list the page in tests/support/docs.rs");
}

/// The host of the repository shows pages as they are: with hidden lines, and without what they
/// include.
#[test]
fn pages_read_well_without_a_renderer() {
    let mut found = Vec::new();
    for (page, text) in pages() {
        let mut block = None;
        for (at, line) in text.lines().enumerate() {
            if let Some(flags) = line.strip_prefix("```") {
                block = match block {
                    None => Some(flags),
                    Some(_) => None,
                };
                continue;
            }
            let is_rust = block.is_some_and(|flags: &str| flags.starts_with("rust"));
            let is_hidden = is_rust && (line == "#" || line.starts_with("# "));
            let includes = line.contains("{{#include") || line.contains(concat!("include", "!("));
            if is_hidden || includes {
                found.push(format!("{page}:{}: {line}", at + 1));
            }
        }
    }
    refuse(
        &found,
        "write a whole program, or a function with its parameters",
    );
}

#[test]
fn llms_txt_lists_every_page_with_the_question_that_it_answers() {
    let docs = root().join("docs");
    let read = |path: &str| std::fs::read_to_string(docs.join(path)).expect("a page can be read");
    let contents = read("SUMMARY.md");
    let text = llms::llms(&contents, "docs/", read);
    let file = root().join("llms.txt");
    if std::env::var_os("UPDATE_EXPECT").is_some() {
        std::fs::write(&file, &text).expect("the list can be written");
    }
    let stored = std::fs::read_to_string(&file).expect("the list can be read");
    let cure = "run the test with UPDATE_EXPECT=1, which writes llms.txt";
    assert!(stored == text, "{cure}");
    let (head, sections) = text.split_once("\n## ").expect("sections");
    assert!(
        head.starts_with("# cdb\n\n> Documents and durable execution"),
        "{head}"
    );
    let pages: Vec<_> = contents.lines().filter_map(llms::link).collect();
    let listed: Vec<&str> = sections
        .lines()
        .filter(|line| line.starts_with("- ["))
        .collect();
    assert_eq!(listed.len() + 1, pages.len());
    for (title, path) in &pages[1..] {
        let entry = format!("- [{title}](docs/{path}): ");
        let line = listed.iter().find(|line| line.starts_with(&entry));
        let question = line.unwrap_or_else(|| panic!("{entry}"));
        assert!(
            question.ends_with(['?', '.']),
            "begin the page with its question: {question}"
        );
    }
}
