//! The command. Without a subcommand it is the driver; the driver starts it again as `runtime` and
//! `store`.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use clap::{Parser, Subcommand};

use crate::drive::{Run, run};
use crate::mix::{MIXES, Mix};
use crate::recovery::recovery;
use crate::report::{Row, spread, table, write_docs};
use crate::runtime::{RuntimeArgs, lock_time, serve};
use crate::site::Actors;
use crate::store::{StoreArgs, keep};
use crate::subject::Subject;

/// The document with the table.
const DOCS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../docs/chaos.md");
/// Orchestrations of the calm run that measures the request units of a tenth.
const TO_KNOW_A_TENTH: usize = 200;

/// Runs orchestrations on three runtime processes while processes, store and requests fail, and
/// judges the results.
#[derive(Clone, Debug, Parser)]
#[command(name = "chaos")]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a switch of the command"
)]
struct Args {
    #[command(subcommand)]
    part: Option<Part>,
    /// Decides every fault and the order of failures
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Orchestrations of each mix, without the children that they start
    #[arg(long, default_value_t = 1000)]
    instances: usize,
    /// Orchestrations that are in flight
    #[arg(long, default_value_t = 40)]
    window: usize,
    /// One mix instead of all; may be given several times
    #[arg(long)]
    mix: Vec<String>,
    /// Runs each mix for this long
    #[arg(long, default_value_t = 0.0)]
    minutes: f64,
    /// Runs orchestrations of eleven transactional activities each, and counts their effects
    #[arg(long, conflicts_with_all = ["docs", "recovery"])]
    effects: bool,
    /// Writes each row into docs/chaos.md as soon as it is known
    #[arg(long)]
    docs: bool,
    /// Records the calls of all processes, for `cargo xtask judge`, in a folder for each mix
    #[arg(long, value_name = "DIR", conflicts_with_all = ["recovery", "pace"])]
    record: Option<PathBuf>,
    /// Measures only how long work stops when its runtime is killed
    #[arg(long, conflicts_with_all = ["docs", "mix", "pace"])]
    recovery: bool,
    /// Measures `--recovery` with membership, and with locks of half a minute
    #[arg(long, requires = "recovery")]
    members: bool,
    /// Measures only how much slower a mix is than `calm`; the mix is `faults-5` unless `--mix` is
    /// given
    #[arg(long, conflicts_with = "docs")]
    pace: bool,
    /// How often `--recovery` and `--pace` measure
    #[arg(long, default_value_t = 1)]
    rounds: u64,
}

#[derive(Clone, Debug, Subcommand)]
enum Part {
    /// Plays a runtime
    Runtime(RuntimeArgs),
    /// Plays the store
    Store(StoreArgs),
}

/// Reads the command line and runs it, with `subject` as the provider of the runtimes.
pub async fn command(subject: Subject) -> ExitCode {
    let done = match Args::parse() {
        Args {
            part: Some(Part::Runtime(runtime)),
            ..
        } => serve(subject, runtime).await,
        Args {
            part: Some(Part::Store(store)),
            ..
        } => keep(store).await,
        args => drive(subject, args).await,
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("chaos: {error}");
            ExitCode::FAILURE
        }
    }
}

async fn drive(subject: Subject, args: Args) -> Result<(), String> {
    let program = std::env::current_exe().map_err(|error| error.to_string())?;
    let members = args.members;
    let actors = Actors {
        subject,
        program,
        members,
        record: None,
    };
    let director = Director { args, actors };
    match &director.args {
        args if args.recovery => director.measure_recovery().await,
        args if args.pace => director.measure_pace().await,
        _ => director.fill_the_table().await,
    }
}

/// The options and the programs of a run.
struct Director {
    args: Args,
    actors: Actors,
}

impl Director {
    fn run(&self, mix: Mix) -> Run {
        Run {
            mix,
            seed: self.args.seed,
            instances: self.args.instances,
            at_least: Duration::from_secs_f64(self.args.minutes * 60.0),
            window: self.args.window,
            effects: self.args.effects,
            throughput: None,
            actors: self.actors.clone(),
        }
    }

