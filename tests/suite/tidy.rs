//! House rules, as tests.

use std::path::{Path, PathBuf};

/// Files that may have more than 500 lines, with the reason.
const LONG_FILES: [(&str, &str); 1] = [("tests/suite/validation/mod.rs", "a list")];

/// State machines, as files or folders: a dropped outcome of theirs is a fault.
const STATE_MACHINES: [&str; 3] = [
    "cdb-work/src/partition/ownership.rs",
    "cdb-work/src/streams/order.rs",
    "provider/src/queue/local_queue",
];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// All Rust sources below a folder, as path from the root and text.
fn sources(below: &str) -> Vec<(String, String)> {
    let root = root();
    let mut found = Vec::new();
    let mut folders = vec![root.join(below)];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).expect("a folder can be listed") {
            let path = entry.expect("an entry").path();
            let name = path
                .file_name()
                .expect("a name")
                .to_string_lossy()
                .into_owned();
            if path.is_dir() {
                if !name.starts_with("target") && !name.starts_with('.') {
                    folders.push(path);
                }
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                let relative = path.strip_prefix(&root).expect("below the root");
                let text = std::fs::read_to_string(&path).expect("a source can be read");
                found.push((relative.to_string_lossy().into_owned(), text));
            }
        }
    }
    assert!(!found.is_empty(), "no sources below {below}");
    found
}

/// Returns `true` if a file contains only tests.
fn is_test(path: &str) -> bool {
    path.contains("/tests/") || path.starts_with("tests/suite")
}

/// The lines of a source before its tests, with their numbers.
fn code(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let end = text.find("#[cfg(test)]").unwrap_or(text.len());
    text[..end]
        .lines()
        .enumerate()
        .map(|(at, line)| (at + 1, line))
}

fn refuse(found: &[String], rule: &str) {
    assert!(found.is_empty(), "{rule}:\n{}", found.join("\n"));
}

#[test]
fn files_stay_below_500_lines() {
    let long: Vec<String> = sources(".")
        .into_iter()
        .filter(|(path, _)| !LONG_FILES.iter().any(|(known, _)| known == path))
        .map(|(path, text)| (path, code(&text).count()))
        .filter(|(_, lines)| *lines > 500)
        .map(|(path, lines)| format!("{path}: {lines} lines"))
        .collect();
    refuse(&long, "split it, or put it on the list with a reason");
}

#[test]
fn every_module_has_a_description() {
    let silent: Vec<String> = sources(".")
        .into_iter()
        .filter(|(path, _)| !is_test(path) && !path.contains("/expansions/"))
        // Included files are inside of a module.
        .filter(|(path, _)| !path.contains("/docs/"))
        .filter(|(_, text)| !text.starts_with("//!") && !text.starts_with("#![doc = include_str!"))
        .filter(|(_, text)| !text.trim().is_empty())
        .map(|(path, _)| path)
        .collect();
    refuse(&silent, "begin it with `//!`");
}

#[test]
fn the_emulator_reads_clocks_in_one_file() {
    let mut found = Vec::new();
    for (path, text) in sources("cdb-emulator/src") {
        let lines = code(&text)
            .filter(|(_, line)| line.contains("Instant::now") || line.contains("SystemTime::now"));
        if path != "cdb-emulator/src/time/clock.rs" {
            found.extend(lines.map(|(at, line)| format!("{path}:{at}: {}", line.trim())));
        }
    }
    refuse(
        &found,
        "use the service's `Clock`, or `time::stopwatch` to measure the machine",
    );
}

/// A duration between the system's clock and Tokio's is wrong in a test with simulated time, and
/// grows with the load of the machine.
#[test]
fn the_libraries_read_the_clock_of_tokio() {
    let libraries = ["provider", "cdb-client", "cdb-coordination", "cdb-work"];
    let mut found = Vec::new();
    for library in libraries {
        for (path, text) in sources(&format!("{library}/src")) {
            let before_tests: Vec<_> = code(&text).collect();
            let is_std = |line: &str| line.contains("std::time::") && line.contains("Instant");
            let imports = before_tests
                .iter()
                .any(|(_, line)| line.starts_with("use ") && is_std(line));
            let reads = before_tests.iter().filter(|(_, line)| {
                line.contains("std::time::Instant::now")
                    || (imports && line.contains("Instant::now"))
            });
            if !is_test(&path) {
                found.extend(reads.map(|(at, line)| format!("{path}:{at}: {}", line.trim())));
            }
        }
    }
    refuse(&found, "use `tokio::time::Instant::now`, and `into_std`");
}

