//! The command: one seed in this process, or many in processes of their own.

use std::process::ExitCode;
use std::time::Duration;

use clap::Parser;

use crate::args::Args;
use crate::run::{RunConfig, run};
use crate::seeds::Seeds;

/// Runs the command. Fails if a run has a problem.
pub fn command() -> ExitCode {
    let args = Args::parse();
    match args.seed {
        Some(seed) => run_one(seed, &args),
        None => Seeds::new(args).run(),
    }
}

fn run_one(seed: u64, args: &Args) -> ExitCode {
    let config = RunConfig {
        seed,
        time: Duration::from_secs_f64(args.days * 86_400.0),
        only: args.only,
        without: args.without.clone(),
        trace: args.trace,
    };
    match run(&config) {
        Ok(outcome) if args.json => {
            println!(
                "{}",
                serde_json::to_string(&outcome).expect("an outcome is JSON")
            );
            ExitCode::SUCCESS
        }
        Ok(outcome) => {
            println!("{outcome:#?}");
            ExitCode::from(u8::from(!outcome.problems.is_empty()))
        }
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}
