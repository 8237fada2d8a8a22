//! No crate has modules that import each other: a reader can then understand every module from
//! those it imports.

mod graph;
mod layers;
mod public_names;
mod source;
mod tokens;

use std::path::Path;

use graph::{Circle, Modules};

/// The crates that users depend on.
pub(crate) const CRATES: [&str; 8] = [
    "cdb-derive",
    "cdb-model",
    "cdb-client",
    "cdb-coordination",
    "cdb-work",
    "cdb-emulator",
    "cdb-cli",
    "provider",
];

#[test]
fn modules_do_not_import_each_other() {
    let circles = CRATES.iter().flat_map(|name| {
        let circles = circles_of(name);
        circles.into_iter().map(|circle| shown(name, &circle))
    });
    let circles: Vec<String> = circles.collect();
    assert!(
        circles.is_empty(),
        "these modules import each other. Move what both sides need into a module of its own, \
         or hand it over as an argument:\n{}",
        circles.join("\n")
    );
}

fn circles_of(name: &str) -> Vec<Circle> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    Modules::read(&root.join(name).join("src")).circles()
}

fn shown(name: &str, Circle(modules): &Circle) -> String {
    let mut lines = vec![format!("{name}: {} modules", modules.len())];
    for (module, imports) in modules {
        let shown = |(imported, path)| format!("  {module} → {imported} (by {path})");
        lines.extend(imports.iter().map(shown));
    }
    lines.join("\n")
}
