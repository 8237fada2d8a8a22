//! Many seeds: a process for each, progress, a summary, and a report of each failure.

use std::process::{Command, ExitCode, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::args::Args;
use crate::run::Outcome;
use crate::shrink::shrink;

/// The most lines of problems in a report.
const PROBLEMS: usize = 20;

/// The seeds of a command.
#[derive(Debug)]
pub(crate) struct Seeds {
    args: Args,
    next: AtomicU64,
    done: Mutex<Done>,
}

/// The sums over all runs.
#[derive(Debug, Default)]
struct Done {
    runs: u64,
    orchestrations: usize,
    handed_over: u64,
    requests: u64,
    faults: usize,
    node_days: f64,
    failed: Vec<(u64, Outcome)>,
}

impl Seeds {
    pub(crate) fn new(args: Args) -> Self {
        Self {
            next: AtomicU64::new(args.from),
            done: Mutex::default(),
            args,
        }
    }

    /// Runs all seeds and reports.
    pub(crate) fn run(&self) -> ExitCode {
        let began = Instant::now();
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        let jobs = self.args.jobs.unwrap_or(processors).max(1);
        std::thread::scope(|scope| {
            for _ in 0..jobs {
                scope.spawn(|| self.work());
            }
        });
        let done = std::mem::take(&mut *self.lock());
        summarize(&done, began.elapsed());
        for (seed, outcome) in &done.failed {
            report(&self.args, *seed, outcome);
        }
        ExitCode::from(u8::from(!done.failed.is_empty()))
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Done> {
        self.done.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn work(&self) {
        loop {
            let seed = self.next.fetch_add(1, Ordering::Relaxed);
            if seed >= self.args.from + self.args.seeds {
                return;
            }
            let began = Instant::now();
            let mut outcome = run_process(&self.args, seed, &[]);
            if self.args.twice {
                let again = run_process(&self.args, seed, &[]).hash;
                if again != outcome.hash {
                    let problem = format!("two traces of one seed: {} and {again}", outcome.hash);
                    outcome.problems.push(problem);
                }
            }
            self.add(seed, outcome, began.elapsed());
        }
    }

    fn add(&self, seed: u64, outcome: Outcome, took: Duration) {
        let verdict = match outcome.problems.len() {
            0 => "good".to_owned(),
            count => format!("{count} PROBLEMS"),
        };
        let Outcome {
            nodes,
            node_days,
            orchestrations,
            handed_over,
            requests,
            ..
        } = outcome;
        let (faults, seconds) = (outcome.faults.len(), took.as_secs_f64());
        eprintln!(
            "seed {seed}: {verdict}; {nodes} nodes, {node_days:.1} node-days, {orchestrations} orchestrations, \
             {handed_over} handed over, {faults} faults, {requests} requests, {seconds:.0} s"
        );
        let mut done = self.lock();
        done.runs += 1;
        done.orchestrations += orchestrations;
        done.handed_over += handed_over;
        done.requests += requests;
        done.faults += faults;
        done.node_days += node_days;
        if !outcome.problems.is_empty() {
            done.failed.push((seed, outcome));
        }
    }
}

/// Runs a seed in a process of its own. A process that does not report is a problem.
pub(crate) fn run_process(args: &Args, seed: u64, without: &[usize]) -> Outcome {
    let program = std::env::current_exe().expect("the path of this program");
    let mut command = Command::new(program);
    // The allocator reads the virtual clock, by which it would return free memory at once.
    command.env("MIMALLOC_PURGE_DELAY", "-1");
    command.args(["--json", "--seed", &seed.to_string()]);
    command.args(args.of_run());
    command.args(["--stall", &args.stall.to_string()]);
    if !without.is_empty() {
        command.args(["--without", &numbers(without)]);
    } else if let Some(folder) = &args.record {
        command.arg("--record").arg(folder);
    }
    let output = command
        .stdin(Stdio::null())
        .output()
        .expect("this program can be started");
    let text = String::from_utf8_lossy(&output.stdout);
    let outcome = text
        .lines()
        .last()
        .and_then(|line| serde_json::from_str(line).ok());
    outcome.unwrap_or_else(|| {
        let errors = String::from_utf8_lossy(&output.stderr);
        let mut last: Vec<&str> = errors.lines().rev().take(PROBLEMS).collect();
        last.reverse();
        Outcome {
            problems: vec![format!(
                "the run ended with {}: {}",
                output.status,
                last.join("\n")
            )],
            ..Outcome::default()
        }
    })
}

fn numbers(all: &[usize]) -> String {
    let all: Vec<String> = all.iter().map(usize::to_string).collect();
    all.join(",")
}

fn summarize(done: &Done, took: Duration) {
    let Done {
        runs,
        orchestrations,
        handed_over,
        requests,
        faults,
        node_days,
        failed,
    } = done;
    let failed = failed.len();
    let minutes = took.as_secs_f64() / 60.0;
    let pace = node_days / minutes.max(f64::EPSILON);
    println!(
        "| runs | failed | node-days | node-days per minute | orchestrations | handed over | faults | requests | minutes |\n\
         |--:|--:|--:|--:|--:|--:|--:|--:|--:|\n\
         | {runs} | {failed} | {node_days:.1} | {pace:.1} | {orchestrations} | {handed_over} | {faults} | {requests} | {minutes:.1} |"
    );
}

/// Reports a failure: the problems, the faults that it needs, the last decisions, and the command
/// that repeats it.
fn report(args: &Args, seed: u64, outcome: &Outcome) {
    println!("\nseed {seed} failed:");
    for problem in outcome.problems.iter().take(PROBLEMS) {
        println!("  {problem}");
    }
    eprintln!("looking for the faults that it needs");
    let shrunk = shrink(outcome.faults.len(), |without| {
        let outcome = run_process(args, seed, without);
        (!outcome.problems.is_empty()).then_some(outcome)
    });
    let (without, outcome) = match shrunk {
        Some((without, outcome)) => (without, outcome),
        None => (Vec::new(), outcome.clone()),
    };
    println!("with these faults:");
    for fault in &outcome.faults {
        println!("  {fault}");
    }
    println!("the latest requests about it:");
    for line in &outcome.decisions {
        println!("  {line}");
    }
    let run = args.of_run().join(" ");
    let without = if without.is_empty() {
        String::new()
    } else {
        format!(" --without {}", numbers(&without))
    };
    println!("repeat it: cargo simulate --seed {seed} {run}{without}");
}
