//! A wrong system clock for one process, which can be set while the process runs.
//!
//! duroxide and the client read the system's time. The only way to change it for them is a small
//! library in C that is loaded before the process's C library.

use std::fs;
use std::io::Write as _;
use std::path::PathBuf;
use std::process::Stdio;

use tempfile::TempDir;
use tokio::io::AsyncWriteExt as _;
use tokio::process::Command;

/// The source of the library.
const SOURCE: &str = include_str!("clock.c");

/// A clock that can be set.
#[derive(Debug)]
pub(crate) struct Clock {
    directory: TempDir,
}

impl Clock {
    /// Creates a clock that is `ahead` milliseconds ahead.
    pub(crate) async fn ahead(millis: i64) -> Result<Self, String> {
        if !cfg!(target_os = "linux") {
            return Err("the clock of a single process can be set on Linux only".to_owned());
        }
        let directory = TempDir::new().map_err(|error| error.to_string())?;
        let clock = Self { directory };
        clock.set(millis)?;
        clock.compile().await?;
        Ok(clock)
    }

    /// Sets the clock while the process runs.
    pub(crate) fn set(&self, millis: i64) -> Result<(), String> {
        // Write in place: the process has mapped the file and must not see it empty.
        let mut options = fs::OpenOptions::new();
        let file = options.write(true).create(true).truncate(false);
        let written = file
            .open(self.file())
            .and_then(|mut file| file.write_all(&millis.to_ne_bytes()));
        written.map_err(|error| error.to_string())
    }

    /// Makes a process use this clock.
    pub(crate) fn given_to(&self, command: &mut Command) {
        command
            .env("LD_PRELOAD", self.library())
            .env("CHAOS_CLOCK", self.file());
    }

    fn file(&self) -> PathBuf {
        self.directory.path().join("ahead")
    }

    fn library(&self) -> PathBuf {
        self.directory.path().join("clock.so")
    }

    async fn compile(&self) -> Result<(), String> {
        let failed = |error: std::io::Error| format!("cannot run cc: {error}");
        let mut compiler = Command::new("cc")
            .args(["-shared", "-fPIC", "-O1", "-x", "c", "-o"])
            .arg(self.library())
            .arg("-")
            .stdin(Stdio::piped())
            .spawn()
            .map_err(failed)?;
        if let Some(mut input) = compiler.stdin.take() {
            input.write_all(SOURCE.as_bytes()).await.map_err(failed)?;
        }
        let ended = compiler.wait().await.map_err(failed)?;
        if ended.success() {
            Ok(())
        } else {
            Err(format!("cc could not compile the clock: {ended}"))
        }
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    /// Returns the time that a process reads, in seconds.
    async fn told(clock: Option<&Clock>) -> i64 {
        let mut command = Command::new("date");
        command.arg("+%s");
        if let Some(clock) = clock {
            clock.given_to(&mut command);
        }
        let told = command.output().await.expect("a date").stdout;
        let told = String::from_utf8(told).expect("a number");
        told.trim().parse().expect("a number")
    }

    #[tokio::test]
    async fn a_process_uses_its_given_clock_offset() {
        let clock = Clock::ahead(30_000).await.expect("a clock");
        for ahead in [30_000, -30_000] {
            clock.set(ahead).expect("it is set");
            let off = told(Some(&clock)).await - told(None).await;
            assert!((off - ahead / 1000).abs() <= 5, "{off} s");
        }
    }
}
