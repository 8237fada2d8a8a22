//! What happened in a run: a hash of all of it, and the latest requests.

use std::collections::VecDeque;
use std::hash::Hasher as _;
use std::time::Duration;

use bytes::Bytes;

/// The number of requests that are kept.
const KEPT: usize = 20_000;

/// The longest part of a request that is kept, in bytes.
const LONGEST_PART: usize = 4096;

/// The characters of a body that the outcome of a run shows.
const SHOWN: usize = 300;

/// A request and its answer, or an event of the simulation.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    pub(crate) at: Duration,
    pub(crate) node: u32,
    pub(crate) what: String,
    pub(crate) body: Bytes,
    /// The status of the answer; 0 without an answer.
    pub(crate) status: u16,
}

/// The trace of a run.
#[derive(Debug, Default)]
pub(crate) struct Trace {
    #[expect(
        clippy::disallowed_types,
        reason = "only traces of one program are compared"
    )]
    hash: std::hash::DefaultHasher,
    count: u64,
    /// The time of the latest entry.
    reached: Duration,
    latest: VecDeque<Entry>,
    /// Whether every entry is printed.
    prints: bool,
}

impl Trace {
    pub(crate) fn add(&mut self, mut entry: Entry) {
        self.hash.write_u128(entry.at.as_nanos());
        self.hash.write_u32(entry.node);
        self.hash.write(entry.what.as_bytes());
        self.hash.write(&entry.body);
        self.hash.write_u16(entry.status);
        self.count += 1;
        self.reached = entry.at;
        if self.prints {
            println!("{}", entry.line(usize::MAX));
        }
        if self.latest.len() == KEPT {
            self.latest.pop_front();
        }
        if entry.body.len() > LONGEST_PART {
            // A copy, so that the whole body is not kept.
            entry.body = Bytes::copy_from_slice(&entry.body[..LONGEST_PART]);
        }
        self.latest.push_back(entry);
    }

    /// Prints every entry from now on.
    pub(crate) fn print(&mut self) {
        self.prints = true;
    }

    pub(crate) fn hash(&self) -> u64 {
        self.hash.finish()
    }

    /// Returns the number of requests.
    pub(crate) fn count(&self) -> u64 {
        self.count
    }

    /// Returns the time of the latest entry.
    pub(crate) fn reached(&self) -> Duration {
        self.reached
    }

    /// Returns the latest entries that contain one of these words, as lines; all of the latest
    /// without words.
    pub(crate) fn about(&self, words: &[String], most: usize) -> Vec<String> {
        let mentions = |entry: &&Entry| {
            let body = String::from_utf8_lossy(&entry.body);
            let has = |word: &String| entry.what.contains(word) || body.contains(word);
            words.is_empty() || words.iter().any(has)
        };
        let mut found: Vec<String> = self
            .latest
            .iter()
            .rev()
            .filter(mentions)
            .take(most)
            .map(|entry| entry.line(SHOWN))
            .collect();
        found.reverse();
        found
    }
}

impl Entry {
    /// Returns the entry with so many characters of the body.
    fn line(&self, shown: usize) -> String {
        let Self {
            node, what, status, ..
        } = self;
        let at = self.at.as_secs_f64();
        let body: String = String::from_utf8_lossy(&self.body)
            .chars()
            .take(shown)
            .collect();
        format!("{at:12.3} s  node {node}  {what}  {status}  {body}")
    }
}
