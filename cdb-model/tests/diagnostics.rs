//! Generates `docs/diagnostics.md` from the cases under `tests/ui`, here and in the provider; `UPDATE_EXPECT=1` updates it.

use std::collections::HashSet;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use expect_test::expect_file;

const PREFACE: &str = "\
# Diagnostics of the derives

`cdb-model/tests/diagnostics.rs` generates this page from the cases under `cdb-model/tests/ui` and `provider/tests/ui`,
which tests compile. One compilation reports all mistakes of a type, each at the wrong word. Code that uses the type adds no errors.
";

const CHAPTERS: [(&str, &str, &str); 5] = [
    ("Documents", "document", "Mistakes in one struct."),
    ("Containers", "container", "Mistakes in one enum."),
    ("Projections", "projection", "Mistakes in one struct."),
    (
        "Between types",
        "rustc",
        "Conflicts between the types of a container, which the compiler evaluates as constants and reports at the variant, \
         and wrong uses, which it reports at the method. The compiler adds text around these messages.",
    ),
    (
        "Search attributes",
        "../../../provider/tests/ui",
        "Mistakes with the [search attributes](search-attributes.md) of orchestrations.",
    ),
];

#[test]
fn the_page_of_diagnostics_is_up_to_date() {
    let cases = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/ui");
    let mut book = PREFACE.to_owned();
    for (title, folder, about) in CHAPTERS {
        write!(book, "\n## {title}\n\n{about}\n").expect("writing to a string never fails");
        for case in sources(&cases.join(folder)) {
            book.push_str(&page(&case));
        }
    }
    expect_file!["../../docs/diagnostics.md"].assert_eq(&book);
}

/// Returns the cases of a folder, sorted by name.
fn sources(folder: &Path) -> Vec<PathBuf> {
    let mut found: Vec<_> = fs::read_dir(folder)
        .expect("the folder of cases exists")
        .map(|entry| entry.expect("the folder can be read").path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "rs"))
        .collect();
    found.sort();
    assert!(!found.is_empty(), "{} has cases", folder.display());
    found
}

/// Formats a case: the reason, the code, the messages.
fn page(case: &Path) -> String {
    let source = fs::read_to_string(case).expect("the case can be read");
    let output = fs::read_to_string(case.with_extension("stderr")).expect("its output is recorded");
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
    let mut messages: Vec<_> = messages(&output)
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

/// Returns the code without imports and frame.
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

/// Returns our text of every error and its note.
fn messages(output: &str) -> impl Iterator<Item = String> {
    output.lines().filter_map(|line| {
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
