//! The failures of a run, as data.

/// Failures besides those of single requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Breakage {
    /// Runtimes are killed (SIGKILL) and started again.
    Kills,
    /// Runtimes are paused (SIGSTOP) for up to twice the lock time.
    Pauses,
    /// The store is killed and started again on its data.
    Restarts,
    /// Physical partitions are split.
    Splits,
    /// The machines' clocks are up to half a minute ahead or behind, and are set during the run.
    Clocks,
}

/// A mix of failures.
#[derive(Clone, Copy, Debug)]
pub struct Mix {
    /// Its name on the command line and in the table.
    pub name: &'static str,
    /// The percentage of requests that fail, in five ways.
    pub faults: u32,
    /// The other failures.
    pub(crate) breaks: &'static [Breakage],
    /// Whether the store allows a tenth of the request units that the calm run used.
    pub throttled: bool,
}

/// A mix that is not throttled.
const fn mix(name: &'static str, faults: u32, breaks: &'static [Breakage]) -> Mix {
    Mix {
        name,
        faults,
        breaks,
        throttled: false,
    }
}

use Breakage::{Clocks, Kills, Pauses, Restarts, Splits};

/// All mixes, in the order of the table.
pub const MIXES: [Mix; 10] = [
    mix("calm", 0, &[]),
    mix("faults-5", 5, &[]),
    mix("faults-20", 20, &[]),
    mix("kills", 0, &[Kills]),
    mix("pauses", 0, &[Pauses]),
    mix("restarts", 0, &[Restarts]),
    mix("splits", 0, &[Splits]),
    mix("clocks", 0, &[Clocks]),
    Mix {
        throttled: true,
        ..mix("throttled", 0, &[])
    },
    mix("everything", 5, &[Kills, Pauses, Restarts, Splits]),
];

impl Mix {
    /// The mix of this name.
    pub fn named(name: &str) -> Option<Self> {
        MIXES.into_iter().find(|mix| mix.name == name)
    }

    /// The faults of the store: refused, throttled, lost before they were carried out, lost after,
    /// timed out after.
    pub(crate) fn store_settings(&self, seed: u64) -> cdb_emulator::Settings {
        use cdb_emulator::{Fault, Settings};
        let faults = Fault::in_five_ways(f64::from(self.faults) / 100.0);
        let faults = faults.into_iter().filter(|_| self.faults > 0);
        Settings::default().seed(seed).faults(faults)
    }
}
