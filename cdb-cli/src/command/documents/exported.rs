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
    beside(file, ".progress")
}

/// The end of the names of files that hold part of an export.
const PART: &str = ".part";

/// Returns the file that holds the documents of an export to this file until it is complete.
pub(super) fn part_file(file: &Path) -> PathBuf {
    beside(file, PART)
}

fn beside(file: &Path, end: &str) -> PathBuf {
    let mut name = file.as_os_str().to_owned();
    name.push(end);
    name.into()
}

/// # Errors
/// When the file holds part of an export that was interrupted, or is missing because of this.
pub(super) fn refuse_part(file: &Path) -> Result<(), Failure> {
    let name = file.to_string_lossy();
    let (part, whole) = match name.strip_suffix(PART) {
        Some(whole) => (name.to_string(), whole.to_owned()),
        // Earlier versions wrote to the file itself.
        None if progress_file(file).exists() && file.exists() => {
            (name.to_string(), name.to_string())
        }
        None if part_file(file).exists() && !file.exists() => {
            (part_file(file).display().to_string(), name.to_string())
        }
        None => return Ok(()),
    };
    Err(Failure::usage(format!(
        "{part} is part of an export that was interrupted: complete it with `export --out {whole} --resume`, or import what it has with \
         `import {part} --partial`"
    )))
}

impl fmt::Display for Exported {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "exported {}", counted(self.documents, "document"))
    }
}
