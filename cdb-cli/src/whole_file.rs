//! Files that hold data of the container, and their replacement as a whole.

use std::fs::{self, OpenOptions};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use serde::Serialize;

/// Returns options that create a file for its owner alone: an export holds the data of all users.
pub(crate) fn private() -> OpenOptions {
    let mut options = OpenOptions::new();
    #[cfg(unix)]
    {
        use std::os::unix::fs::OpenOptionsExt as _;
        options.mode(0o600);
    }
    options
}

/// Writes `content` as JSON to the file. A process that is killed, and a machine that loses its power,
/// leaves the former content or the new one.
pub(crate) fn replace(file: &Path, content: &impl Serialize) -> io::Result<()> {
    let content = serde_json::to_vec(content)?;
    let mut new = file.as_os_str().to_owned();
    new.push(".new");
    let new = PathBuf::from(new);
    let mut out = private()
        .write(true)
        .create(true)
        .truncate(true)
        .open(&new)?;
    out.write_all(&content)?;
    // The new name must not become durable before the content.
    out.sync_all()?;
    fs::rename(&new, file)?;
    sync_folder(file)
}

/// Makes the name of a file durable.
pub(crate) fn sync_folder(file: &Path) -> io::Result<()> {
    if cfg!(unix) {
        let folder = file.parent().filter(|path| !path.as_os_str().is_empty());
        fs::File::open(folder.unwrap_or(Path::new(".")))?.sync_all()?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_replaced_as_a_whole_and_its_owner_alone_reads_it() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("position");
        for content in [vec![1, 2, 3], vec![4]] {
            replace(&file, &content).unwrap();
            let read: Vec<u8> = serde_json::from_slice(&fs::read(&file).unwrap()).unwrap();
            assert_eq!(read, content);
        }
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt as _;
            let mode = fs::metadata(&file).unwrap().permissions().mode();
            assert_eq!(mode & 0o777, 0o600);
        }
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }
}
