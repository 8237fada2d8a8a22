//! Names of metrics: the sources, the reference page and the dashboard use the same.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use serde::Deserialize;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// Prefixes of metric names.
const FAMILIES: [&str; 10] = [
    "db.client.operation.",
    "azure.cosmosdb.client.operation.",
    "cdb.client.",
    "cdb.provider.",
    "cdb.membership.",
    "cdb.change_feed.",
    "cdb.lease.",
    "cdb.outbox.",
    "cdb.inbox.",
    "cdb.work.",
];

/// Returns the words between these marks that are metric names.
fn names(text: &str, mark: char) -> impl Iterator<Item = &str> {
    text.split(mark).filter(|word| {
        let rest = FAMILIES.iter().find_map(|family| word.strip_prefix(family));
        let plain = |rest: &str| {
            rest.chars()
                .all(|c| c.is_ascii_lowercase() || "._".contains(c))
        };
        rest.is_some_and(|rest| !rest.is_empty() && plain(rest))
    })
}

fn documented() -> BTreeSet<String> {
    let page = std::fs::read_to_string(root().join("docs/telemetry.md")).expect("the page");
    names(&page, '`').map(str::to_owned).collect()
}

fn reported() -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let mut folders: Vec<PathBuf> = [
        "cdb-client/src",
        "cdb-coordination/src",
        "cdb-work/src",
        "provider/src",
    ]
    .map(|folder| root().join(folder))
    .into();
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).expect("a folder can be listed") {
            let path = entry.expect("an entry").path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                let text = std::fs::read_to_string(path).expect("a source can be read");
                found.extend(names(&text, '"').map(str::to_owned));
            }
        }
    }
    found
}

#[test]
fn the_telemetry_page_lists_exactly_the_reported_metrics() {
    let (reported, documented) = (reported(), documented());
    assert!(reported.len() > 30, "{reported:?}");
    let silent: Vec<_> = reported.difference(&documented).collect();
    assert!(silent.is_empty(), "list in docs/telemetry.md: {silent:?}");
    let invented: Vec<_> = documented.difference(&reported).collect();
    assert!(invented.is_empty(), "no source reports: {invented:?}");
}

#[derive(Deserialize)]
struct Dashboard {
    panels: Vec<Panel>,
}

#[derive(Deserialize)]
struct Panel {
    title: String,
    targets: Vec<Target>,
}

#[derive(Deserialize)]
struct Target {
    expr: String,
}

#[test]
fn the_dashboard_queries_existing_metrics() {
    let text = std::fs::read_to_string(root().join("docs/grafana.json")).expect("the dashboard");
    let dashboard: Dashboard = serde_json::from_str(&text).expect("it is JSON");
    let known: BTreeSet<String> = documented()
        .iter()
        .map(|name| name.replace('.', "_"))
        .collect();
    assert!(dashboard.panels.len() > 10);
    for panel in &dashboard.panels {
        for target in &panel.targets {
            let words = target
                .expr
                .split(|c: char| !c.is_ascii_lowercase() && c != '_');
            let asked = words.filter(|word| word.starts_with("cdb_") || word.contains("_client_"));
            let unknown: Vec<&str> = asked
                .filter(|word| {
                    let parts = ["_bucket", "_count", "_sum"];
                    let bare = parts.iter().find_map(|part| word.strip_suffix(part));
                    !known.contains(bare.unwrap_or(word))
                })
                .collect();
            assert!(unknown.is_empty(), "{}: {unknown:?}", panel.title);
        }
    }
}
