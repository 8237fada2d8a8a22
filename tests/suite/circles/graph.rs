//! Which module of a crate imports which, and the circles among them.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path as File;

use super::source::{Import, Source};

/// The name of the module in `lib.rs`; other modules are named by their path from it.
const ROOT: &str = "crate";

/// Ends the search for a name that is imported from itself.
const MAX_REEXPORTS: usize = 16;

/// Modules that import each other, each with its imports inside of the circle.
#[derive(Debug)]
pub(super) struct Circle(pub(super) BTreeMap<String, Imports>);

/// The imported modules, each with a path that names it.
pub(super) type Imports = BTreeMap<String, String>;

/// The modules of one crate.
#[derive(Debug, Default)]
pub(super) struct Modules(BTreeMap<String, Source>);

impl Modules {
    /// Reads `lib.rs` and every module that it declares, except for tests.
    pub(super) fn read(source_folder: &File) -> Self {
        let mut modules = Self::default();
        modules.read_file(
            ROOT.to_owned(),
            &source_folder.join("lib.rs"),
            source_folder,
        );
        modules
    }

    fn read_file(&mut self, name: String, file: &File, folder: &File) {
        let text = std::fs::read_to_string(file)
            .unwrap_or_else(|error| panic!("{}: {error}", file.display()));
        let source = Source::parse(&text);
        for (module, file) in &source.modules {
            let below = folder.join(module);
            let candidates = [below.with_extension("rs"), below.join("mod.rs")];
            let file = match file {
                Some(file) => folder.join(file),
                None if candidates[0].exists() => candidates[0].clone(),
                None => candidates[1].clone(),
            };
            self.read_file(format!("{name}::{module}"), &file, &below);
        }
        self.0.insert(name, source);
    }

    /// Finds all maximal sets of modules that import each other, directly or through others.
    pub(super) fn circles(&self) -> Vec<Circle> {
        let imports: BTreeMap<&String, Imports> = self
            .0
            .keys()
            .map(|module| (module, self.imports(module)))
            .collect();
        let reached: BTreeMap<&String, BTreeSet<&String>> = imports
            .keys()
            .map(|module| (*module, reached_from(module, &imports)))
            .collect();
        let mut circles = Vec::new();
        let mut seen = BTreeSet::new();
        for (module, others) in &reached {
            if !others.contains(module) || seen.contains(module) {
                continue;
            }
            let members: BTreeSet<&String> = others
                .iter()
                .filter(|other| reached[*other].contains(module))
                .copied()
                .collect();
            let inside = |module: &&String| {
                let mut imports = imports[*module].clone();
                imports.retain(|imported, _| members.contains(imported));
                ((*module).clone(), imports)
            };
            circles.push(Circle(members.iter().map(inside).collect()));
            seen.extend(members);
        }
        circles
    }

    /// Returns the imports between entries of the source folder, as importing and imported module.
    pub(super) fn between_entries(&self) -> Vec<(String, String)> {
        let imports = self.0.keys().flat_map(|module| {
            let imported = self.imports(module).into_keys();
            imported.map(|imported| (module.clone(), imported))
        });
        imports
            .filter(|(module, imported)| entry(module) != entry(imported))
            .collect()
    }

    /// The other modules that a module imports or names. A re-export counts if the module itself
    /// uses the name.
    fn imports(&self, module: &str) -> Imports {
        let source = &self.0[module];
        let used = |import: &&Import| !import.reexport || source.names.contains(&import.name);
        let imported = source.imports.iter().filter(used);
        let mut found = Imports::new();
        for path in imported.map(|import| &import.path).chain(&source.paths) {
            if let Some(target) = self.resolve(module, path, MAX_REEXPORTS)
                && target != module
            {
                found.entry(target).or_insert_with(|| path.join("::"));
            }
        }
        found
    }

    /// The module that defines what a path in `module` names; `None` for another crate and for
    /// local names.
    fn resolve(&self, module: &str, path: &[String], reexports: usize) -> Option<String> {
        let (first, rest) = path.split_first()?;
        match first.as_str() {
            ROOT => self.find(ROOT, rest, reexports),
            "self" => self.find(module, rest, reexports),
            "super" => {
                let (mut module, _) = module.rsplit_once("::")?;
                let mut rest = rest;
                while let [first, further @ ..] = rest
                    && first == "super"
                {
                    (module, _) = module.rsplit_once("::")?;
                    rest = further;
                }
                self.find(module, rest, reexports)
            }
            _ => {
                let known = self.0.contains_key(&format!("{module}::{first}"))
                    || self.import(module, first).is_some();
                known.then(|| self.find(module, path, reexports))?
            }
        }
    }

