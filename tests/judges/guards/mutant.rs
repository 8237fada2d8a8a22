//! A mutant: the source without one guard, and the searches that should find what it breaks.
//!
//! A file of `mutants/` has the promise of the guard in its first line, then the searches, then what is replaced where:
//!
//! ```text
//! A commit renews its lock.
//! test: cdb-tests suite a_throttled_commit_keeps_its_lock
//! simulate: --seed 4 --days 0.005 --only waves
//! file: provider/src/turn/commit/renewal.rs
//! --- guard
//!     renew(lock).await;
//! --- mutant
//! --- end
//! ```
//!
//! Text instead of line numbers, so that a mutant fits as long as its guard is there.

use std::collections::BTreeMap;
use std::fs;
use std::ops::Range;
use std::path::{Path, PathBuf};

/// What a mutant replaces in each file, and by what.
pub(crate) type Places = BTreeMap<PathBuf, Vec<Place>>;

/// A part of a file, and the text that replaces it.
pub(crate) type Place = (Range<usize>, String);

/// Where something is searched.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Search {
    /// The tests of a package's target whose names contain the filter; the target `lib` is its library.
    Test {
        package: String,
        target: String,
        filter: String,
    },
    /// A run of the simulation.
    Simulate(Vec<String>),
}

impl Search {
    fn parse(line: &str) -> Option<Self> {
        if let Some(arguments) = line.strip_prefix("simulate: ") {
            let arguments = arguments.split_whitespace().map(str::to_owned);
            return Some(Self::Simulate(arguments.collect()));
        }
        let mut words = line.strip_prefix("test: ")?.split_whitespace();
        let mut next = || words.next().map(str::to_owned);
        Some(Self::Test {
            package: next()?,
            target: next()?,
            filter: next()?,
        })
    }

    /// Returns what the search runs, without what it searches.
    pub(crate) fn program(&self) -> String {
        match self {
            Self::Test {
                package, target, ..
            } => format!("{package} {target}"),
            Self::Simulate(_) => "simulate".to_owned(),
        }
    }

    /// Returns how the table names the search.
    pub(crate) fn name(&self) -> String {
        match self {
            Self::Test { filter, .. } => format!("`{filter}`"),
            Self::Simulate(arguments) => format!("`cargo simulate {}`", arguments.join(" ")),
        }
    }
}

/// A part of a file and what stands there in the mutant.
#[derive(Debug)]
struct Replacement {
    file: PathBuf,
    guard: String,
    mutant: String,
}

#[derive(Debug)]
pub(crate) struct Mutant {
    /// The name of its file.
    pub(crate) name: String,
    /// The promise of the guard.
    pub(crate) promise: String,
    pub(crate) searches: Vec<Search>,
    replacements: Vec<Replacement>,
}

impl Mutant {
    /// Reads all mutants, in the order of their names.
    ///
    /// # Errors
    /// Names the file that is not a mutant, and why.
    pub(crate) fn all(folder: &Path) -> Result<Vec<Self>, String> {
        let failed = |error| format!("{}: {error}", folder.display());
        let mut files = Vec::new();
        for entry in fs::read_dir(folder).map_err(failed)? {
            files.push(entry.map_err(failed)?.path());
        }
        files.sort();
        files.iter().map(|file| Self::read(file)).collect()
    }

    fn read(file: &Path) -> Result<Self, String> {
        let failed = |why: &str| format!("{}: {why}", file.display());
        let text = fs::read_to_string(file).map_err(|error| failed(&error.to_string()))?;
        let name = file.file_stem().unwrap_or_default().to_string_lossy();
        Self::parse(&name, &text).map_err(|why| failed(&why))
    }

