//! Every example in `docs/cli.md` is a snapshot of these tests.

use std::fs;
use std::path::Path;

/// Reads all snapshots.
fn snapshots(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).expect("the snapshots are there");
    let mut texts = Vec::new();
    for entry in entries {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            texts.extend(snapshots(&path));
        } else {
            texts.push(fs::read_to_string(path).expect("text"));
        }
    }
    texts
}

/// Returns `true` if `text` matches `example`, in which a line `…` stands for any number of lines.
fn shows(example: &[&str], text: &[&str]) -> bool {
    match example.split_first() {
        None => text.is_empty(),
        Some((&"…", rest)) => (0..=text.len()).any(|skipped| shows(rest, &text[skipped..])),
        Some((line, rest)) => text
            .split_first()
            .is_some_and(|(first, left)| first == line && shows(rest, left)),
    }
}

#[test]
fn every_example_of_the_documentation_is_a_snapshot() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let snapshots = snapshots(&root.join("tests/snapshots"));
    let text = fs::read_to_string(root.join("../docs/cli.md")).expect("it is there");
    let mut examples = 0;
    for block in text.split("```text\n").skip(1) {
        let block = block.split("```").next().unwrap_or_default().trim_end();
        if !block.starts_with("$ cdb") {
            continue;
        }
        examples += 1;
        let lines: Vec<&str> = block.lines().collect();
        let found = snapshots.iter().any(|text| {
            let text: Vec<&str> = text.trim_end().lines().collect();
            shows(&lines, &text)
        });
        assert!(found, "no snapshot is\n{block}");
    }
    assert!(examples >= 5, "only {examples} examples");
}
