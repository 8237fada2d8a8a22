//! The suites: where each comes from, how it is built, and what it runs on.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use cdb_emulator::Emulator;
use serde_json::Value;

/// The time after which a test program counts as hanging.
const DEADLINE: Duration = Duration::from_secs(1800);

/// A suite of tests that a crate of the registry contains.
pub struct Suite {
    pub name: &'static str,
    package: &'static str,
    version: &'static str,
    features: &'static str,
    /// The test programs to run; all if empty.
    programs: &'static [&'static str],
    /// Test programs that are left out, because they test something else.
    without: &'static [&'static str],
    /// Tests that are left out, because they run no store and take ten minutes without optimization.
    skipped: &'static [&'static str],
    /// What the tests run on, for the table.
    pub on: &'static str,
    /// Whether a failure is one of this project.
    pub is_gate: bool,
    kind: Kind,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// The tests connect to the emulator.
    Client,
    /// The tests take SQLite's store, which is replaced by ours, or by that of `duroxide-cdb`.
    Store { peer: bool },
}

const DUROXIDE: Suite = Suite {
    name: "duroxide",
    package: "duroxide",
    version: "0.1.32",
    features: "sqlite,test",
    programs: &[],
    // The tests of SQLite's store. Its validations are the suite `validation` of cdb-tests.
    without: &["sqlite_tests", "sqlite_provider_validations"],
    skipped: &["exhaustive_small_scope_queue_race_orders"],
    on: "`cdb-provider`",
    is_gate: true,
    kind: Kind::Store { peer: false },
};

pub const SUITES: &[Suite] = &[
    Suite {
        name: "azure_data_cosmos",
        package: "azure_data_cosmos",
        version: "1.1.0-beta.1",
        features: "key_auth,control_plane,fault_injection,unstable_patch",
        programs: &["emulator"],
        without: &[],
        skipped: &[],
        on: "the emulator",
        is_gate: true,
        kind: Kind::Client,
    },
    DUROXIDE,
    Suite {
        name: "duroxide-cdb",
        package: "duroxide-cdb",
        version: "0.1.10",
        features: "provider-test",
        programs: &[],
        without: &[],
        skipped: &[],
        on: "the emulator",
        is_gate: true,
        kind: Kind::Client,
    },
    Suite {
        name: "duroxide-on-peer",
        on: "`duroxide-cdb`",
        is_gate: false,
        kind: Kind::Store { peer: true },
        ..DUROXIDE
    },
];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    Passed,
    Failed,
    Ignored,
}

/// A test that ran, named by program and path.
#[derive(Debug)]
pub struct Ran {
    pub name: String,
    pub outcome: Outcome,
}

impl Suite {
    pub fn title(&self) -> String {
        format!("`{}` {}", self.package, self.version)
    }

    /// Builds and runs the suite.
    ///
    /// # Errors
    /// Why it cannot be built or run.
    pub async fn run(&self) -> Result<Vec<Ran>, String> {
        let home = self.prepare()?;
        println!("{}: building in {}", self.name, home.display());
        let programs = self.build(&home)?;
        let mut ran = Vec::new();
        for (name, path) in programs {
            // The SDK connects to an emulator by HTTPS only.
            let emulator = Emulator::builder().tls(self.package == "azure_data_cosmos");
            let emulator = emulator.start().await.map_err(|error| error.to_string())?;
            let command = self.command(&home, &path, &emulator)?;
            ran.extend(run(&name, command, &home).await?);
        }
        Ok(ran)
    }

    /// Copies the crate's sources into a directory of its own. Returns it.
    fn prepare(&self) -> Result<PathBuf, String> {
        let target = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../target/vendor");
        let home = target.join(self.name);
        let source = download(&target, self.package, self.version)?;
        let _absent = fs::remove_dir_all(&home);
        copy(&source, &home).map_err(|error| format!("{}: {error}", home.display()))?;
        let manifest = home.join("Cargo.toml");
        let mut text = read(&manifest)?;
        text += "\n[workspace]\n";
        if let Kind::Store { peer } = self.kind {
            let store = concat!(env!("CARGO_MANIFEST_DIR"), "/store");
            let features = if peer { "[\"peer\"]" } else { "[]" };
            text += &format!(
                "\n[dev-dependencies.cdb-vendor-store]\npath = \"{store}\"\nfeatures = {features}\n\
                 \n[patch.crates-io]\nduroxide = {{ path = \".\" }}\n"
            );
            replace_store(&home.join("tests"))?;
        }
        write(&manifest, &text)?;
        Ok(home)
    }