    fn parse(name: &str, text: &str) -> Result<Self, String> {
        let mut lines = text.lines();
        let promise = lines.next().unwrap_or_default().to_owned();
        let (mut searches, mut replacements) = (Vec::new(), Vec::new());
        while let Some(line) = lines.next() {
            if let Some(search) = Search::parse(line) {
                searches.push(search);
                continue;
            }
            let file = line.strip_prefix("file: ");
            let file = file.ok_or_else(|| format!("`{line}` is no search and no file"))?;
            if lines.next() != Some("--- guard") {
                return Err(format!("`--- guard` is missing after `{line}`"));
            }
            replacements.push(Replacement {
                file: file.into(),
                guard: until(&mut lines, "--- mutant")?,
                mutant: until(&mut lines, "--- end")?,
            });
        }
        if searches.is_empty() || replacements.is_empty() {
            return Err("it has no search, or replaces nothing".to_owned());
        }
        Ok(Self {
            name: name.to_owned(),
            promise,
            searches,
            replacements,
        })
    }

    /// Returns where the mutant differs from the source under `root`, and by which text, by file.
    ///
    /// # Errors
    /// When a guard is not in its file, or is there twice.
    pub(crate) fn places(&self, root: &Path) -> Result<Places, String> {
        let mut places = Places::new();
        for Replacement {
            file,
            guard,
            mutant,
        } in &self.replacements
        {
            let failed = |why: &str| format!("{}: {}: {why}", self.name, file.display());
            let text = fs::read_to_string(root.join(file));
            let text = text.map_err(|error| failed(&error.to_string()))?;
            let mut found = text.match_indices(guard.as_str());
            let Some((at, _)) = found.next() else {
                return Err(failed("the guard is not there: change the mutant with it"));
            };
            if found.next().is_some() {
                return Err(failed("the guard is there twice: give more of its lines"));
            }
            let of_file = places.entry(file.clone()).or_default();
            of_file.push((at..at + guard.len(), mutant.clone()));
        }
        Ok(places)
    }

    /// Returns the files of the source under `root` that differ in the mutant, with their text there.
    ///
    /// # Errors
    /// When a guard is not in its file, or is there twice.
    pub(crate) fn files(&self, root: &Path) -> Result<Vec<(PathBuf, String)>, String> {
        let changed = self.places(root)?.into_iter().map(|(file, mut places)| {
            let text = fs::read_to_string(root.join(&file));
            let mut text = text.map_err(|error| format!("{}: {error}", file.display()))?;
            places.sort_by_key(|(place, _)| place.start);
            for (place, mutant) in places.iter().rev() {
                text.replace_range(place.clone(), mutant);
            }
            Ok((file, text))
        });
        changed.collect()
    }
}

/// Returns the lines before this one.
fn until<'a>(lines: &mut impl Iterator<Item = &'a str>, end: &str) -> Result<String, String> {
    let mut text = String::new();
    for line in lines {
        if line == end {
            return Ok(text);
        }
        text.push_str(line);
        text.push('\n');
    }
    Err(format!("`{end}` is missing"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_mutant_fits_the_source() {
        let here = Path::new(env!("CARGO_MANIFEST_DIR"));
        let mutants = Mutant::all(&here.join("mutants")).expect("all are mutants");
        let root = here.join("../../..");
        let wrong: Vec<_> = mutants
            .iter()
            .filter_map(|mutant| mutant.files(&root).err())
            .collect();
        assert!(wrong.is_empty(), "{}", wrong.join("\n"));
        assert!(!mutants.is_empty());
    }

    #[test]
    fn a_mutant_says_what_is_missing() {
        let parse = |text| Mutant::parse("name", text).map(|mutant| mutant.searches.len());
        let whole = "A promise.\ntest: a suite b\nfile: c\n--- guard\nx\n--- mutant\n--- end\n";
        assert_eq!(parse(whole), Ok(1));
        let error = parse("A promise.\ntest: a suite b\n").expect_err("it replaces nothing");
        assert!(error.contains("replaces nothing"), "{error}");
        let error = parse("A promise.\nfile: c\nx\n").expect_err("there is no guard");
        assert!(error.contains("--- guard"), "{error}");
        let error = parse("A promise.\nfile: c\n--- guard\nx\n").expect_err("there is no mutant");
        assert!(error.contains("--- mutant"), "{error}");
        let error = parse("A promise.\ntests: c\n").expect_err("it is no search");
        assert!(error.contains("tests: c"), "{error}");
    }
}
