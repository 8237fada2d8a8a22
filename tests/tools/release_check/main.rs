//! `cargo xtask release-check`: checks everything that a release needs, up to a dry run of its upload.
//!
//! `cargo xtask release-check --gate` is for every commit. It builds only the packages that depend on no
//! unpublished crate but each other, and names without failing what only a release fills in.

mod metadata;

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use metadata::{Package, Workspace};

type Failure = Box<dyn std::error::Error>;

/// The packages that the gate builds from their archives: few dependencies, so it takes seconds.
/// The first depends on no other package of the workspace.
const LEAVES: [&str; 2] = ["cdb-derive", "cdb-model"];
/// Files that each package contains.
const NEEDED: [&str; 4] = ["Cargo.toml", "LICENSE", "README.md", "src/lib.rs"];
/// The largest package, unpacked. Test data would exceed it.
const MOST_BYTES: u64 = 2_000_000;

/// What the checks found.
#[derive(Default)]
struct Findings {
    /// Contradicts the rules of the project or of the registry, at any time.
    faults: Vec<String>,
    /// Is to be filled in before the release.
    open: Vec<String>,
}

fn main() -> Result<ExitCode, Failure> {
    let gate = match std::env::args().nth(1).as_deref() {
        None => false,
        Some("--gate") => true,
        Some(other) => {
            return Err(format!("unknown option {other}; the only one is --gate").into());
        }
    };
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../..");
    let workspace = Workspace::read(&root)?;
    let order = workspace.publication_order()?;
    let names: Vec<&str> = order.iter().map(|package| &*package.name).collect();
    println!("in the order of publication: {}", names.join(" "));

    let mut found = Findings::default();
    for package in &order {
        package.check(&mut found);
        check_files(&root, package, &mut found)?;
    }
    check_release(&root, &order, &names, &mut found)?;
    compare_interfaces(&root, &mut found)?;
    build_packages(&root, gate, &mut found)?;
    Ok(report(&found, gate))
}

fn report(found: &Findings, gate: bool) -> ExitCode {
    for fault in &found.faults {
        println!("wrong: {fault}");
    }
    for open in &found.open {
        println!("before the release: {open}");
    }
    if found.faults.is_empty() && (gate || found.open.is_empty()) {
        println!("release check passed");
        ExitCode::SUCCESS
    } else {
        println!("release check failed");
        ExitCode::FAILURE
    }
}

/// Runs cargo in the workspace. Returns whether it succeeded.
fn cargo(root: &Path, arguments: &[&str]) -> Result<bool, Failure> {
    println!("$ cargo {}", arguments.join(" "));
    let mut command = Command::new(env!("CARGO"));
    Ok(command
        .current_dir(root)
        .args(arguments)
        .status()?
        .success())
}

/// The output of a program.
fn output(root: &Path, program: &str, arguments: &[&str]) -> Result<String, Failure> {
    let mut command = Command::new(program);
    let output = command.current_dir(root).args(arguments).output()?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        return Err(format!("{program} {}: {said}", arguments.join(" ")).into());
    }
    Ok(String::from_utf8(output.stdout)?)
}

/// Lists the files of a package: the needed ones are there, tests are not, and all are small.
fn check_files(root: &Path, package: &Package, found: &mut Findings) -> Result<(), Failure> {
    let name = &*package.name;
    let list = ["package", "-p", name, "--list", "--allow-dirty", "--quiet"];
    let list = output(root, env!("CARGO"), &list)?;
    // On Windows, cargo lists paths with `\`.
    let files: Vec<String> = list.lines().map(|file| file.replace('\\', "/")).collect();
    for needed in NEEDED {
        if !files.iter().any(|file| file == needed) {
            found
                .faults
                .push(format!("{name} is packaged without {needed}"));
        }
    }
    if let Some(test) = files.iter().find(|file| file.starts_with("tests/")) {
        found.faults.push(format!(
            "{name} ships its tests, such as {test}; correct its `include`"
        ));
    }
    let folder = package.folder();
    // cargo generates some of the listed files.
    let sizes = files
        .iter()
        .flat_map(|file| std::fs::metadata(folder.join(file)));
    let bytes: u64 = sizes.map(|file| file.len()).sum();
    println!("{name}: {} files, {bytes} bytes", files.len());
    if bytes > MOST_BYTES {
        found.faults.push(format!(
            "{name} contains {bytes} bytes; correct its `include`"
        ));
    }
    let text = |path: PathBuf| std::fs::read_to_string(path).unwrap_or_default();
    // On Windows, git checks links out as files with the path.
    if cfg!(unix) && text(folder.join("LICENSE")) != text(root.join("LICENSE")) {
        found.faults.push(format!(
            "{name}/LICENSE differs from LICENSE; make it a link to ../LICENSE"
        ));
    }
    Ok(())
}

