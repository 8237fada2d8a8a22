//! `cargo xtask guards`: removes one guard at a time from a copy of the source, and searches for the fault.
//!
//! A mechanism has a guard against what it could do wrong. If nothing finds the guard's removal, the guard is
//! superfluous, or a judge is missing. Each search must find nothing in the source as it is. One build has nearly all
//! mutants, of which each run has one.
//!
//! Names select mutants. `--list` only lists them; `--seconds n` is the longest time of a search, 600 by default;
//! `--docs` writes the table into the README beside this file.

mod mutant;
mod site;
mod weave;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use mutant::{Mutant, Search};
use site::{Found, Site};
use weave::Woven;

const BEGIN: &str = "<!-- cargo xtask guards --docs -->\n";
const END: &str = "<!-- end -->\n";

const SECONDS: u64 = 600;

#[derive(Debug, Default)]
struct Arguments {
    names: Vec<String>,
    only_lists: bool,
    docs: bool,
    most: Duration,
}

impl Arguments {
    fn parse(mut arguments: impl Iterator<Item = String>) -> Result<Self, String> {
        let mut parsed = Self {
            most: Duration::from_secs(SECONDS),
            ..Self::default()
        };
        while let Some(argument) = arguments.next() {
            match argument.as_str() {
                "--list" => parsed.only_lists = true,
                "--docs" => parsed.docs = true,
                "--seconds" => {
                    let seconds = arguments.next().and_then(|text| text.parse().ok());
                    let seconds = seconds.ok_or("--seconds needs a whole number")?;
                    parsed.most = Duration::from_secs(seconds);
                }
                option if option.starts_with("--") => {
                    return Err(format!(
                        "`{option}` is not known; there are --list, --seconds n, --docs"
                    ));
                }
                _ => parsed.names.push(argument),
            }
        }
        if parsed.docs && !parsed.names.is_empty() {
            return Err("--docs needs all mutants".to_owned());
        }
        Ok(parsed)
    }
}