#[test]
fn sql_is_written_in_one_file() {
    let keyword = concat!("SEL", "ECT ");
    let found: Vec<String> = [
        "cdb-derive/src",
        "cdb-model/src",
        "cdb-client/src",
        "cdb-coordination",
        "cdb-work",
        "cdb-cli/src",
        "provider",
    ]
    .into_iter()
    .flat_map(sources)
    .filter(|(path, text)| {
        !path.starts_with("cdb-model/src/sql/")
            && !path.starts_with("cdb-derive/src/sql/")
            && !is_test(path)
            // A tool, whose statements are known only at run time.
            && !text.contains("RawSql")
    })
    .flat_map(|(path, text)| {
        code(&text)
            .filter(|(_, line)| {
                line.contains(keyword)
                    && !line.trim_start().starts_with("//")
                    && !line.contains("sql!(")
            })
            .map(|(at, line)| format!("{path}:{at}: {}", line.trim()))
            .collect::<Vec<_>>()
    })
    .collect();
    refuse(
        &found,
        "SQL belongs into cdb-model/src/sql, `sql!` or `RawSql`",
    );
}

#[test]
fn the_provider_speaks_in_types() {
    let fields: Vec<String> = cdb_provider_fields();
    let mut found = Vec::new();
    for (path, text) in sources("provider/src") {
        for (at, line) in code(&text) {
            let line = line.trim();
            if line.starts_with("//") {
                continue;
            }
            let raw = ["json!", "serde_json::Value", "x-ms-"]
                .iter()
                .any(|word| line.contains(word));
            let named = !path.starts_with("provider/src/stored/documents/")
                && fields
                    .iter()
                    .any(|field| line.contains(&format!("\"{field}\"")));
            if raw || named {
                found.push(format!("{path}:{at}: {line}"));
            }
        }
    }
    refuse(
        &found,
        "no SQL, JSON, header or stored field name above the model",
    );
}

/// The stored names of all fields of the provider's documents.
fn cdb_provider_fields() -> Vec<String> {
    use cdb_provider::model::Container;
    let documents = cdb_provider::documents::Durable::DOCUMENTS;
    let fields = documents.iter().flat_map(|shape| shape.fields);
    let names: Vec<String> = fields
        .map(|field| field.path.trim_start_matches('/').to_owned())
        .filter(|name| name.chars().any(char::is_uppercase))
        .collect();
    assert!(names.contains(&"instanceId".to_owned()));
    names
}

#[test]
fn nothing_is_discarded_without_a_word() {
    let mut found = Vec::new();
    for (path, text) in sources(".")
        .into_iter()
        .filter(|(path, _)| !path.contains("/tests/ui/") && !path.contains("/diagnostics/cases/"))
    {
        let lines: Vec<&str> = text.lines().collect();
        for (at, line) in lines.iter().enumerate() {
            let discards = line.trim_start().starts_with("let _ =");
            let explained = at > 0 && lines[at - 1].trim_start().starts_with("//");
            if discards && !explained {
                found.push(format!("{path}:{}: {}", at + 1, line.trim()));
            }
        }
    }
    refuse(&found, "add a comment with the reason");
}

#[test]
fn state_machines_answer_with_outcomes_and_drop_none() {
    let mut found = Vec::new();
    for machine in STATE_MACHINES {
        let (folder, _) = machine.rsplit_once('/').expect("a path in a folder");
        let files = sources(folder).into_iter();
        let mut is_known = false;
        for (path, text) in files.filter(|(path, _)| path.starts_with(machine)) {
            is_known = true;
            for (at, line) in code(&text) {
                if line.trim_start().starts_with("let _ =") {
                    found.push(format!("{path}:{at}: {}", line.trim()));
                }
            }
            found.extend(
                boolean_transitions(&text).map(|name| format!("{path}: `{name}` returns `bool`")),
            );
        }
        assert!(is_known, "{machine} does not exist");
    }
    refuse(&found, "return an enum with `#[must_use]`, and use it");
}

