//! The files and folders in the `src` of each crate stand in layers: each imports only those below it.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use super::graph::{Modules, entry};

/// The entries of each `src` from top to bottom. A reader keeps a dozen in mind.
const LAYERS: [(&str, &[&str]); 8] = [
    (
        "cdb-cli",
        &[
            "lib",
            "main",
            "program",
            "mcp",
            "command",
            "dashboard",
            "doctor",
            "view",
            "container",
            "model",
            "connection",
            "output",
            "exit",
        ],
    ),
    (
        "cdb-client",
        &[
            "lib",
            "database",
            "account",
            "container",
            "retry",
            "regions",
            "throughput",
            "protocol",
            "partitions",
            "credential",
            "transport",
            "clock",
            "error",
        ],
    ),
    (
        "cdb-coordination",
        &[
            "lib",
            "messaging",
            "change_feed",
            "repository",
            "endpoint",
            "membership",
            "outbox",
            "message",
            "lease",
            "search",
            "retry",
            "telemetry",
            "timing",
        ],
    ),
    (
        "cdb-derive",
        &[
            "lib",
            "attributes",
            "container",
            "document",
            "projection",
            "scalar",
            "sql",
            "output",
            "input",
        ],
    ),
    (
        "cdb-emulator",
        &[
            "lib", "main", "server", "explorer", "op", "account", "rules", "plan", "store", "sql",
            "fault", "protocol", "time",
        ],
    ),
    (
        "cdb-model",
        &[
            "lib",
            "codegen_support",
            "conflict",
            "operation",
            "query",
            "stored",
            "container",
            "policy",
            "sql",
            "document",
            "value",
            "shape",
            "limits",
        ],
    ),
    (
        "cdb-work",
        &[
            "lib",
            "handlers",
            "coordinator",
            "partition",
            "flush",
            "events",
            "memory",
            "config",
            "telemetry",
            "streams",
            "error",
            "timing",
        ],
    ),
    (
        "provider",
        &[
            "lib", "record", "contract", "provider", "operate", "turn", "activity", "delivery",
            "queue", "config", "stored", "error", "timing",
        ],
    ),
];

fn source_folder(name: &str) -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    root.join(name).join("src")
}

#[test]
fn the_layers_name_every_entry_of_a_crate() {
    for (name, layers) in LAYERS {
        let folder = std::fs::read_dir(source_folder(name)).expect("the folder can be listed");
        let entries: BTreeSet<String> = folder
            .map(|entry| entry.expect("an entry").path())
            .map(|path| path.with_extension("").display().to_string())
            .filter_map(|path| Some(path.rsplit_once('/')?.1.to_owned()))
            .collect();
        let named: BTreeSet<String> = layers.iter().map(ToString::to_string).collect();
        assert_eq!(entries, named, "{name}");
        assert!(layers.len() <= 13, "{name} has {} entries", layers.len());
    }
}

#[test]
fn each_layer_imports_only_lower_ones() {
    for (name, layers) in LAYERS {
        let layer = |module| layers.iter().position(|layer| *layer == entry(module));
        let imports = Modules::read(&source_folder(name)).between_entries();
        let upward: Vec<String> = imports
            .iter()
            .filter(|(module, imported)| layer(module) >= layer(imported))
            .map(|(module, imported)| format!("{module} imports {imported}"))
            .collect();
        assert!(imports.len() > 20, "{name}: the imports are not read");
        assert!(
            upward.is_empty(),
            "{name}: move what both layers need to the lower one, or hand it over as an argument:\n{}",
            upward.join("\n")
        );
    }
}