    /// Returns the names of the test programs to run.
    fn wanted(&self, home: &Path) -> Result<Vec<String>, String> {
        let mut names: Vec<String> = files(&home.join("tests"))?
            .iter()
            .filter(|path| path.extension().is_some_and(|ending| ending == "rs"))
            .filter_map(|path| Some(path.file_stem()?.to_str()?.to_owned()))
            .filter(|name| self.programs.is_empty() || self.programs.contains(&&**name))
            .filter(|name| !self.without.contains(&&**name))
            .collect();
        names.sort();
        Ok(names)
    }

    /// Builds the test programs. Returns their names and files.
    fn build(&self, home: &Path) -> Result<Vec<(String, PathBuf)>, String> {
        let mut cargo = Command::new(env!("CARGO"));
        cargo.args(["test", "--no-run", "--message-format=json"]);
        for program in self.wanted(home)? {
            cargo.args(["--test", &program]);
        }
        cargo.args(["--features", self.features]).current_dir(home);
        cargo.env("CARGO_TARGET_DIR", home.join("../target"));
        // Debug information of a hundred test programs would take ten gigabytes.
        cargo
            .env("CARGO_PROFILE_DEV_DEBUG", "0")
            .env("CARGO_INCREMENTAL", "0");
        // The SDK's tests ignore themselves without it.
        cargo.env(
            "RUSTFLAGS",
            "--cfg test_category=\"emulator\" --cap-lints=warn",
        );
        let output = cargo.stderr(Stdio::inherit()).output();
        let output = output.map_err(|error| format!("cargo does not start: {error}"))?;
        if !output.status.success() {
            return Err("cargo test --no-run failed".to_owned());
        }
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let messages = text
            .lines()
            .filter_map(|line| serde_json::from_str::<Value>(line).ok());
        let program = |message: Value| {
            let is_test = message["target"]["kind"][0] == "test";
            let name = message["target"]["name"].as_str().filter(|_| is_test)?;
            Some((name.to_owned(), message["executable"].as_str()?.into()))
        };
        Ok(messages.filter_map(program).collect())
    }

    fn command(&self, home: &Path, program: &Path, emulator: &Emulator) -> Result<Command, String> {
        let mut command = Command::new(program);
        command
            .current_dir(home)
            .env("RUST_LOG", "off")
            .env("CARGO_MANIFEST_DIR", home);
        command.env(
            "AZURE_COSMOS_CONNECTION_STRING",
            emulator.connection_string(),
        );
        for test in self.skipped {
            command.args(["--skip", test]);
        }
        command.env("AZURE_COSMOS_ALLOW_INVALID_CERT", "true");
        command.env("AZURE_COSMOS_TEST_MODE", "required");
        // Tests that accept no invalid certificate trust this one.
        let certificate = home.join("emulator.pem");
        if let Some(pem) = emulator.certificate_pem() {
            write(&certificate, pem)?;
            command.env("SSL_CERT_FILE", certificate);
        }
        command
            .env("COSMOS_ENDPOINT", emulator.endpoint())
            .env("COSMOS_KEY", emulator.key());
        Ok(command)
    }
}

