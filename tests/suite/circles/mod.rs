//! No crate has modules that import each other: a reader can then understand every module from those it imports.

mod graph;
mod source;
mod tokens;

use std::path::Path;

use graph::{Circle, Modules};

/// Modules that may still stand in a circle, by crate; each entry covers the modules below it.
/// The list only shrinks: remove an entry as soon as the test asks for it, and add none.
const EXCEPTIONS: &[(&str, &str)] = &[("cdb-coordination", "crate::lease")];

const CRATES: [&str; 7] = [
    "cdb-derive",
    "cdb-model",
    "cdb-client",
    "cdb-coordination",
    "cdb-emulator",
    "cdb-cli",
    "provider",
];

#[test]
fn modules_do_not_import_each_other() {
    let mut refused = Vec::new();
    let mut needed = vec![false; EXCEPTIONS.len()];
    for name in CRATES {
        for circle in circles_of(name) {
            let mut excepted = true;
            for module in circle.0.keys() {
                let exception = EXCEPTIONS.iter().position(|(crate_name, exception)| {
                    *crate_name == name && covers(exception, module)
                });
                match exception {
                    Some(at) => needed[at] = true,
                    None => excepted = false,
                }
            }
            if !excepted {
                refused.push(shown(name, &circle));
            }
        }
    }
    assert!(
        refused.is_empty(),
        "these modules import each other. Move what both sides need into a module of its own, \
         or hand it over as an argument:\n{}",
        refused.join("\n")
    );
    let unneeded: Vec<_> = EXCEPTIONS
        .iter()
        .zip(needed)
        .filter(|(_, needed)| !needed)
        .map(|((name, module), _)| format!("{name} {module}"))
        .collect();
    assert!(
        unneeded.is_empty(),
        "remove these exceptions, they stand in no circle any more: {}",
        unneeded.join(", ")
    );
}

fn circles_of(name: &str) -> Vec<Circle> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    Modules::read(&root.join(name).join("src")).circles()
}

/// Whether an exception is for this module or for one above it.
fn covers(exception: &str, module: &str) -> bool {
    let below = module.strip_prefix(exception);
    below.is_some_and(|below| below.is_empty() || below.starts_with("::"))
}

fn shown(name: &str, Circle(modules): &Circle) -> String {
    let mut lines = vec![format!("{name}: {} modules", modules.len())];
    for (module, imports) in modules {
        let shown = |(imported, path)| format!("  {module} → {imported} (by {path})");
        lines.extend(imports.iter().map(shown));
    }
    lines.join("\n")
}

#[test]
fn an_exception_covers_its_module_and_those_below() {
    assert!(covers("crate::turn", "crate::turn"));
    assert!(covers("crate::turn", "crate::turn::commit"));
    assert!(!covers("crate::turn", "crate::turns"));
    assert!(!covers("crate::turn::commit", "crate::turn"));
}
