//! Files that hold data of the container, and their replacement as a whole.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, BufWriter, Write};
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
    let mut new = NewFile::create(file)?;
    new.write_all(&content)?;
    new.complete()
}

/// A file that appears under its name when it is complete. Until then its content is in `FILE.new`. The
/// next attempt overwrites what a killed process left there.
#[derive(Debug)]
pub(crate) struct NewFile {
    out: BufWriter<File>,
    new: PathBuf,
    file: PathBuf,
    is_complete: bool,
}

impl NewFile {
    /// # Errors
    /// When `FILE.new` cannot be written, or another process writes it.
    pub(crate) fn create(file: &Path) -> io::Result<Self> {
        let mut new = file.as_os_str().to_owned();
        new.push(".new");
        let new = PathBuf::from(new);
        let out = private()
            .write(true)
            .create(true)
            .truncate(false)
            .open(&new)?;
        match out.try_lock() {
            // Some file systems have no locks.
            Ok(()) | Err(TryLockError::Error(_)) => {}
            Err(TryLockError::WouldBlock) => {
                let error = format!(
                    "another process writes {}; wait for it, or name another file",
                    new.display()
                );
                return Err(io::Error::new(io::ErrorKind::WouldBlock, error));
            }
        }
        // Not before: it may be the content of another process.
        out.set_len(0)?;
        Ok(Self {
            out: BufWriter::new(out),
            new,
            file: file.to_owned(),
            is_complete: false,
        })
    }

    /// Gives the file its name, in place of an older one.
    pub(crate) fn complete(mut self) -> io::Result<()> {
        self.out.flush()?;
        // The new name must not become durable before the content.
        self.out.get_ref().sync_all()?;
        fs::rename(&self.new, &self.file)?;
        self.is_complete = true;
        sync_folder(&self.file)
    }
}

impl Write for NewFile {
    fn write(&mut self, buffer: &[u8]) -> io::Result<usize> {
        self.out.write(buffer)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

impl Drop for NewFile {
    fn drop(&mut self) {
        if !self.is_complete {
            // It is part of a file; the failure that ended it is reported.
            drop(fs::remove_file(&self.new));
        }
    }
}

/// Makes the name of a file durable.
pub(crate) fn sync_folder(file: &Path) -> io::Result<()> {
    if cfg!(unix) {
        let folder = file.parent().filter(|path| !path.as_os_str().is_empty());
        File::open(folder.unwrap_or(Path::new(".")))?.sync_all()?;
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

    #[test]
    fn a_file_appears_complete_and_one_process_at_a_time_writes_it() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("export");
        // A killed process has left more than the next one writes.
        fs::write(folder.path().join("export.new"), "half a file").unwrap();
        let mut first = NewFile::create(&file).unwrap();
        let refused = NewFile::create(&file).unwrap_err().to_string();
        assert!(refused.starts_with("another process writes "), "{refused}");
        first.write_all(b"whole").unwrap();
        assert!(!file.exists());
        first.complete().unwrap();
        assert_eq!(fs::read(&file).unwrap(), b"whole");
        drop(NewFile::create(&folder.path().join("other")).unwrap());
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }
}
