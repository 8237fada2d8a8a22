//! `docs/diagnostics.md` is made from the cases under `tests/ui`; `UPDATE_EXPECT=1` writes it anew.

use std::collections::HashSet;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use expect_test::expect_file;

const PREFACE: &str = "\
# What the derives say

Made by `cdb-model/tests/diagnostics.rs` from the cases under `cdb-model/tests/ui`, each of which is compiled by a test.
All mistakes of a type are reported in one compile, at the word that is wrong; code that uses the type adds no errors of
its own.
";

const CHAPTERS: [(&str, &str, &str); 3] = [
    ("Documents", "document", "What one struct shows by itself."),
    ("Containers", "container", "What one enum shows by itself."),
    (
        "Between types",
        "rustc",
        "What only the compiler sees: facts across the types of a container, evaluated as constants and reported at the \
         variant, and wrong uses, reported at the method. The compiler adds its own words around these.",
    ),
];

#[test]
fn the_book_of_diagnostics_is_what_the_compiler_says() {
    let cases = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/ui");
    let mut book = PREFACE.to_owned();
    for (title, folder, about) in CHAPTERS {
        write!(book, "\n## {title}\n\n{about}\n").expect("a string takes everything");
        for case in sources(&cases.join(folder)) {
            book.push_str(&page(&case));
        }
    }
    expect_file!["../../docs/diagnostics.md"].assert_eq(&book);
}

/// The cases of a folder, by name.
fn sources(folder: &Path) -> Vec<PathBuf> {
    let mut found: Vec<_> = fs::read_dir(folder)
        .expect("the cases are beside this file")
        .map(|entry| entry.expect("the folder can be read").path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "rs"))
        .collect();
    found.sort();
    assert!(!found.is_empty(), "{} holds cases", folder.display());
    found
}

/// A case as a reader needs it: why, what was written, what is said.
fn page(case: &Path) -> String {
    let source = fs::read_to_string(case).expect("the case can be read");
    let said = fs::read_to_string(case.with_extension("stderr")).expect("its output is recorded");
    let reason = source
        .lines()
        .next()
        .and_then(|line| line.strip_prefix("//! "));
    let reason = reason.unwrap_or_else(|| panic!("{} begins with its reason", case.display()));
    let name = case
        .file_stem()
        .unwrap_or_default()
        .to_string_lossy()
        .replace('_', " ");
    let mut messages: Vec<_> = messages(&said)
        .map(|message| format!("> {message}\n"))
        .collect();
    let mut seen = HashSet::new();
    messages.retain(|message| seen.insert(message.clone()));
    format!(
        "\n### {}\n\n{reason}\n\n```rust\n{}\n```\n\n{}\n",
        capitalized(&name),
        body(&source),
        messages.join(">\n").trim_end(),
    )
}

/// What was written, without imports and frame.
fn body(source: &str) -> String {
    let frame = |line: &&str| {
        [
            "//!",
            "use ",
            "#![allow",
            "#[derive(Serialize",
            "fn main() {}",
        ]
        .iter()
        .any(|start| line.starts_with(start))
    };
    let kept: Vec<_> = source.lines().filter(|line| !frame(line)).collect();
    kept.join("\n").trim().replace(
        "#[derive(Document, Serialize, Deserialize)]",
        "#[derive(Document, …)]",
    )
}

/// Our sentence of every error, and its note.
fn messages(said: &str) -> impl Iterator<Item = String> {
    said.lines().filter_map(|line| {
        if let Some(error) = line.strip_prefix("error: ") {
            return Some(error.to_owned());
        }
        if let Some(error) = line.strip_prefix("error[") {
            let (_, text) = error.split_once("]: ")?;
            return Some(
                text.strip_prefix("evaluation panicked: ")
                    .unwrap_or(text)
                    .to_owned(),
            );
        }
        line.trim_start()
            .strip_prefix("= note: ")
            .filter(|note| !note.starts_with("this error"))
            .map(capitalized)
    })
}

fn capitalized(text: &str) -> String {
    let mut letters = text.chars();
    letters
        .next()
        .map(|first| first.to_uppercase().chain(letters).collect())
        .unwrap_or_default()
}
