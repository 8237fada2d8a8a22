//! The public asynchronous functions of the crates whose calls send requests, read from the sources.

use std::collections::BTreeSet;
use std::path::Path;

const CRATES: [&str; 3] = ["cdb-client", "cdb-coordination", "cdb-work"];

/// Returns the names of the public asynchronous functions, with their types.
pub(super) fn public_calls() -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for name in CRATES {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(name);
        collect(&root.join("src"), &mut found);
    }
    found
}

fn collect(folder: &Path, found: &mut BTreeSet<String>) {
    for entry in std::fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            if path.file_name().is_some_and(|name| name != "tests") {
                collect(&path, found);
            }
        } else if path.extension().is_some_and(|it| it == "rs") {
            let text = std::fs::read_to_string(&path).expect("a source");
            let end = text.find("#[cfg(test)]\nmod tests").unwrap_or(text.len());
            found.extend(calls_of(&text[..end]));
        }
    }
}

/// Returns the public asynchronous functions of a source: `Type::name`, or `name` outside of an
/// `impl`.
fn calls_of(source: &str) -> Vec<String> {
    let (mut of, mut found) = (None, Vec::new());
    for line in source.lines() {
        if let Some(rest) = line.strip_prefix("impl") {
            of = Some(implemented(rest));
        } else if line == "}" {
            of = None;
        }
        let Some((_, rest)) = line.split_once("pub async fn ") else {
            continue;
        };
        if line.trim_start().starts_with("//") {
            continue;
        }
        let name = rest.split(['(', '<']).next().unwrap_or_default();
        found.push(match &of {
            Some(of) => format!("{of}::{name}"),
            None => name.to_owned(),
        });
    }
    found
}

/// Returns the name of the type of an `impl`, from what follows the word.
fn implemented(rest: &str) -> String {
    let mut depth = 0_usize;
    let plain: String = rest
        .chars()
        .filter(|letter| {
            depth = match letter {
                '<' => depth + 1,
                '>' => depth.saturating_sub(1),
                _ => depth,
            };
            depth == 0 && *letter != '>'
        })
        .collect();
    let last = plain.trim().trim_end_matches('{').trim();
    let name = last.rsplit(' ').next().unwrap_or_default();
    name.rsplit("::").next().unwrap_or_default().to_owned()
}