    /// Follows a path from a module downwards, through its imports too.
    fn find(&self, module: &str, path: &[String], reexports: usize) -> Option<String> {
        let Some((first, rest)) = path.split_first() else {
            return Some(module.to_owned());
        };
        let child = format!("{module}::{first}");
        if self.0.contains_key(&child) {
            return self.find(&child, rest, reexports);
        }
        match self.import(module, first) {
            Some(import) => {
                let path = [&import.path, rest].concat();
                self.resolve(module, &path, reexports.checked_sub(1)?)
            }
            None => Some(module.to_owned()),
        }
    }

    fn import(&self, module: &str, name: &str) -> Option<&Import> {
        let imports = &self.0.get(module)?.imports;
        imports.iter().find(|import| import.name == name)
    }
}

/// The entry of the source folder, file or folder, that contains a module.
pub(super) fn entry(module: &str) -> &str {
    match module.split("::").nth(1) {
        Some(entry) => entry,
        None => "lib",
    }
}

/// All modules that can be reached from a module by at least one import.
fn reached_from<'a>(
    module: &'a String,
    imports: &'a BTreeMap<&'a String, Imports>,
) -> BTreeSet<&'a String> {
    let mut reached = BTreeSet::new();
    let mut open = vec![module];
    while let Some(module) = open.pop() {
        open.extend(
            imports[module]
                .keys()
                .filter(|imported| reached.insert(*imported)),
        );
    }
    reached
}

#[cfg(test)]
mod tests {
    use super::*;

    fn circles(sources: &[(&str, &str)]) -> Vec<String> {
        let parsed = |(name, text): &(&str, &str)| ((*name).to_owned(), Source::parse(text));
        let modules = Modules(sources.iter().map(parsed).collect());
        let names = |circle: Circle| circle.0.into_keys().collect::<Vec<_>>().join(" ");
        modules.circles().into_iter().map(names).collect()
    }

    #[test]
    fn modules_that_import_each_other_are_a_circle() {
        let found = circles(&[
            ("crate", "mod a; mod b; mod c; pub use a::A;"),
            ("crate::a", "use crate::b::B;"),
            ("crate::b", "fn f() -> super::a::A { self::g() }"),
            ("crate::c", "use crate::a::A; use std::fmt;"),
        ]);
        assert_eq!(found, ["crate::a crate::b"]);
    }

    #[test]
    fn a_circle_may_lead_through_several_modules() {
        let found = circles(&[
            ("crate", ""),
            ("crate::a", "use super::b::B;"),
            ("crate::b", "use super::c::{self, C};"),
            ("crate::c", "use super::a;"),
            ("crate::d", "use super::e;"),
            ("crate::e", "use super::d;"),
        ]);
        assert_eq!(found, ["crate::a crate::b crate::c", "crate::d crate::e"]);
    }

    #[test]
    fn a_reexport_leads_to_the_module_that_defines_the_name() {
        let found = circles(&[
            ("crate", "mod a; mod b; pub use b::Renamed;"),
            ("crate::a", "use crate::Renamed;"),
            (
                "crate::b",
                "mod d; mod e; pub use d::D as Renamed; pub use e::E; use std::fmt;",
            ),
            ("crate::b::d", "use super::{E, fmt};"),
            ("crate::b::e", "use crate::a::A;"),
        ]);
        assert_eq!(found, ["crate::a crate::b::d crate::b::e"]);
    }

    #[test]
    fn a_reexport_is_an_import_if_its_module_uses_the_name() {
        let parent = |uses| format!("mod b; pub(crate) use b::{{B, C}}; pub struct A; {uses}");
        let child = ("crate::b", "use super::A;");
        let found = |uses| circles(&[("crate", &parent(uses)), child]);
        assert!(found("fn f(a: A) { a.B() }").is_empty());
        assert_eq!(found("fn f(b: B) {}"), ["crate crate::b"]);
    }
}
