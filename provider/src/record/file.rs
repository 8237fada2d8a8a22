//! The file of a record: a JSON object in each line, written before the call goes on.
//!
//! No call fails because of its record: the first failed write is remembered for `finish`.

use std::fs::{File, OpenOptions, create_dir_all, read_to_string};
use std::io::{self, Write};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use parking_lot::Mutex;
use serde::Serialize;
use tokio::time::Instant;

use super::text::bounded;

/// The version of the form of the lines.
const FORMAT: u32 = 1;

/// Writes the record of a process. Clones write to the same file. It has inputs and results as the runtime
/// sees them, not encrypted; on Unix, only its owner may read it.
#[derive(Clone, Debug)]
pub struct Recorder {
    process: Arc<str>,
    file: Arc<RecordFile>,
}

#[derive(Debug)]
struct RecordFile {
    file: Mutex<File>,
    calls: AtomicU64,
    began: Instant,
    /// The time of the monotonic clock at which the file began.
    offset: Duration,
    clock: String,
    failed: Mutex<Option<io::Error>>,
}

/// How a call ended, as far as its caller knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Outcome {
    /// It took effect.
    Ok,
    /// It was refused and has no effect: a permanent error.
    Definite,
    /// It may have taken effect: a retryable error.
    Unknown,
    /// The caller dropped the call before its answer.
    None,
}

#[derive(Serialize)]
#[serde(tag = "kind", rename_all = "lowercase")]
enum Line<'a, T> {
    Begin {
        format: u32,
        clock: &'a str,
    },
    Call {
        call: u64,
        op: &'a str,
        args: &'a T,
    },
    Answer {
        call: u64,
        outcome: Outcome,
        #[serde(skip_serializing_if = "Option::is_none")]
        result: Option<T>,
        #[serde(skip_serializing_if = "Option::is_none")]
        error: Option<&'a str>,
    },
    Note {
        note: &'a str,
        #[serde(skip_serializing_if = "Option::is_none")]
        instance: Option<&'a str>,
    },
}

/// A line without arguments and results.
type Bare<'a> = Line<'a, ()>;

#[derive(Serialize)]
struct Timed<'a, T> {
    #[serde(flatten)]
    line: Line<'a, T>,
    process: &'a str,
    /// Microseconds of a monotonic clock.
    mono: u64,
    /// Milliseconds since 1970.
    wall: u64,
}

impl Recorder {
    /// Creates the file of a process. Processes of one machine have a common monotonic clock.
    ///
    /// # Errors
    /// If the file exists or cannot be written.
    pub fn create(path: impl AsRef<Path>, process: &str) -> io::Result<Self> {
        let machine = machine_clock();
        let alone = || (format!("{process}-{}", wall()), Duration::ZERO);
        let (clock, offset) = machine.unwrap_or_else(alone);
        Self::begin(path.as_ref(), process, clock, offset)
    }

    /// Creates the file `process-id.jsonl` in a folder, with the id of the operating system.
    ///
    /// # Errors
    /// If the folder cannot be created, or the file exists or cannot be written.
    pub fn in_folder(folder: impl AsRef<Path>, process: &str) -> io::Result<Self> {
        create_dir_all(&folder)?;
        let process = format!("{process}-{}", std::process::id());
        Self::create(folder.as_ref().join(format!("{process}.jsonl")), &process)
    }

    /// Creates the file of a process whose monotonic clock begins at zero. Times are compared with
    /// those of other files of the same clock.
    ///
    /// # Errors
    /// If the file exists or cannot be written.
    pub fn with_clock(path: impl AsRef<Path>, process: &str, clock: &str) -> io::Result<Self> {
        let clock = clock.to_owned();
        Self::begin(path.as_ref(), process, clock, Duration::ZERO)
    }

