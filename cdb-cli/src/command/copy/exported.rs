//! What exports of a container and of instances share: the result, and the rules of their files.

use std::fmt;
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use serde::Serialize;

use super::document::line;
use crate::exit::Failure;
use crate::output::counted;

/// The result, in numbers.
#[derive(Debug, Default, Serialize)]
pub(super) struct Exported {
    pub(super) documents: u64,
}

impl Exported {
    pub(super) fn write(&mut self, json: &str, out: &mut dyn Write) -> Result<(), Failure> {
        let line = line(json).map_err(|error| {
            Failure::service(format!(
                "the service returned a document that cannot be read: {error}"
            ))
        })?;
        writeln!(out, "{line}")?;
        self.documents += 1;
        Ok(())
    }
}

/// # Errors
/// When the file exists, with what to do.
pub(super) fn refuse_existing(path: &Path, remedy: &str) -> Result<(), Failure> {
    if !path.exists() {
        return Ok(());
    }
    let name = path.display();
    Err(Failure::usage(format!("{name} exists: {remedy}")))
}

/// Removes the progress of an export to the file.
pub(super) fn remove_progress(file: &Path) -> io::Result<()> {
    remove(&progress_file(file))
}

pub(super) fn remove(file: &Path) -> io::Result<()> {
    match fs::remove_file(file) {
        // A new export, and that of an empty container, has none.
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        removed => removed,
    }
}

/// Returns the file with the progress of an export to this file.
pub(super) fn progress_file(file: &Path) -> PathBuf {
    let mut name = file.as_os_str().to_owned();
    name.push(".progress");
    name.into()
}

impl fmt::Display for Exported {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "exported {}", counted(self.documents, "document"))
    }
}