fn main() -> ExitCode {
    match Arguments::parse(std::env::args().skip(1)).and_then(|arguments| run(&arguments)) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

/// Returns whether all mutants were found.
fn run(arguments: &Arguments) -> Result<bool, String> {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let root: PathBuf = here
        .join("../../..")
        .canonicalize()
        .map_err(|e| e.to_string())?;
    let all = Mutant::all(&here.join("mutants"))?;
    let is_chosen =
        |mutant: &&Mutant| arguments.names.is_empty() || arguments.names.contains(&mutant.name);
    let chosen: Vec<_> = all.iter().filter(is_chosen).collect();
    if let Some(unknown) = arguments
        .names
        .iter()
        .find(|name| all.iter().all(|mutant| mutant.name != **name))
    {
        return Err(format!("no mutant is named `{unknown}`; see --list"));
    }
    if arguments.only_lists {
        for mutant in chosen {
            println!("{}: {}", mutant.name, mutant.promise);
        }
        return Ok(true);
    }
    let table = search(&root, &chosen, arguments.most)?;
    println!(
        "{} not found; {:.0} seconds of a processor",
        table.missed,
        table.total.as_secs_f64()
    );
    if arguments.docs {
        write_into(&root.join("tests/judges/guards/README.md"), &table.text())?;
    }
    for search in &table.useless {
        println!("{search} fails without a mutant, and was not used");
    }
    Ok(table.missed == 0 && table.useless.is_empty())
}

/// Searches for each mutant: first for those that one build has, then for the others.
fn search(root: &Path, chosen: &[&Mutant], most: Duration) -> Result<Table, String> {
    let site = Site::of(root.to_owned());
    site.restore()?;
    let woven = Woven::of(root, chosen)?;
    for (file, text) in &woven.files {
        site.write(file, text.as_bytes())?;
    }
    let mut programs = Programs::default();
    let useless = check(&site, chosen, &mut programs, most)?;
    let is_woven = |mutant: &&&Mutant| woven.mutants.contains(&mutant.name);
    let mut table = Table {
        useless,
        ..Table::default()
    };
    for mutant in chosen.iter().filter(is_woven) {
        let found = try_out(&site, mutant, &mut programs, &table.useless, most)?;
        table.add(mutant, found);
    }
    for mutant in chosen.iter().filter(|mutant| !is_woven(mutant)) {
        site.restore()?;
        for (file, text) in mutant.files(root)? {
            site.write(&file, text.as_bytes())?;
        }
        let mut own = Programs::default();
        let found = try_out(&site, mutant, &mut own, &table.useless, most)?;
        table.add(mutant, found);
    }
    Ok(table)
}

/// Runs all searches without a mutant. Returns the names of those that find something: they would find it in each
/// mutant, too, so they are not used.
fn check(
    site: &Site,
    chosen: &[&Mutant],
    programs: &mut Programs,
    most: Duration,
) -> Result<BTreeSet<String>, String> {
    let searches: BTreeSet<&Search> = chosen.iter().flat_map(|it| &it.searches).collect();
    let mut useless = BTreeSet::new();
    for search in searches {
        let program = programs.of(site, search)?;
        let (found, took) = site.search(search, &program, "", most)?;
        let found = match found {
            Found::Nothing => "",
            Found::Fault => ", and fails without a mutant",
            Found::Time => ", and has not ended without a mutant",
        };
        println!(
            "{}: {:.0} seconds{found}",
            search.name(),
            took.as_secs_f64()
        );
        if !found.is_empty() {
            useless.insert(search.name());
        }
    }
    Ok(useless)
}

/// The programs of one source, each built once.
#[derive(Debug, Default)]
struct Programs(BTreeMap<String, PathBuf>);

impl Programs {
    fn of(&mut self, site: &Site, search: &Search) -> Result<PathBuf, String> {
        if let Some(built) = self.0.get(&search.program()) {
            return Ok(built.clone());
        }
        let program = site.program(search)?;
        self.0.insert(search.program(), program.clone());
        Ok(program)
    }
}

/// What found each mutant.
#[derive(Debug, Default)]
struct Table {
    /// The searches that find something without a mutant.
    useless: BTreeSet<String>,
    rows: BTreeMap<String, String>,
    total: Duration,
    missed: usize,
}

impl Table {
    fn add(&mut self, mutant: &Mutant, (found, took): (Option<String>, Duration)) {
        self.total += took;
        self.missed += usize::from(found.is_none());
        let row = format!(
            "| {} | {} | {:.0} |\n",
            mutant.promise,
            found.as_deref().unwrap_or("**nothing**"),
            took.as_secs_f64()
        );
        print!("{}: {row}", mutant.name);
        self.rows.insert(mutant.name.clone(), row);
    }

    fn text(&self) -> String {
        let rows: String = self.rows.values().map(String::as_str).collect();
        format!("| without it | found by | seconds |\n|---|---|--:|\n{rows}")
    }
}

/// Returns what found the mutant, and the processor time of the searches.
fn try_out(
    site: &Site,
    mutant: &Mutant,
    programs: &mut Programs,
    useless: &BTreeSet<String>,
    most: Duration,
) -> Result<(Option<String>, Duration), String> {
    let mut took = Duration::ZERO;
    for search in &mutant.searches {
        if useless.contains(&search.name()) {
            continue;
        }
        let named = |error| format!("{}: {error}", mutant.name);
        let program = programs.of(site, search).map_err(named)?;
        let searched = site.search(search, &program, &mutant.name, most);
        let (found, time) = searched.map_err(named)?;
        took += time;
        match found {
            Found::Fault => return Ok((Some(search.name()), took)),
            Found::Time => return Ok((Some(format!("{}, without end", search.name())), took)),
            Found::Nothing => {}
        }
    }
    Ok((None, took))
}

fn write_into(page: &Path, table: &str) -> Result<(), String> {
    let failed = |why: String| format!("{}: {why}", page.display());
    let text = std::fs::read_to_string(page).map_err(|error| failed(error.to_string()))?;
    let parts = text.split_once(BEGIN).and_then(|(before, rest)| {
        let (_, after) = rest.split_once(END)?;
        Some((before, after))
    });
    let (before, after) = parts.ok_or_else(|| failed(format!("`{}` is missing", BEGIN.trim())))?;
    std::fs::write(page, format!("{before}{BEGIN}{table}{END}{after}"))
        .map_err(|error| failed(error.to_string()))
}
