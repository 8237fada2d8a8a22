//! What the crates export: few names at a root, and no name at two places.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use super::source::{after_group, after_item, leaves_of};
use super::tokens::tokens;

/// How many names the root of each library has at most. Modules say what their names are for.
const AT_ROOT: [(&str, usize); 7] = [
    ("cdb-model", 15),
    ("cdb-client", 15),
    ("cdb-coordination", 15),
    ("cdb-work", 45),
    ("cdb-emulator", 17),
    ("cdb-cli", 3),
    ("provider", 25),
];

/// Names that are public at several places, with the reason.
const SEVERAL_TIMES: [(&str, &str); 6] = [
    (
        "InMemoryLeaseProvider",
        "programs for `duroxide-cdb` import it from the provider",
    ),
    (
        "LeaseProvider",
        "programs for `duroxide-cdb` import it from the provider",
    ),
    (
        "MembershipConfig",
        "a field of the provider's configuration",
    ),
    ("MembershipView", "the provider's answer about its members"),
    ("SlotSet", "in the methods of `LeaseProvider`"),
    ("MemberState", "in `MembershipView`"),
];

/// Repeats names of all crates by design.
const PRELUDE: &str = "prelude";

/// The public names of a crate, each with the modules that have it.
#[derive(Debug, Default)]
struct PublicNames(BTreeSet<(String, String)>);

impl PublicNames {
    fn of(library: &str) -> Self {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("..")
            .join(library)
            .join("src");
        let mut names = Self::default();
        names.read("", &folder.join("lib.rs"), &folder);
        names
    }

    fn read(&mut self, module: &str, file: &Path, folder: &Path) {
        let text = std::fs::read_to_string(file)
            .unwrap_or_else(|error| panic!("{}: {error}", file.display()));
        let tokens = tokens(&text);
        let tokens: Vec<&str> = tokens.iter().map(String::as_str).collect();
        self.items(module, &tokens, folder);
    }

    /// Adds the public items of a module; `folder` has the files of its modules.
    fn items(&mut self, module: &str, mut tokens: &[&str], folder: &Path) {
        if module == PRELUDE {
            return;
        }
        while let Some(first) = tokens.first() {
            tokens = match tokens {
                ["#", "[", "cfg", "(", "test" | "doctest", ..]
                | ["#", "[", "cfg", "(", "all", "(", "test", ..]
                | ["#", "[", "doc", "(", "hidden", ..] => after_item(after_attributes(tokens)),
                ["#", ..] => after_attribute(tokens),
                ["pub", "use", tree @ ..] => {
                    let mut leaves = Vec::new();
                    let rest = leaves_of(tree, &Vec::new(), &mut leaves);
                    for (path, name) in leaves {
                        self.reexport(module, &path, &name, folder);
                    }
                    rest
                }
                ["pub", "mod", name, "{", ..] => {
                    let rest = after_group(&tokens[3..]);
                    let inner = &tokens[4..tokens.len() - rest.len() - 1];
                    self.items(&join(module, name), inner, &folder.join(name));
                    rest
                }
                ["pub", "mod", name, ..] => {
                    self.module(&join(module, name), &folder.join(name));
                    after_item(tokens)
                }
                ["pub", item @ ..] => {
                    self.add(module, name_of(item));
                    after_item(tokens)
                }
                _ if *first == ";" => &tokens[1..],
                _ => after_item(tokens),
            };
        }
    }

    /// Adds a re-exported name, or the names of a re-exported module of this crate.
    fn reexport(&mut self, module: &str, path: &[String], name: &str, folder: &Path) {
        let file: PathBuf = path
            .iter()
            .fold(folder.to_owned(), |at, part| at.join(part));
        if exists(&file) {
            self.module(&join(module, name), &file);
        } else if path.len() > 1 {
            self.add(module, Some(name));
        }
    }

