//! The lists name every validation function that the installed duroxide has.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::process::Command;

const LISTS: [&str; 3] = [
    include_str!("mod.rs"),
    include_str!("long_polling.rs"),
    include_str!("race_replay.rs"),
];

#[test]
fn every_validation_function_of_the_installed_duroxide_is_called() {
    let called: BTreeSet<&str> = LISTS
        .into_iter()
        .flat_map(|list| list.split(|c: char| !c.is_alphanumeric() && c != '_'))
        .collect();
    let mut count = 0;
    let mut missing = Vec::new();
    for entry in std::fs::read_dir(sources()).expect("the sources can be listed") {
        let path = entry.expect("an entry").path();
        let module = path
            .file_stem()
            .expect("a name")
            .to_string_lossy()
            .into_owned();
        if module == "mod" {
            continue;
        }
        let text = std::fs::read_to_string(&path).expect("a source can be read");
        for rest in text
            .lines()
            .filter_map(|line| line.strip_prefix("pub async fn "))
        {
            let name: String = rest
                .chars()
                .take_while(|c| c.is_alphanumeric() || *c == '_')
                .collect();
            count += 1;
            if !called.contains(&*name) {
                missing.push(format!("{module}::{name}"));
            }
        }
    }
    assert!(
        count >= 233,
        "only {count} functions found: has duroxide moved them?"
    );
    assert!(missing.is_empty(), "not called: {missing:?}");
}

/// Where cargo keeps the sources of the duroxide that this was built with.
fn sources() -> PathBuf {
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--format-version", "1", "--offline", "--locked"])
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .expect("cargo metadata runs");
    let metadata: serde_json::Value =
        serde_json::from_slice(&output.stdout).expect("cargo metadata prints JSON");
    let manifest = metadata["packages"]
        .as_array()
        .into_iter()
        .flatten()
        .find(|package| package["name"] == "duroxide")
        .and_then(|package| package["manifest_path"].as_str())
        .expect("duroxide is a dependency");
    PathBuf::from(manifest)
        .parent()
        .expect("a manifest is in a folder")
        .join("src/provider_validation")
}
