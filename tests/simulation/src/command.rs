//! The command line.

use std::process::ExitCode;
use std::time::Duration;

use clap::Parser;

use crate::run::{RunConfig, run};
use crate::virtual_time::real_time;

/// Simulates clusters in virtual time
#[derive(Debug, Parser)]
struct Args {
    /// The seed of the run
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Virtual days with faults
    #[arg(long, default_value_t = 1.0)]
    days: f64,
    /// Numbers of faults to leave out
    #[arg(long, value_delimiter = ',')]
    without: Vec<usize>,
    /// Prints every request
    #[arg(long)]
    trace: bool,
}

/// Runs the command.
pub fn command() -> ExitCode {
    let args = Args::parse();
    let began = real_time();
    let config = RunConfig {
        seed: args.seed,
        time: Duration::from_secs_f64(args.days * 86_400.0),
        without: args.without,
        trace: args.trace,
    };
    let outcome = run(&config);
    let took = real_time() - began;
    println!("{outcome:#?} {took:?}");
    ExitCode::SUCCESS
}