/// Runs a test program. One that hangs is killed; its last test counts as failed.
async fn run(program: &str, mut command: Command, home: &Path) -> Result<Vec<Ran>, String> {
    let log = home.join(format!("{program}.log"));
    let file = fs::File::create(&log).map_err(|error| error.to_string())?;
    let errors = file.try_clone().map_err(|error| error.to_string())?;
    let mut child = command
        .stdout(file)
        .stderr(errors)
        .spawn()
        .map_err(|error| error.to_string())?;
    let begun = tokio::time::Instant::now();
    while child
        .try_wait()
        .map_err(|error| error.to_string())?
        .is_none()
    {
        if begun.elapsed() > DEADLINE {
            let _ended = child.kill();
            return Err(format!(
                "{program} hangs; its output is in {}",
                log.display()
            ));
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    let ran = outcomes(
        program,
        &String::from_utf8_lossy(&fs::read(&log).unwrap_or_default()),
    );
    let failed = ran
        .iter()
        .filter(|it| it.outcome == Outcome::Failed)
        .count();
    println!("  {program}: {} tests, {failed} failed", ran.len());
    Ok(ran)
}

/// Reads the lines that libtest prints. Output of the tests themselves may stand before the result.
fn outcomes(program: &str, text: &str) -> Vec<Ran> {
    let outcome = |line: &str| {
        let (name, result) = line.strip_prefix("test ")?.split_once(" ... ")?;
        let name = name.split(" - ").next().unwrap_or(name);
        let outcome = match result.rsplit(' ').next()? {
            _ if result.starts_with("ignored") => Outcome::Ignored,
            "ok" => Outcome::Passed,
            "FAILED" => Outcome::Failed,
            _ => return None,
        };
        let name = format!("{program}::{name}");
        Some(Ran { name, outcome })
    };
    text.lines().filter_map(outcome).collect()
}

/// Downloads a crate with its dependencies. Returns the directory of its sources.
fn download(target: &Path, package: &str, version: &str) -> Result<PathBuf, String> {
    let project = target.join("download").join(package);
    fs::create_dir_all(project.join("src")).map_err(|error| error.to_string())?;
    write(&project.join("src/lib.rs"), "")?;
    let manifest = format!(
        "[package]\nname = \"download\"\nedition = \"2024\"\n[workspace]\n\
         [dependencies]\n{package} = \"={version}\"\n"
    );
    write(&project.join("Cargo.toml"), &manifest)?;
    let mut cargo = Command::new(env!("CARGO"));
    cargo
        .args(["metadata", "--format-version=1"])
        .current_dir(&project);
    let output = cargo.stderr(Stdio::inherit()).output();
    let output = output.map_err(|error| format!("cargo does not start: {error}"))?;
    let metadata: Value = serde_json::from_slice(&output.stdout)
        .map_err(|_| format!("{package} {version} cannot be downloaded"))?;
    let packages = metadata["packages"].as_array().into_iter().flatten();
    let mut found = packages.filter(|it| it["name"] == package && it["version"] == version);
    let manifest = found.next().and_then(|it| it["manifest_path"].as_str());
    let home = manifest.and_then(|manifest| Path::new(manifest).parent());
    home.map(Path::to_owned)
        .ok_or_else(|| format!("{package} {version} has no sources"))
}

/// Lets tests that construct SQLite's store construct the replacement.
fn replace_store(directory: &Path) -> Result<(), String> {
    for path in files(directory)? {
        if path.is_dir() {
            replace_store(&path)?;
        } else if path.extension().is_some_and(|ending| ending == "rs") {
            let text = read(&path)?;
            write(&path, &with_replaced_store(&text))?;
        }
    }
    Ok(())
}

fn with_replaced_store(text: &str) -> String {
    const STORE: &str = "cdb_vendor_store::SqliteProvider";
    // A wrapper of the tests, whose name ends like that of the store.
    let text = text.replace("LongPollingSqliteProvider", "LongPollingStore");
    let text = text.replace("duroxide::providers::sqlite::SqliteProvider", STORE);
    let text = text.replace("providers::sqlite::SqliteProvider", STORE);
    let text = text.replace(&format!("{STORE}::new"), "cdb_vendor_store::new");
    let text = text.replace("SqliteProvider::new", "cdb_vendor_store::new");
    text.replace("sqlite.get_pool()", "cdb_vendor_store::get_pool()")
}

fn copy(from: &Path, to: &Path) -> std::io::Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let path = to.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            copy(&entry.path(), &path)?;
        } else {
            fs::write(path, fs::read(entry.path())?)?;
        }
    }
    Ok(())
}

fn files(directory: &Path) -> Result<Vec<PathBuf>, String> {
    let entries = fs::read_dir(directory).map_err(|error| error.to_string())?;
    Ok(entries
        .filter_map(|entry| Some(entry.ok()?.path()))
        .collect())
}

fn read(path: &Path) -> Result<String, String> {
    fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))
}

fn write(path: &Path, text: &str) -> Result<(), String> {
    fs::write(path, text).map_err(|error| format!("{}: {error}", path.display()))
}
