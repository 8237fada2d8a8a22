//! The files and folders in `provider/src` stand in layers: each imports only those below it.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use super::graph::{Modules, entry};

/// The entries of `provider/src` from top to bottom. A reader keeps a dozen in mind.
const LAYERS: [&str; 14] = [
    "lib", "prelude", "record", "contract", "provider", "operate", "turn", "activity", "delivery",
    "queue", "config", "stored", "error", "timing",
];

fn source_folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../provider/src")
}

fn layer(entry: &str) -> Option<usize> {
    LAYERS.iter().position(|layer| *layer == entry)
}

#[test]
fn the_layers_name_every_entry_of_the_provider() {
    let folder = std::fs::read_dir(source_folder()).expect("the folder can be listed");
    let entries: BTreeSet<String> = folder
        .map(|entry| entry.expect("an entry").path())
        .map(|path| path.with_extension("").display().to_string())
        .filter_map(|path| Some(path.rsplit_once('/')?.1.to_owned()))
        .collect();
    assert_eq!(entries, LAYERS.map(str::to_owned).into());
}

#[test]
fn the_layers_of_the_provider_import_only_lower_ones() {
    let imports = Modules::read(&source_folder()).between_entries();
    let upward: Vec<String> = imports
        .iter()
        .filter(|(module, imported)| layer(entry(module)) >= layer(entry(imported)))
        .map(|(module, imported)| format!("{module} imports {imported}"))
        .collect();
    assert!(imports.len() > 100, "the imports are not read");
    assert!(
        upward.is_empty(),
        "move what both layers need to the lower one, or hand it over as an argument:\n{}",
        upward.join("\n")
    );
}