/// What the crates have in common: version, repository, a section of the changelog, and the workflow
/// that publishes them.
fn check_release(
    root: &Path,
    order: &[&Package],
    names: &[&str],
    found: &mut Findings,
) -> Result<(), Failure> {
    let version = &order[0].version;
    if let Some(other) = order.iter().find(|package| package.version != *version) {
        let (name, other) = (&other.name, &other.version);
        found.faults.push(format!(
            "{name} has version {other}, others {version}; use `version.workspace = true`"
        ));
    }
    let without = order.iter().filter(|package| package.repository.is_none());
    let without: Vec<&str> = without.map(|package| &*package.name).collect();
    if !without.is_empty() {
        found.open.push(format!(
            "no `repository` in {}; name it in `workspace.package`, and in each as `repository.workspace = true`",
            without.join(" ")
        ));
    }
    let changelog = std::fs::read_to_string(root.join("CHANGELOG.md"))?;
    if !has_section(&changelog, version) {
        found.open.push(format!(
            "CHANGELOG.md has no section `## [{version}] - DATE` with entries; rename Unreleased"
        ));
    }
    let workflow = std::fs::read_to_string(root.join(".github/workflows/release.yml"))?;
    let list = format!("for crate in {}; do", names.join(" "));
    if !workflow.contains(&list) {
        found.faults.push(format!(
            ".github/workflows/release.yml does not publish in order; write `{list}`"
        ));
    }
    Ok(())
}

/// Returns `true` if the changelog has a dated section of the version that is not empty.
fn has_section(changelog: &str, version: &str) -> bool {
    let heading = format!("## [{version}] - ");
    changelog
        .split_once(&heading)
        .map(|(_, rest)| rest.split("\n## ").next().unwrap_or(rest))
        .is_some_and(|section| section.lines().any(|line| line.starts_with("- ")))
}

/// Compares the public interfaces with those of the last release.
fn compare_interfaces(root: &Path, found: &mut Findings) -> Result<(), Failure> {
    let has_tool = || output(root, env!("CARGO"), &["semver-checks", "--version"]).is_ok();
    let tag = match last_release(root) {
        Ok(Some(tag)) if has_tool() => tag,
        Ok(None) => {
            println!("interfaces: not compared, because there is no release yet (no tag v…)");
            return Ok(());
        }
        Ok(Some(tag)) => {
            found.open.push(format!(
                "interfaces are NOT COMPARED with {tag}; cargo install --locked cargo-semver-checks"
            ));
            return Ok(());
        }
        Err(reason) => {
            found
                .open
                .push(format!("interfaces are NOT COMPARED: {reason}"));
            return Ok(());
        }
    };
    let against = ["semver-checks", "--workspace", "--baseline-rev", &tag];
    if !cargo(root, &against)? {
        found.faults.push(format!(
            "the interfaces break those of {tag}; raise the version"
        ));
    }
    Ok(())
}

/// Returns the tag of the last release; `None` if there is no release yet.
///
/// # Errors
/// When git cannot say it: there is no repository, or the clone lacks earlier commits and their tags.
fn last_release(root: &Path) -> Result<Option<String>, Failure> {
    let tags = ["tag", "--list", "v[0-9]*", "--merged", "HEAD"];
    if !output(root, "git", &tags)?.is_empty() {
        let last = ["describe", "--tags", "--abbrev=0", "--match", "v[0-9]*"];
        return Ok(Some(output(root, "git", &last)?.trim().to_owned()));
    }
    let shallow = output(root, "git", &["rev-parse", "--is-shallow-repository"])?;
    if shallow.trim() == "true" {
        return Err("the clone is shallow; run `git fetch --unshallow --tags`".into());
    }
    Ok(None)
}

