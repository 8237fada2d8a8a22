//! `cargo package-emulator`: packages of the emulator for users of other languages, in
//! target/packages: an npm package, a Python wheel, and the context of a container image. With
//! `--test` both packages are installed as a user would, and tested.
//!
//! Needs npm, and Python 3 with venv, and their registries. It builds for Linux on x86-64.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

type Failure = Box<dyn std::error::Error>;

const TARGET: &str = "x86_64-unknown-linux-gnu";

/// The oldest system on which a static program runs, as Python names it.
const PLATFORM: &str = "manylinux_2_17_x86_64";

/// The most that the image may hold.
const MOST_BYTES: u64 = 25_000_000;

fn main() -> Result<(), Failure> {
    let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("packages");
    let root = sources.join("../..").canonicalize()?;
    let packages = root.join("target/packages");
    if packages.exists() {
        fs::remove_dir_all(&packages)?;
    }
    let program = static_program(&root)?;
    let bytes = program.metadata()?.len();
    println!("a static program of {:.1} MB", megabytes(bytes));

    let docker = packages.join("docker");
    copy(&sources.join("docker"), &docker)?;
    fs::copy(&program, docker.join("cdb-emulator"))?;
    if bytes > MOST_BYTES {
        return Err(format!("the image would have {:.1} MB", megabytes(bytes)).into());
    }
    println!("{}: docker build, or docker compose up", docker.display());

    let npm = npm_package(&sources.join("npm"), &packages, &program)?;
    println!("{}", npm.display());
    let wheel = wheel(&sources.join("python"), &packages, &program)?;
    println!("{}", wheel.display());

    if std::env::args().any(|argument| argument == "--test") {
        test_npm(&sources.join("npm/test"), &packages, &npm)?;
        test_wheel(&sources.join("python/tests"), &packages, &wheel)?;
    }
    Ok(())
}

/// Builds the program without dependencies on libraries of the system, so that it runs on every
/// distribution, and in an empty image.
fn static_program(root: &Path) -> Result<PathBuf, Failure> {
    let folder = root.join("target/static");
    let mut cargo = Command::new(env!("CARGO"));
    cargo
        .args([
            "build",
            "--release",
            "-p",
            "cdb-emulator",
            "--bin",
            "cdb-emulator",
            "--features",
            "scripts",
        ])
        .args(["--target", TARGET, "--target-dir"])
        .arg(&folder)
        .env(
            "RUSTFLAGS",
            "-C target-feature=+crt-static -C strip=symbols",
        )
        .current_dir(root);
    run(&mut cargo)?;
    Ok(folder.join(TARGET).join("release/cdb-emulator"))
}

fn npm_package(sources: &Path, packages: &Path, program: &Path) -> Result<PathBuf, Failure> {
    let folder = packages.join("npm");
    copy(sources, &folder)?;
    add_program(program, &folder.join("bin"))?;
    run(Command::new("npm")
        .args(["pack", "--silent", "--pack-destination", ".."])
        .current_dir(&folder))?;
    only_file(packages, "tgz")
}

fn wheel(sources: &Path, packages: &Path, program: &Path) -> Result<PathBuf, Failure> {
    let folder = packages.join("python");
    copy(sources, &folder)?;
    add_program(program, &folder.join("src/cdb_emulator/bin"))?;
    let python = venv(&packages.join("build"), &["wheel"])?;
    run(Command::new(&python)
        .args(["-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir"])
        .arg(packages)
        .arg(&folder))?;
    // The module is pure Python, but the program is not.
    let pure = only_file(packages, "whl")?;
    run(Command::new(&python)
        .args([
            "-m",
            "wheel",
            "tags",
            "--remove",
            "--platform-tag",
            PLATFORM,
        ])
        .arg(&pure))?;
    only_file(packages, "whl")
}

fn test_npm(tests: &Path, packages: &Path, package: &Path) -> Result<(), Failure> {
    let folder = packages.join("npm-test");
    copy(tests, &folder)?;
    fs::write(folder.join("package.json"), r#"{ "private": true }"#)?;
    run(Command::new("npm")
        .args([
            "install",
            "--silent",
            "--no-audit",
            "--no-fund",
            "@azure/cosmos@4",
        ])
        .arg(package)
        .current_dir(&folder))?;
    run(Command::new("node").arg("--test").current_dir(&folder))
}

fn test_wheel(tests: &Path, packages: &Path, wheel: &Path) -> Result<(), Failure> {
    let wheel = wheel.to_str().ok_or("the path of the wheel is no text")?;
    let folder = packages.join("python-test");
    let python = venv(&folder, &["pytest", "azure-cosmos", wheel])?;
    let binaries = python.parent().ok_or("an interpreter has a folder")?;
    let path = std::env::var("PATH").unwrap_or_default();
    run(Command::new(&python)
        .args(["-m", "pytest", "--quiet", "-p", "no:cacheprovider"])
        .arg(tests)
        .env("PATH", format!("{}:{path}", binaries.display())))
}

/// Makes a virtual environment with packages, and returns its interpreter.
fn venv(folder: &Path, packages: &[&str]) -> Result<PathBuf, Failure> {
    run(Command::new("python3").args(["-m", "venv"]).arg(folder))?;
    let python = folder.join("bin/python");
    run(Command::new(&python)
        .args([
            "-m",
            "pip",
            "install",
            "--quiet",
            "--disable-pip-version-check",
        ])
        .args(packages))?;
    Ok(python)
}

fn add_program(program: &Path, folder: &Path) -> Result<(), Failure> {
    fs::create_dir_all(folder)?;
    // The copy is executable like the program.
    fs::copy(program, folder.join("cdb-emulator"))?;
    Ok(())
}

/// Copies a folder with its folders.
fn copy(from: &Path, to: &Path) -> Result<(), Failure> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let target = to.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            copy(&entry.path(), &target)?;
        } else {
            fs::copy(entry.path(), target)?;
        }
    }
    Ok(())
}

fn only_file(folder: &Path, ending: &str) -> Result<PathBuf, Failure> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.extension().is_some_and(|known| known == ending) {
            found.push(path);
        }
    }
    match <[PathBuf; 1]>::try_from(found) {
        Ok([path]) => Ok(path),
        Err(found) => Err(format!("{} files .{ending} in place of one", found.len()).into()),
    }
}

fn run(command: &mut Command) -> Result<(), Failure> {
    let name = format!("{command:?}");
    let status = command
        .status()
        .map_err(|error| format!("{name} does not start: {error}"))?;
    if status.success() {
        return Ok(());
    }
    Err(format!("{name} failed").into())
}

#[expect(clippy::cast_precision_loss, reason = "shown with one digit")]
fn megabytes(bytes: u64) -> f64 {
    bytes as f64 / 1e6
}