/// The functions before the tests of a source that change their value and return `bool`.
fn boolean_transitions(text: &str) -> impl Iterator<Item = &str> {
    let end = text.find("#[cfg(test)]").unwrap_or(text.len());
    text[..end].split("fn ").skip(1).filter_map(|function| {
        let (signature, _) = function.split_once(" {\n")?;
        let (name, _) = signature.split_once(['(', '<'])?;
        let changes = signature.contains("&mut self");
        (changes && signature.ends_with("-> bool")).then_some(name)
    })
}

#[test]
fn a_boolean_transition_is_found() {
    let text = "fn is_free(&self) -> bool {\n}\nfn take(\n&mut self,\n) -> bool {\n}\n";
    assert_eq!(boolean_transitions(text).collect::<Vec<_>>(), ["take"]);
}

#[test]
fn comments_are_sentences_and_not_banners() {
    let found: Vec<String> = sources(".")
        .into_iter()
        .flat_map(|(path, text)| {
            text.lines()
                .enumerate()
                .filter(|(_, line)| {
                    let line = line.trim();
                    ["// ---", "// ===", "// ***", "// ━━", "//////"]
                        .iter()
                        .any(|rule| line.starts_with(rule))
                })
                .map(|(at, _)| format!("{path}:{}", at + 1))
                .collect::<Vec<_>>()
        })
        .collect();
    refuse(&found, "no banners");
}

#[test]
fn every_refusal_case_begins_with_its_reason() {
    let silent: Vec<String> = sources("cdb-model/tests/ui")
        .into_iter()
        .chain(sources("tests/diagnostics/cases"))
        .filter(|(_, text)| !text.starts_with("//"))
        .map(|(path, _)| path)
        .collect();
    refuse(&silent, "begin it with the reason, as a comment");
}

#[test]
fn every_dependency_of_a_library_is_explained() {
    let versions = std::fs::read_to_string(root().join("Cargo.toml")).expect("a workspace");
    let is_explained = |name: &str| {
        let mut lines = versions.lines();
        lines.any(|line| line.starts_with(&format!("{name} = ")) && line.contains(" # "))
    };
    let mut found = Vec::new();
    for library in crate::circles::CRATES {
        let manifest = root().join(library).join("Cargo.toml");
        let manifest = std::fs::read_to_string(manifest).expect("a library has a manifest");
        let (_, rest) = manifest
            .split_once("\n[dependencies]\n")
            .expect("it has dependencies");
        let section = rest.split("\n[").next().unwrap_or_default();
        let names = section
            .lines()
            .filter_map(|line| line.split(['.', ' ']).next())
            .filter(|name| !name.is_empty() && !name.starts_with('#') && !name.starts_with("cdb-"));
        found.extend(
            names
                .filter(|name| !is_explained(name))
                .map(|name| format!("{library}: {name}")),
        );
    }
    refuse(
        &found,
        "say beside the version in Cargo.toml what the dependency is for",
    );
}

#[test]
fn durations_are_defined_in_one_module_per_crate() {
    let timers = ["provider/src", "cdb-coordination/src", "cdb-work/src"];
    let found: Vec<String> = timers
        .into_iter()
        .flat_map(sources)
        .filter(|(path, _)| !path.ends_with("/timing.rs") && !path.ends_with("/tests.rs"))
        .filter(|(path, _)| !is_test(path))
        .flat_map(|(path, text)| {
            code(&text)
                .filter(|(_, line)| line.contains("const ") && line.contains(": Duration ="))
                .map(|(at, line)| format!("{path}:{at}: {}", line.trim()))
                .collect::<Vec<_>>()
        })
        .collect();
    refuse(
        &found,
        "define it in the `timing.rs` of its crate, with its relation",
    );
}
