//! What the processes have handled.

use std::collections::BTreeMap;
use std::error::Error;
use std::fmt;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

/// Milliseconds since 1970, which all processes of this machine share.
#[expect(
    clippy::disallowed_methods,
    reason = "compares times of processes on one machine"
)]
pub(crate) fn now() -> u128 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map(|since| since.as_millis()).unwrap_or_default()
}

/// When each change was handled for the first time, by site and number, and how many were repeated.
#[derive(Default)]
pub(crate) struct Handled {
    first: BTreeMap<(u64, u64), u128>,
    repeated: u64,
}

/// The judgement.
pub(crate) struct Verdict {
    missed: u64,
    disordered: u64,
    repeated: u64,
    /// The time from write to handler in milliseconds: median, 99 %, longest.
    latency: [u128; 3],
}

impl Handled {
    pub(crate) fn read(directory: &Path) -> Result<Self, Box<dyn Error>> {
        let mut handled = Self::default();
        for entry in std::fs::read_dir(directory)? {
            let text = std::fs::read_to_string(entry?.path())?;
            // A killed process may have written half a line; the change is repeated then.
            let whole = text.rfind('\n').map_or("", |end| &text[..end]);
            for line in whole.lines() {
                handled.add(line)?;
            }
        }
        Ok(handled)
    }

    fn add(&mut self, line: &str) -> Result<(), Box<dyn Error>> {
        let mut words = line.split(' ');
        let mut next = || words.next().ok_or("a line is too short");
        let key = (next()?.parse()?, next()?.parse()?);
        let at = next()?.parse()?;
        if let Some(earlier) = self.first.insert(key, at) {
            self.repeated += 1;
            self.first.insert(key, at.min(earlier));
        }
        Ok(())
    }

    /// Judges changes with the numbers `0..written.len()` of each site; `written` are the times of
    /// the writes.
    pub(crate) fn judge(&self, sites: u64, written: &[u128]) -> Verdict {
        let (mut missed, mut disordered, mut latency) = (0, 0, Vec::new());
        for site in 0..sites {
            let mut newest = 0;
            for (number, written) in (0..).zip(written) {
                let Some(at) = self.first.get(&(site, number)) else {
                    missed += 1;
                    continue;
                };
                disordered += u64::from(*at < newest);
                newest = newest.max(*at);
                latency.push(at.saturating_sub(*written));
            }
        }
        latency.sort_unstable();
        let at = |percent: usize| latency.get(latency.len() * percent / 100);
        let latency =
            [at(50), at(99), latency.last()].map(|found| found.copied().unwrap_or_default());
        Verdict {
            missed,
            disordered,
            repeated: self.repeated,
            latency,
        }
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            missed,
            disordered,
            repeated,
            latency: [median, most, longest],
        } = self;
        writeln!(
            f,
            "| missed | out of order | repeated | ms from write to handler: median | 99 % | longest |"
        )?;
        writeln!(f, "|---|---|---|---|---|---|")?;
        write!(
            f,
            "| {missed} | {disordered} | {repeated} | {median} | {most} | {longest} |"
        )
    }
}
