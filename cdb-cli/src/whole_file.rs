//! Replaces files as a whole.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use serde::Serialize;

/// Writes `content` as JSON to the file. A process that is killed leaves the former content or the
/// new one.
pub(crate) fn replace(file: &Path, content: &impl Serialize) -> io::Result<()> {
    let content = serde_json::to_vec(content)?;
    let mut new = file.as_os_str().to_owned();
    new.push(".new");
    let new = PathBuf::from(new);
    fs::write(&new, content)?;
    fs::rename(&new, file)
}
