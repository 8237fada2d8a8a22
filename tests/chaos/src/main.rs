//! The command: `chaos` drives, `chaos runtime` and `chaos store` are what it drives.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use cdb_chaos::{
    LOCK, MIXES, Mix, Programs, Row, Run, RuntimeArgs, StoreArgs, keep, open, recovery, run, serve,
    table, write_docs,
};
use clap::{Parser, Subcommand};

/// Runs orchestrations on three runtime processes while processes, store and requests fail, and judges what came of them.
#[derive(Debug, Parser)]
#[command(name = "chaos")]
struct Args {
    #[command(subcommand)]
    part: Option<Part>,
    /// Decides about every fault and the order of what is broken
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Orchestrations of each mix, without the children that they start
    #[arg(long, default_value_t = 1000)]
    instances: usize,
    /// One mix instead of all; may be given several times
    #[arg(long)]
    mix: Vec<String>,
    /// Goes on for this long in each mix
    #[arg(long, default_value_t = 0.0)]
    minutes: f64,
    /// Another program that plays the runtime
    #[arg(long)]
    runtime: Option<PathBuf>,
    /// Writes the table into docs/reliability.md
    #[arg(long)]
    docs: bool,
    /// Measures instead how long work stands still when its runtime is killed
    #[arg(long)]
    recovery: bool,
}

#[derive(Debug, Subcommand)]
enum Part {
    /// Plays a runtime
    Runtime(RuntimeArgs),
    /// Plays the store
    Store(StoreArgs),
}

#[tokio::main]
async fn main() -> ExitCode {
    let mut args = Args::parse();
    let done = match args.part.take() {
        Some(Part::Runtime(runtime)) => {
            serve(runtime, open).await;
            Ok(())
        }
        Some(Part::Store(store)) => keep(store).await,
        None if args.recovery => measure_recovery(&args).await,
        None => drive(&args).await,
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("chaos: {error}");
            ExitCode::FAILURE
        }
    }
}

fn programs(args: &Args) -> Result<Programs, String> {
    let chaos = std::env::current_exe().map_err(|error| error.to_string())?;
    let runtime = args.runtime.clone().unwrap_or_else(|| chaos.clone());
    Ok(Programs { chaos, runtime })
}

async fn measure_recovery(args: &Args) -> Result<(), String> {
    let seen = recovery(&programs(args)?).await?;
    println!(
        "{} orchestrations stood still; the longest went on {} ms after the kill, locks last {} ms",
        seen.stood_still,
        seen.longest.as_millis(),
        LOCK.as_millis()
    );
    Ok(())
}

async fn drive(args: &Args) -> Result<(), String> {
    let mixes = mixes(&args.mix)?;
    let programs = programs(args)?;
    println!("seed {}", args.seed);
    let mut rows: Vec<Row> = Vec::new();
    for mix in mixes {
        // A tenth of what the calm run used, which comes first.
        let calm = rows.first().map(|row| row.charge_per_second / 10.0);
        let throughput = calm.filter(|_| mix.throttled).map(whole);
        let row = run(&Run {
            mix,
            seed: args.seed,
            instances: args.instances,
            at_least: Duration::from_secs_f64(args.minutes * 60.0),
            throughput,
            programs: programs.clone(),
        })
        .await?;
        for problem in row.verdict.problems().take(20) {
            println!("{}: {problem}", row.mix);
        }
        rows.push(row);
        println!("{}", table(&rows));
    }
    if args.docs {
        let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reliability.md");
        write_docs(&docs, &table(&rows))?;
    }
    let wrong = rows.iter().filter(|row| !row.verdict.is_clean()).count();
    match wrong {
        0 => Ok(()),
        _ => Err(format!("{wrong} runs were not clean")),
    }
}

/// The mixes asked for. Throttling needs the calm run, to know what a tenth is.
fn mixes(names: &[String]) -> Result<Vec<Mix>, String> {
    if names.is_empty() {
        return Ok(MIXES.to_vec());
    }
    let find = |name: &String| {
        let known = || MIXES.map(|mix| mix.name).join(", ");
        Mix::named(name).ok_or_else(|| format!("no mix `{name}`; there are {}", known()))
    };
    let mut mixes = names.iter().map(find).collect::<Result<Vec<_>, _>>()?;
    if mixes.iter().any(|mix| mix.throttled) && mixes[0].name != MIXES[0].name {
        mixes.insert(0, MIXES[0]);
    }
    Ok(mixes)
}

/// Request units as the store takes them.
fn whole(request_units: f64) -> u32 {
    let least = 1;
    format!("{request_units:.0}")
        .parse()
        .unwrap_or(least)
        .max(least)
}