    fn module(&mut self, module: &str, at: &Path) {
        let file = at.with_extension("rs");
        let file = if file.exists() {
            file
        } else {
            at.join("mod.rs")
        };
        self.read(module, &file, at);
    }

    fn add(&mut self, module: &str, name: Option<&str>) {
        if let Some(name) = name {
            self.0.insert((name.to_owned(), module.to_owned()));
        }
    }
}

fn exists(module: &Path) -> bool {
    module.with_extension("rs").exists() || module.join("mod.rs").exists()
}

fn join(module: &str, name: &str) -> String {
    if module.is_empty() {
        return name.to_owned();
    }
    format!("{module}::{name}")
}

/// The name that a public item declares; `None` for `pub(crate)` and other restrictions.
fn name_of<'a>(item: &[&'a str]) -> Option<&'a str> {
    match item {
        ["(", ..] => None,
        ["async" | "unsafe", rest @ ..] => name_of(rest),
        ["const", "fn", name, ..] | [_, name, ..] => Some(name),
        _ => None,
    }
}

fn after_attribute<'a, 'b>(tokens: &'b [&'a str]) -> &'b [&'a str] {
    match tokens {
        ["#", "!", group @ ..] | ["#", group @ ..] => after_group(group),
        _ => tokens,
    }
}

fn after_attributes<'a, 'b>(mut tokens: &'b [&'a str]) -> &'b [&'a str] {
    while tokens.first() == Some(&"#") {
        tokens = after_attribute(tokens);
    }
    tokens
}

#[test]
fn the_root_of_a_library_has_few_names() {
    for (library, most) in AT_ROOT {
        let names = PublicNames::of(library).0;
        let at_root: Vec<String> = names
            .into_iter()
            .filter(|(_, module)| module.is_empty())
            .map(|(name, _)| name)
            .collect();
        assert!(
            at_root.len() <= most,
            "{library} has {} names at its root, at most {most} are allowed; move some to a module: {}",
            at_root.len(),
            at_root.join(" ")
        );
    }
}

#[test]
fn no_name_is_public_at_two_places() {
    let mut places: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for (library, _) in AT_ROOT {
        for (name, module) in PublicNames::of(library).0 {
            let place = format!("{library} {module}");
            places
                .entry(name)
                .or_default()
                .push(place.trim_end().to_owned());
        }
    }
    assert!(places.len() > 300, "only {} names are found", places.len());
    places.retain(|_, places| places.len() > 1);
    let excepted = SEVERAL_TIMES.map(|(name, _)| name);
    let unneeded: Vec<&str> = excepted
        .into_iter()
        .filter(|name| !places.contains_key(*name))
        .collect();
    assert!(unneeded.is_empty(), "public once: {unneeded:?}");
    places.retain(|name, _| !excepted.contains(&name.as_str()));
    assert!(places.is_empty(), "rename or move these names: {places:#?}");
}

#[test]
fn public_items_are_found() {
    let source = r"
        //! A crate.
        #![cfg_attr(docsrs, feature(doc_cfg))]
        /// Documented.
        #[derive(Debug)]
        pub struct A<T>(pub T, u8);
        #[doc(hidden)]
        #[derive(Debug)]
        pub struct Hidden { pub field: u8 }
        pub(crate) fn internal() {}
        mod private { pub fn b() {} }
        pub use other::{C, d as D};
        pub use other as whole;
        pub const fn e() -> u8 { 0 }
        pub const F: u8 = 0;
        pub mod g { pub async fn h() {} }
        impl<T> A<T> { pub fn method() {} }
    ";
    let tokens = tokens(source);
    let tokens: Vec<&str> = tokens.iter().map(String::as_str).collect();
    let mut names = PublicNames::default();
    names.items("", &tokens, Path::new("nowhere"));
    let found: Vec<String> = names
        .0
        .iter()
        .map(|(name, module)| join(module, name))
        .collect();
    assert_eq!(found, ["A", "C", "D", "F", "e", "g::h"]);
}