    async fn measure_recovery(&self) -> Result<(), String> {
        let mut longest = Vec::new();
        for round in 1..=self.args.rounds {
            let seen = recovery(&self.actors).await?;
            let (still, millis) = (seen.delayed, seen.longest.as_secs_f64() * 1000.0);
            println!(
                "round {round}: {still} orchestrations stood still, the longest for {millis:.0} ms"
            );
            longest.push(millis);
        }
        println!(
            "from the kill to the next booking, in ms, locks last {}: {}",
            lock_time(self.args.members).as_millis(),
            spread(longest, 0)
        );
        Ok(())
    }

    async fn measure_pace(&self) -> Result<(), String> {
        let chosen = self.args.mix.first().map_or("faults-5", |name| name);
        let compared = named(chosen)?;
        let mut shares = Vec::new();
        for round in 1..=self.args.rounds {
            let seed = self.args.seed + round - 1;
            let mut paces = [0.0; 2];
            for (pace, mix) in paces.iter_mut().zip([MIXES[0], compared]) {
                let row = run(&Run {
                    seed,
                    ..self.run(mix)
                })
                .await?;
                tell(&row);
                *pace = row.pace;
            }
            let [calm, broken] = paces;
            println!("round {round}: calm {calm:.1} a second, {chosen} {broken:.1}");
            shares.push(100.0 * broken / calm);
        }
        println!("{chosen} in per cent of calm: {}", spread(shares, 0));
        Ok(())
    }

    /// Runs all mixes and prints a row for each. A mix that cannot run is reported at the end and
    /// does not stop the others.
    async fn fill_the_table(&self) -> Result<(), String> {
        let mixes = mixes(&self.args.mix)?;
        let mut rows: Vec<Row> = Vec::new();
        let mut failed = 0;
        for mix in mixes {
            match self.one_row(mix, &rows).await {
                Ok(row) => rows.push(row),
                Err(error) => {
                    failed += 1;
                    eprintln!("{}: {error}", mix.name);
                }
            }
            println!("{}", table(&rows));
        }
        let wrong = rows.iter().filter(|row| !row.verdict.is_clean()).count();
        match (failed, wrong) {
            (0, 0) => Ok(()),
            _ => Err(format!(
                "{wrong} runs were not clean, {failed} could not be made"
            )),
        }
    }

    async fn one_row(&self, mix: Mix, before: &[Row]) -> Result<Row, String> {
        let throughput = if mix.throttled {
            Some(self.a_tenth(before).await?)
        } else {
            None
        };
        let mut settings = Run {
            throughput,
            ..self.run(mix)
        };
        let folder = self.args.record.as_deref();
        settings.actors.record = folder.map(|folder| folder.join(mix.name));
        let row = run(&settings).await?;
        tell(&row);
        if self.args.docs {
            write_docs(Path::new(DOCS), &row)?;
        }
        Ok(row)
    }

    /// Returns a tenth of the request units per second of the calm run. Without a calm run it runs
    /// a short one.
    async fn a_tenth(&self, before: &[Row]) -> Result<u32, String> {
        let calm = MIXES[0];
        let known = before.iter().find(|row| row.mix == calm.name);
        let used = if let Some(row) = known {
            row.charge_per_second
        } else {
            let short = Run {
                instances: self.args.instances.min(TO_KNOW_A_TENTH),
                at_least: Duration::ZERO,
                ..self.run(calm)
            };
            run(&short).await?.charge_per_second
        };
        Ok(whole(used / 10.0))
    }
}

/// Details that have no column in the table.
fn tell(row: &Row) {
    for problem in row.verdict.problems().take(20) {
        println!("{}: {problem}", row.mix);
    }
    let allowed = row
        .throughput
        .map(|allowed| format!(" of {allowed} allowed"));
    println!(
        "{}: {:.0} request units a second{}",
        row.mix,
        row.charge_per_second,
        allowed.unwrap_or_default()
    );
}

fn mixes(names: &[String]) -> Result<Vec<Mix>, String> {
    if names.is_empty() {
        return Ok(MIXES.to_vec());
    }
    names.iter().map(|name| named(name)).collect()
}

fn named(name: &str) -> Result<Mix, String> {
    let known = || MIXES.map(|mix| mix.name).join(", ");
    Mix::named(name).ok_or_else(|| format!("no mix `{name}`; there are {}", known()))
}

/// Converts request units to the integer that the store accepts.
fn whole(request_units: f64) -> u32 {
    let least = 1;
    format!("{request_units:.0}")
        .parse()
        .unwrap_or(least)
        .max(least)
}
