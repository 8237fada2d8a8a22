//! Microsoft's own clients against the emulator: the tests are in `tests/`, the checks of
//! `cargo xtask test-clients` in `clients/`. This library installs the clients.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::Duration;

/// How long a failed installation is not retried: under nextest every test is a process of its own.
const RETRY_AFTER: Duration = Duration::from_secs(300);

/// Installs the packages of a requirements file into the virtual environment `name` below `folder`.
/// Returns its interpreter.
///
/// # Errors
/// What is missing.
pub fn python(folder: &Path, name: &str, requirements: &str) -> Result<PathBuf, String> {
    let requirements = source(requirements);
    let home = folder.join(name);
    let binaries = home.join(if cfg!(windows) { "Scripts" } else { "bin" });
    once(folder, &home, &read(&requirements), || {
        let python = std::env::var("PYTHON").unwrap_or_else(|_| "python3".to_owned());
        let mut venv = Command::new(&python);
        venv.args(["-m", "venv", "--clear"]).arg(&home);
        explain(&format!("{python} -m venv"), venv.output())?;
        let options = [
            "--quiet",
            "--disable-pip-version-check",
            "--retries=1",
            "--timeout=15",
        ];
        let mut pip = Command::new(binaries.join("python"));
        pip.args(["-m", "pip", "install"]).args(options);
        pip.arg("--requirement").arg(requirements);
        explain("pip install", pip.output())
    })?;
    Ok(binaries.join("python"))
}

/// Installs the packages that a directory locks into the directory `name` below `folder`. Returns
/// the directory with `node_modules`.
///
/// # Errors
/// What is missing.
pub fn javascript(folder: &Path, name: &str, from: &str) -> Result<PathBuf, String> {
    let files = ["package.json", "package-lock.json"];
    let home = folder.join(name);
    let sources = files.map(|file| source(from).join(file));
    let wanted = sources.iter().map(|path| read(path)).collect::<String>();
    explain(
        "node --version",
        Command::new("node").arg("--version").output(),
    )?;
    once(folder, &home, &wanted, || {
        fs::create_dir_all(&home).expect("the target directory can be written");
        for (source, file) in sources.iter().zip(files) {
            fs::copy(source, home.join(file)).expect("the target directory can be written");
        }
        let options = ["ci", "--no-audit", "--no-fund", "--loglevel=error"];
        let npm = Command::new("npm")
            .args(options)
            .current_dir(&home)
            .output();
        explain("npm ci", npm)
    })?;
    Ok(home)
}

/// Returns the path of a file of this package.
pub fn source(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(name)
}

/// Runs an installation into `home`, unless it has installed `wanted` before. Other processes wait.
fn once(
    folder: &Path,
    home: &Path,
    wanted: &str,
    install: impl FnOnce() -> Result<(), String>,
) -> Result<(), String> {
    fs::create_dir_all(folder).expect("the target directory can be written");
    let sibling = |ending| home.with_extension(ending);
    // The lock ends with the file.
    let lock = File::create(sibling("lock")).expect("the target directory can be written");
    lock.lock().expect("locks are supported");
    let ready = home.join("installed.txt");
    if fs::read_to_string(&ready).is_ok_and(|installed| installed == wanted) {
        return Ok(());
    }
    let failure = sibling("failed");
    if let Some(reason) = recent(&failure) {
        return Err(reason);
    }
    let made = install();
    match &made {
        Ok(()) => fs::write(ready, wanted),
        Err(reason) => fs::write(failure, reason),
    }
    .expect("the target directory can be written");
    made
}

fn recent(failure: &Path) -> Option<String> {
    let age = failure.metadata().ok()?.modified().ok()?.elapsed().ok()?;
    (age < RETRY_AFTER).then(|| fs::read_to_string(failure).ok())?
}

/// Returns the last line that a failed command printed.
fn explain(what: &str, ran: std::io::Result<Output>) -> Result<(), String> {
    match ran {
        Err(error) => Err(format!("{what} does not start: {error}")),
        Ok(ran) if ran.status.success() => Ok(()),
        Ok(ran) => {
            let output = [ran.stdout, ran.stderr].concat();
            let lines = String::from_utf8_lossy(&output).into_owned();
            let last = lines.trim().lines().last().unwrap_or("no reason given");
            Err(format!("{what} failed: {last}"))
        }
    }
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).expect("the sources of this package can be read")
}