    fn begin(path: &Path, process: &str, clock: String, offset: Duration) -> io::Result<Self> {
        let mut options = OpenOptions::new();
        options.append(true).create_new(true);
        // It has payloads as the runtime sees them, before they are encrypted.
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        let file = options.open(path)?;
        let recorder = Self {
            process: process.into(),
            file: Arc::new(RecordFile {
                file: Mutex::new(file),
                calls: AtomicU64::new(0),
                began: Instant::now(),
                offset,
                clock,
                failed: Mutex::default(),
            }),
        };
        recorder.open();
        recorder.finish()?;
        Ok(recorder)
    }

    /// Returns a recorder of another process of a simulation, in the same file.
    pub fn process(&self, name: &str) -> Self {
        let other = Self {
            process: name.into(),
            file: self.file.clone(),
        };
        other.open();
        other
    }

    /// Notes that everything has come to rest: what was accepted has been handled. The judge then
    /// applies the rules of completeness.
    pub fn rest(&self) {
        self.note("rest", None);
    }

    /// Notes that an instance waits, so that it need not end before the rest.
    pub fn waits(&self, instance: &str) {
        self.note("waiting", Some(instance));
    }

    /// Notes that an operator has changed, deleted or started an instance without duroxide. The
    /// judge leaves it out.
    pub fn changed(&self, instance: &str) {
        self.note("changed", Some(instance));
    }

    /// Notes that ended instances are deleted after a while, so that their ids can be used again.
    pub fn retention(&self) {
        self.note("retention", None);
    }

    /// Reports the first line that could not be written, once.
    ///
    /// # Errors
    /// If a line could not be written.
    pub fn finish(&self) -> io::Result<()> {
        self.file.failed.lock().take().map_or(Ok(()), Err)
    }

    pub(super) fn call(&self, op: &str, args: &impl Serialize) -> u64 {
        let call = self.file.calls.fetch_add(1, Ordering::Relaxed);
        self.write(Line::Call { call, op, args });
        call
    }

    pub(super) fn answer<T: Serialize>(
        &self,
        call: u64,
        outcome: Outcome,
        result: Option<T>,
        error: Option<&str>,
    ) {
        self.write(Line::Answer {
            call,
            outcome,
            result,
            error,
        });
    }

    fn open(&self) {
        let clock = &self.file.clock;
        self.write(Bare::Begin {
            format: FORMAT,
            clock,
        });
    }

    fn note(&self, note: &str, instance: Option<&str>) {
        self.write(Bare::Note { note, instance });
    }

    fn write(&self, line: Line<'_, impl Serialize>) {
        let file = &*self.file;
        let elapsed = file.offset + file.began.elapsed();
        let mut json = bounded(&Timed {
            line,
            process: &self.process,
            mono: u64::try_from(elapsed.as_micros()).unwrap_or(u64::MAX),
            wall: wall(),
        });
        json.push(b'\n');
        // One write: a killed process leaves one incomplete line at most.
        if let Err(error) = file.file.lock().write_all(&json) {
            file.failed.lock().get_or_insert(error);
        }
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "the judge compares the machine's clocks, and decides nothing here"
)]
fn wall() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |it| u64::try_from(it.as_millis()).unwrap_or(u64::MAX))
}

/// Returns the name of this machine's monotonic clock and its time, which Linux tells in hundredths
/// of a second.
fn machine_clock() -> Option<(String, Duration)> {
    let boot = read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
    let uptime = read_to_string("/proc/uptime").ok()?;
    let seconds = uptime.split(' ').next()?.parse().ok()?;
    Some((
        boot.trim().to_owned(),
        Duration::try_from_secs_f64(seconds).ok()?,
    ))
}

#[cfg(all(test, unix))]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[tokio::test]
    async fn only_the_owner_may_read_a_record() {
        let folder = std::env::temp_dir().join(format!("private-record-{}", std::process::id()));
        let recorder = Recorder::in_folder(&folder, "shop").expect("a file");
        recorder.finish().expect("it is written");
        let files = std::fs::read_dir(&folder).expect("a folder");
        for file in files {
            let mode = file.and_then(|file| file.metadata()).expect("a file");
            assert_eq!(mode.permissions().mode() & 0o777, 0o600);
        }
        std::fs::remove_dir_all(folder).expect("it exists");
    }
}
