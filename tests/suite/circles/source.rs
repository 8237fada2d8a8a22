//! What one source file declares, imports and names.

use std::collections::BTreeSet;

use super::tokens::tokens;

/// A path as written, by its segments.
pub(super) type Path = Vec<String>;

/// One leaf of a `use` declaration.
#[derive(Debug, PartialEq)]
pub(super) struct Import {
    pub(super) path: Path,
    /// The name in this module, `*` for a glob.
    pub(super) name: String,
    pub(super) reexport: bool,
}

/// The module system's view of a source file. Items under `#[cfg(test)]` are left out.
#[derive(Debug, Default)]
pub(super) struct Source {
    /// The modules that have a file of their own, with the file that a `path` attribute names.
    pub(super) modules: Vec<(String, Option<String>)>,
    pub(super) imports: Vec<Import>,
    /// Paths of two and more segments outside of `use` declarations.
    pub(super) paths: BTreeSet<Path>,
    /// First segments of all paths outside of `use` declarations.
    pub(super) names: BTreeSet<String>,
    /// The `path` attribute of the next module.
    file: Option<String>,
}

impl Source {
    pub(super) fn parse(text: &str) -> Self {
        let tokens = tokens(text);
        let tokens: Vec<&str> = tokens.iter().map(String::as_str).collect();
        Self::of(&tokens)
    }

    fn of(mut tokens: &[&str]) -> Self {
        let mut source = Self::default();
        while !tokens.is_empty() {
            tokens = source.take(tokens);
        }
        source
    }

    /// Takes the item, path or sign at the start, and returns the tokens after it.
    fn take<'a, 'b>(&mut self, tokens: &'b [&'a str]) -> &'b [&'a str] {
        match tokens {
            ["#", "[", "cfg", "(", "test", ..] | ["#", "[", "cfg", "(", "all", "(", "test", ..] => {
                after_item(after_group(&tokens[1..]))
            }
            ["pub", "(", ..] => match after_group(&tokens[1..]) {
                ["use", tree @ ..] => self.take_use(tree, true),
                rest => rest,
            },
            ["pub", "use", tree @ ..] => self.take_use(tree, true),
            // `impl Trait + use<'a>` is not an import, and a field or a method is not a path.
            ["use", "<", rest @ ..] | [".", _, rest @ ..] => rest,
            ["use", tree @ ..] => self.take_use(tree, false),
            ["#", "[", "path", "=", file, "]", rest @ ..] => {
                self.file = Some(file.trim_matches('"').to_owned());
                rest
            }
            ["mod", name, ";", rest @ ..] => {
                self.modules.push(((*name).to_owned(), self.file.take()));
                rest
            }
            ["mod", _, "{", ..] => {
                let rest = after_group(&tokens[2..]);
                self.take_inline(&tokens[3..tokens.len() - rest.len()]);
                rest
            }
            ["::", rest @ ..] => after_path(rest),
            _ => self.take_path(tokens),
        }
    }

    fn take_use<'a, 'b>(&mut self, tree: &'b [&'a str], reexport: bool) -> &'b [&'a str] {
        let mut leaves = Vec::new();
        let rest = leaves_of(tree, &Vec::new(), &mut leaves);
        self.imports
            .extend(leaves.into_iter().map(|(path, name)| Import {
                path,
                name,
                reexport,
            }));
        rest
    }

    /// An inline module counts as part of its file, where its imports get no name.
    fn take_inline(&mut self, tokens: &[&str]) {
        let inner = Self::of(tokens);
        let imports = inner.imports.iter().map(|import| Import {
            path: from_outside(&import.path),
            name: "_".to_owned(),
            reexport: false,
        });
        self.imports.extend(imports);
        let paths = inner.paths.iter().map(|path| from_outside(path));
        self.paths.extend(paths);
    }

    fn take_path<'a, 'b>(&mut self, tokens: &'b [&'a str]) -> &'b [&'a str] {
        let rest = after_path(tokens);
        let length = tokens.len() - rest.len();
        if length == 0 {
            return &tokens[1..];
        }
        let path: Path = tokens[..length]
            .iter()
            .filter(|token| **token != "::")
            .map(|segment| (*segment).to_owned())
            .collect();
        self.names.insert(path[0].clone());
        if path.len() > 1 {
            self.paths.insert(path);
        }
        rest
    }
}

