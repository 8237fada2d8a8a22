//! All mutants in one source: the body of a function with mutants is there once for each and once as it is, and a
//! variable of the environment chooses. So one build serves all searches.
//!
//! A mutant that changes something outside of a function, or a function whose type its body decides (`const`,
//! `impl` in the result), has a build of its own.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::ops::Range;
use std::path::{Path, PathBuf};

use syn::spanned::Spanned as _;
use syn::visit::{self, Visit};

use crate::mutant::{Mutant, Place};

/// The variable that names the mutant to run.
pub(crate) const CHOSEN: &str = "CDB_MUTANT";

/// The files of a source with mutants to choose from.
#[derive(Debug, Default)]
pub(crate) struct Woven {
    pub(crate) files: BTreeMap<PathBuf, String>,
    /// The names of the mutants in it.
    pub(crate) mutants: BTreeSet<String>,
}

/// The bodies of a function that mutants replace it with, by mutant.
type Bodies = BTreeMap<String, String>;

impl Woven {
    /// Weaves all mutants that can be chosen at run time into the files under `root`.
    ///
    /// # Errors
    /// When a guard is not in its file, or the file is not Rust.
    pub(crate) fn of(root: &Path, mutants: &[&Mutant]) -> Result<Self, String> {
        let mut woven = Self::default();
        let mut sources = BTreeMap::new();
        let mut changed: BTreeMap<PathBuf, BTreeMap<(usize, usize), Bodies>> = BTreeMap::new();
        for mutant in mutants {
            let mut bodies = BTreeMap::new();
            let mut fits = true;
            for (file, places) in mutant.places(root)? {
                if !sources.contains_key(&file) {
                    sources.insert(file.clone(), Source::read(&root.join(&file))?);
                }
                let found = sources[&file].bodies(&places);
                fits &= found.is_some();
                bodies.insert(file, found.unwrap_or_default());
            }
            if !fits {
                continue;
            }
            woven.mutants.insert(mutant.name.clone());
            for (file, bodies) in bodies {
                let of_file = changed.entry(file).or_default();
                for (range, body) in bodies {
                    let of_function = of_file.entry(range).or_default();
                    of_function.insert(mutant.name.clone(), body);
                }
            }
        }
        for (file, functions) in changed {
            let text = sources[&file].with(&functions);
            woven.files.insert(file, text);
        }
        Ok(woven)
    }
}

/// A file and its outermost functions.
struct Source {
    text: String,
    functions: Functions,
}

impl Source {
    fn read(file: &Path) -> Result<Self, String> {
        let failed = |error: &dyn std::fmt::Display| format!("{}: {error}", file.display());
        let text = std::fs::read_to_string(file).map_err(|error| failed(&error))?;
        let parsed = syn::parse_file(&text).map_err(|error| failed(&error))?;
        let mut functions = Functions::default();
        functions.visit_file(&parsed);
        Ok(Self { text, functions })
    }

    /// Returns the changed bodies, by their place; `None` if a place is outside of a function that can be doubled.
    fn bodies(&self, places: &[Place]) -> Option<BTreeMap<(usize, usize), String>> {
        let mut inside: BTreeMap<(usize, usize), Vec<&Place>> = BTreeMap::new();
        for place in places {
            let body = self
                .functions
                .0
                .iter()
                .find(|body| body.start < place.0.start && place.0.end < body.end)?;
            inside
                .entry((body.start, body.end))
                .or_default()
                .push(place);
        }
        let bodies = inside.into_iter().map(|((start, end), mut places)| {
            places.sort_by_key(|(range, _)| range.start);
            let mut body = self.text[start..end].to_owned();
            for (range, text) in places.iter().rev() {
                body.replace_range(range.start - start..range.end - start, text);
            }
            ((start, end), body)
        });
        Some(bodies.collect())
    }

    /// Returns the text in which each of these functions chooses its body.
    fn with(&self, functions: &BTreeMap<(usize, usize), Bodies>) -> String {
        let mut text = self.text.clone();
        for ((start, end), bodies) in functions.iter().rev() {
            let mut choice = "{\n".to_owned();
            for (mutant, body) in bodies {
                // Writing to a string does not fail.
                let _ = write!(
                    choice,
                    "if {{ static CHOSEN: std::sync::LazyLock<bool> = std::sync::LazyLock::new(|| \
                     std::env::var_os(\"{CHOSEN}\").is_some_and(|it| it == \"{mutant}\")); *CHOSEN }} {body} else "
                );
            }
            choice += &self.text[*start..*end];
            choice += "\n}";
            text.replace_range(start..end, &choice);
        }
        text
    }
}

/// The places of the bodies of functions that can be doubled.
#[derive(Default)]
struct Functions(Vec<Range<usize>>);

impl Functions {
    fn add(&mut self, signature: &syn::Signature, body: &syn::Block) {
        let mut hidden = Hidden(false);
        hidden.visit_return_type(&signature.output);
        if signature.constness.is_none() && !hidden.0 {
            self.0.push(body.span().byte_range());
        }
    }
}

impl<'ast> Visit<'ast> for Functions {
    fn visit_item_fn(&mut self, function: &'ast syn::ItemFn) {
        self.add(&function.sig, &function.block);
    }

    fn visit_impl_item_fn(&mut self, function: &'ast syn::ImplItemFn) {
        self.add(&function.sig, &function.block);
    }

    fn visit_trait_item_fn(&mut self, function: &'ast syn::TraitItemFn) {
        if let Some(body) = &function.default {
            self.add(&function.sig, body);
        }
    }
}

/// Whether a type is known by its traits only.
struct Hidden(bool);

impl<'ast> Visit<'ast> for Hidden {
    fn visit_type_impl_trait(&mut self, hidden: &'ast syn::TypeImplTrait) {
        self.0 = true;
        visit::visit_type_impl_trait(self, hidden);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOURCE: &str = "const A: u8 = 1;\nimpl B {\n    fn c(&self) -> u8 {\n        guard();\n        2\n    }\n}\n\
                          fn d() -> impl Fn() {\n    other();\n    || ()\n}\n";

    fn source() -> Source {
        let parsed = syn::parse_file(SOURCE).expect("it is Rust");
        let mut functions = Functions::default();
        functions.visit_file(&parsed);
        Source {
            text: SOURCE.to_owned(),
            functions,
        }
    }

    fn place(guard: &str, mutant: &str) -> Place {
        let start = SOURCE.find(guard).expect("it is there");
        (start..start + guard.len(), mutant.to_owned())
    }

    #[test]
    fn a_function_chooses_its_body() {
        let source = source();
        let bodies = source.bodies(&[place("        guard();\n", "")]);
        let bodies = bodies.expect("it is in a function");
        assert_eq!(bodies.len(), 1);
        let (range, body) = bodies.into_iter().next().expect("there is one");
        assert_eq!(body, "{\n        2\n    }");
        let functions = [(range, [("m".to_owned(), body)].into())].into();
        let text = source.with(&functions);
        assert!(syn::parse_file(&text).is_ok(), "{text}");
        assert!(text.contains("it == \"m\""), "{text}");
        assert!(text.contains("guard();"), "{text}");
    }

    #[test]
    fn what_is_outside_of_a_function_or_decides_its_type_is_not_doubled() {
        for guard in ["const A: u8 = 1;\n", "    other();\n"] {
            assert_eq!(source().bodies(&[place(guard, "")]), None, "{guard}");
        }
    }
}
