//! Checks of the book: links lead to files, every page is in the table of contents, every example
//! is compiled.

#[path = "../tools/book/src/llms.rs"]
mod llms;

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

#[test]
fn links_lead_to_existing_files() {
    let mut broken = Vec::new();
    for (page, text) in pages() {
        let place = root().join(&page);
        let folder = place.parent().expect("a page lies somewhere");
        for link in text.split("](").skip(1) {
            let target = link.split([')', '#']).next().unwrap_or_default();
            let elsewhere = target.is_empty() || target.contains("://");
            if !elsewhere && !folder.join(target).exists() {
                broken.push(format!("{page}: {target}"));
            }
        }
    }
    refuse(&broken, "fix the link");
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