/// The path by which the module around an inline module names what the inline module does.
fn from_outside(path: &[String]) -> Path {
    match path {
        [first, second, ..] if first == "super" && second == "super" => path[1..].to_vec(),
        [first, rest @ ..] if first == "super" => [&["self".to_owned()], rest].concat(),
        _ => path.to_vec(),
    }
}

/// Collects the leaves of a `use` tree as path and name, and returns the tokens after the tree.
pub(super) fn leaves_of<'a, 'b>(
    tree: &'b [&'a str],
    prefix: &Path,
    leaves: &mut Vec<(Path, String)>,
) -> &'b [&'a str] {
    let extended = |segment: &str| [prefix.as_slice(), &[segment.to_owned()]].concat();
    match tree {
        ["{", rest @ ..] => {
            let mut rest = rest;
            loop {
                rest = match rest {
                    ["}", after @ ..] => return after,
                    [",", after @ ..] => after,
                    [] => return rest,
                    _ => leaves_of(rest, prefix, leaves),
                };
            }
        }
        // An absolute path names another crate: its first segment is empty.
        ["::", rest @ ..] => leaves_of(rest, &extended(""), leaves),
        ["*", rest @ ..] => {
            leaves.push((prefix.clone(), "*".to_owned()));
            rest
        }
        [segment, "::", rest @ ..] => leaves_of(rest, &extended(segment), leaves),
        [segment, rest @ ..] => {
            let path = match *segment {
                "self" => prefix.clone(),
                _ => extended(segment),
            };
            let (name, rest) = match rest {
                ["as", name, rest @ ..] => ((*name).to_owned(), rest),
                _ => (path.last().cloned().unwrap_or_default(), rest),
            };
            leaves.push((path, name));
            rest
        }
        [] => tree,
    }
}

/// The tokens after the path at the start; all of them, if there is none.
fn after_path<'a, 'b>(tokens: &'b [&'a str]) -> &'b [&'a str] {
    match tokens {
        [segment, "::", rest @ ..] if is_name(segment) && rest.first().is_some_and(is_name) => {
            after_path(rest)
        }
        [segment, rest @ ..] if is_name(segment) => rest,
        _ => tokens,
    }
}

fn is_name(token: impl AsRef<str>) -> bool {
    token
        .as_ref()
        .starts_with(|sign: char| sign == '_' || sign.is_alphabetic())
}

/// The tokens after the group in brackets at the start.
pub(super) fn after_group<'a, 'b>(tokens: &'b [&'a str]) -> &'b [&'a str] {
    let mut depth = 0;
    for (at, token) in tokens.iter().enumerate() {
        match *token {
            "(" | "[" | "{" => depth += 1,
            ")" | "]" | "}" => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return &tokens[at + 1..];
        }
    }
    &[]
}

