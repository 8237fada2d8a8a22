//! The command: one seed in this process, or many in processes of their own.

use std::process::{self, ExitCode};
use std::time::Duration;

use clap::Parser;

use crate::args::Args;
use crate::run::{Outcome, RunConfig, run};
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
        profile: args.profile,
        without: args.without.clone(),
        trace: args.trace,
        stall: Duration::from_secs_f64(args.stall),
        hang: args.hang,
        record: args.record.clone(),
    };
    let json = args.json;
    let stalled = move |outcome| process::exit(print(&outcome, json).into());
    match run(&config, stalled) {
        Ok(outcome) => print(&outcome, json).into(),
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

/// Prints an outcome, and returns the exit code of the process. An outcome as JSON is a success.
fn print(outcome: &Outcome, json: bool) -> u8 {
    if json {
        let outcome = serde_json::to_string(outcome).expect("an outcome is JSON");
        println!("{outcome}");
        return 0;
    }
    println!("{outcome:#?}");
    u8::from(!outcome.problems.is_empty())
}
