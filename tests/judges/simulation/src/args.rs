//! The command line.

use std::path::PathBuf;

use clap::{Parser, ValueEnum};

use crate::profile::FixedProfile;
use crate::run::Hang;
use crate::workload::Workload;

/// Simulates clusters in virtual time, a process for each seed
#[derive(Clone, Debug, Parser)]
#[command(name = "cargo simulate")]
pub(crate) struct Args {
    /// The number of seeds
    #[arg(long, default_value_t = 20)]
    pub(crate) seeds: u64,
    /// The first seed
    #[arg(long, default_value_t = 1)]
    pub(crate) from: u64,
    /// Virtual days with faults
    #[arg(long, default_value_t = 1.0)]
    pub(crate) days: f64,
    /// The only workload; all by default
    #[arg(long)]
    pub(crate) only: Option<Workload>,
    /// A fixed cluster and load instead of those drawn from the seed, to measure throughput
    #[arg(long)]
    pub(crate) profile: Option<FixedProfile>,
    /// The seconds of processor time after which a seed without progress has failed
    #[arg(long, default_value_t = 120.0)]
    pub(crate) stall: f64,
    /// The number of concurrent processes; one for each processor by default
    #[arg(long)]
    pub(crate) jobs: Option<usize>,
    /// Runs every seed in two processes, whose traces must be the same
    #[arg(long)]
    pub(crate) twice: bool,
    /// Records the calls of each run in this folder, for `cargo xtask judge`
    #[arg(long, value_name = "DIR", conflicts_with = "twice")]
    pub(crate) record: Option<PathBuf>,
    /// Runs this seed alone, in this process, and prints what it found
    #[arg(long)]
    pub(crate) seed: Option<u64>,
    /// With --seed: the numbers of faults to leave out
    #[arg(long, value_delimiter = ',', requires = "seed")]
    pub(crate) without: Vec<usize>,
    /// With --seed: prints every request
    #[arg(long, requires = "seed")]
    pub(crate) trace: bool,
    /// With --seed: prints the outcome as JSON
    #[arg(long, requires = "seed", hide = true)]
    pub(crate) json: bool,
    /// Makes every run hang, to test how that is reported
    #[arg(long, hide = true)]
    pub(crate) hang: Option<Hang>,
}

impl Args {
    /// Returns the arguments that decide a run besides its seed and the faults that are left out.
    pub(crate) fn of_run(&self) -> Vec<String> {
        let mut all = vec!["--days".to_owned(), self.days.to_string()];
        all.extend(choice("--only", self.only));
        all.extend(choice("--profile", self.profile));
        all.extend(choice("--hang", self.hang));
        all
    }
}

fn choice(option: &str, chosen: Option<impl ValueEnum>) -> Vec<String> {
    let value = chosen.and_then(|chosen| chosen.to_possible_value());
    let value = value.map(|value| [option.to_owned(), value.get_name().to_owned()]);
    value.into_iter().flatten().collect()
}
