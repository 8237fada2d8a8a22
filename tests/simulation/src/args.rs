//! The command line.

use clap::{Parser, ValueEnum};

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
    /// The number of concurrent processes; one for each processor by default
    #[arg(long)]
    pub(crate) jobs: Option<usize>,
    /// Runs every seed in two processes, whose traces must be the same
    #[arg(long)]
    pub(crate) twice: bool,
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
}

impl Args {
    /// Returns the name of the only workload.
    pub(crate) fn only_name(&self) -> Option<String> {
        let value = self.only?.to_possible_value()?;
        Some(value.get_name().to_owned())
    }
}