/// The tokens after an item, field, variant, statement or match arm.
pub(super) fn after_item<'a, 'b>(mut tokens: &'b [&'a str]) -> &'b [&'a str] {
    let mut generics = 0;
    loop {
        tokens = match tokens {
            [] | [")" | "]" | "}", ..] => return tokens,
            [";", rest @ ..] => return rest,
            [",", rest @ ..] if generics == 0 => return rest,
            // The braces of a `use` tree do not end the declaration.
            ["{", ..] => {
                let rest = after_group(tokens);
                return rest.strip_prefix(&[";"]).unwrap_or(rest);
            }
            ["(" | "[", ..] => after_group(tokens),
            ["<", rest @ ..] => {
                generics += 1;
                rest
            }
            [">", rest @ ..] => {
                generics -= 1;
                rest
            }
            [_, rest @ ..] => rest,
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn imports(text: &str) -> Vec<String> {
        let shown = |import: &Import| {
            let mark = if import.reexport { "pub " } else { "" };
            format!("{mark}{} = {}", import.name, import.path.join("::"))
        };
        Source::parse(text).imports.iter().map(shown).collect()
    }

    fn paths(text: &str) -> Vec<String> {
        let source = Source::parse(text);
        source.paths.iter().map(|path| path.join("::")).collect()
    }

    #[test]
    fn nested_braces_are_expanded() {
        assert_eq!(
            imports("use crate::{a::{B, c::D}, e,\n f::G,};"),
            [
                "B = crate::a::B",
                "D = crate::a::c::D",
                "e = crate::e",
                "G = crate::f::G"
            ]
        );
    }

    #[test]
    fn self_in_braces_names_the_module_itself() {
        assert_eq!(
            imports("use super::a::{self, B}; use self::c::D; use super::e::{self as f};"),
            [
                "a = super::a",
                "B = super::a::B",
                "D = self::c::D",
                "f = super::e"
            ]
        );
    }

    #[test]
    fn renames_globs_and_absolute_paths_are_read() {
        assert_eq!(
            imports("use super::A as B; use super::c::*; use ::d::E; use f::G as _;"),
            ["B = super::A", "* = super::c", "E = ::d::E", "_ = f::G"]
        );
    }

    #[test]
    fn every_visibility_makes_a_reexport() {
        assert_eq!(
            imports("pub use a::B; pub(crate) use c::D; pub(in crate::x) use e::F; use g::H;"),
            ["pub B = a::B", "pub D = c::D", "pub F = e::F", "H = g::H"]
        );
        assert!(paths("pub(in crate::x) fn f() {}").is_empty());
    }

    #[test]
    fn imports_inside_of_functions_count() {
        assert_eq!(
            imports("fn f() { use super::a::B; B::new() }"),
            ["B = super::a::B"]
        );
    }

    #[test]
    fn inline_paths_are_read_to_their_last_segment() {
        assert_eq!(
            paths("fn f(x: crate::a::B<super::c::D>) -> Vec<u8> { e::g::<u8>(x); ::std::h() }"),
            ["crate::a::B", "e::g", "super::c::D"]
        );
    }

    #[test]
    fn precise_capturing_is_not_an_import() {
        assert!(imports("fn f<'a>() -> impl Fn() + use<'a> {}").is_empty());
    }

    #[test]
    fn inline_modules_count_as_part_of_their_file() {
        let source = "mod a { use super::B; use super::super::C; fn f() -> crate::D {} } use e::F;";
        assert_eq!(imports(source), ["_ = self::B", "_ = super::C", "F = e::F"]);
        assert_eq!(paths(source), ["crate::D"]);
    }

    #[test]
    fn items_for_tests_are_left_out() {
        let source = "
            #[cfg(test)] mod tests;
            #[cfg(test)] use crate::a::{B, C};
            #[cfg(test)] #[path = \"x.rs\"] mod more;
            #[cfg(all(test, unix))] mod unix { use super::*; }
            #[cfg(test)] pub(crate) fn f<A, B>(x: crate::d::E) -> [u8; 2] { crate::g::h() }
            struct S { #[cfg(test)] field: Map<crate::i::J, u8>, kept: crate::k::L }
            #[cfg(any(test, feature = \"fuzzing\"))] mod fuzzing;
            use crate::m::N;";
        assert_eq!(imports(source), ["N = crate::m::N"]);
        assert_eq!(paths(source), ["crate::k::L"]);
        let modules = Source::parse(source).modules;
        assert_eq!(modules, [("fuzzing".to_owned(), None)]);
    }

    #[test]
    fn a_module_may_name_its_file() {
        let modules = Source::parse("#[path = \"b.rs\"] #[doc(hidden)] pub mod a; mod c;").modules;
        assert_eq!(
            modules,
            [
                ("a".to_owned(), Some("b.rs".to_owned())),
                ("c".to_owned(), None)
            ]
        );
    }
}