/// Whether this cargo packages an unpublished package together with one that depends on it: 1.90 and
/// newer do. `version` is the output of `cargo --version`.
fn packages_dependents(version: &str) -> bool {
    let number = version.split_whitespace().nth(1).unwrap_or_default();
    let mut parts = number.split('.').map_while(|part| part.parse::<u32>().ok());
    (parts.next(), parts.next()) >= (Some(1), Some(90))
}

/// Builds packages from their archives, as users of the registry will.
fn build_packages(root: &Path, gate: bool, found: &mut Findings) -> Result<(), Failure> {
    let mut arguments = if gate {
        vec!["package", "--allow-dirty"]
    } else {
        // Packages, builds and compares with the registry, in order, and uploads nothing.
        vec!["publish", "--workspace", "--dry-run"]
    };
    arguments.extend(["--locked", "--quiet"]);
    let mut leaves = &LEAVES[..];
    let version = output(root, env!("CARGO"), &["--version"])?;
    if !packages_dependents(&version) {
        let version = version.trim();
        if !gate {
            found.faults.push(format!(
                "{version} cannot check a release; use 1.90 or newer"
            ));
            return Ok(());
        }
        leaves = &LEAVES[..1];
        println!(
            "{version} packages {} alone; 1.90 and newer also {}",
            LEAVES[0], LEAVES[1]
        );
    }
    if gate {
        arguments.extend(leaves.iter().flat_map(|leaf| ["-p", leaf]));
    }
    if !cargo(root, &arguments)? {
        found
            .faults
            .push("a package does not build alone; the output of cargo says why".to_owned());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_needs_a_dated_section_with_entries() {
        let changelog = "# Changelog\n\n## [Unreleased]\n- a\n\n## [0.2.0] - 2026-12-01\n\n## [0.1.0] - 2026-11-01\n- b\n";
        assert!(has_section(changelog, "0.1.0"));
        assert!(!has_section(changelog, "0.2.0"), "without entries");
        assert!(!has_section(changelog, "0.3.0"), "without a section");
        assert!(!has_section("## [0.1.0]\n- b", "0.1.0"), "without a date");
    }

    #[test]
    fn an_unpublished_package_is_packaged_with_its_dependent_from_cargo_1_90() {
        assert!(!packages_dependents("cargo 1.89.0 (c24e10642 2025-06-23)"));
        assert!(packages_dependents(
            "cargo 1.90.0-nightly (0d8d9a2 2025-07)"
        ));
        assert!(packages_dependents("cargo 1.100.0"));
        assert!(packages_dependents("cargo 2.0.0"));
    }

    #[test]
    fn an_unknown_history_is_not_a_missing_release() {
        let no_repository = std::env::temp_dir();
        assert!(last_release(&no_repository).is_err());
    }

    #[test]
    fn binstall_looks_where_the_workflow_puts_the_archive() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../..");
        let read = |file: &str| std::fs::read_to_string(root.join(file)).expect("a file");
        let workflow = read(".github/workflows/release.yml");
        let name = workflow
            .split("name=\"")
            .nth(1)
            .and_then(|rest| rest.split('"').next());
        let name = name.expect("the name of the archive");
        let name = name
            .replace("$GITHUB_REF_NAME", "v{ version }")
            .replace("$TARGET", "{ target }");
        let cli = read("cdb-cli/Cargo.toml");
        let archive =
            format!("pkg-url = \"{{ repo }}/releases/download/v{{ version }}/{name}.tar.gz\"");
        assert!(cli.contains(&archive), "cdb-cli/Cargo.toml lacks {archive}");
        let program = format!("bin-dir = \"{name}/{{ bin }}{{ binary-ext }}\"");
        assert!(cli.contains(&program), "cdb-cli/Cargo.toml lacks {program}");
    }
}
