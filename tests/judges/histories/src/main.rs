//! `cargo xtask judge FILES…`: judges recorded histories. Exits with 1 if a promise is broken, and with 2 if a
//! file cannot be read.

use std::path::PathBuf;
use std::process::ExitCode;

use cdb_judge::{Record, judge, rules_table};
use clap::Parser;

/// Compares recorded histories with the promises of duroxide and of cdb
#[derive(Debug, Parser)]
#[command(name = "cargo xtask judge")]
struct Args {
    /// The records of all processes of a run
    #[arg(required_unless_present = "rules")]
    files: Vec<PathBuf>,
    /// Lists the rules
    #[arg(long)]
    rules: bool,
    /// With --rules: as a table for docs/testing.md
    #[arg(long, requires = "rules")]
    docs: bool,
    /// The most by which the clocks of two machines differ, in milliseconds
    #[arg(long, default_value_t = 1000)]
    skew: u64,
    /// The most anomalies of a rule that are printed
    #[arg(long, default_value_t = 10)]
    most: usize,
}

fn main() -> ExitCode {
    let args = Args::parse();
    if args.rules {
        print!("{}", rules_table(args.docs));
        return ExitCode::SUCCESS;
    }
    match Record::read(&args.files, args.skew) {
        Ok(record) => {
            let verdict = judge(&record);
            print!("{}", verdict.text(&record, args.most));
            ExitCode::from(u8::from(!verdict.anomalies.is_empty()))
        }
        Err(error) => {
            eprintln!("judge: {error}");
            ExitCode::from(2)
        }
    }
}
