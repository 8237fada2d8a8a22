//! Instructions of the small steps, counted by valgrind: the same on every run, also on a busy
//! machine.
//!
//! Each step runs in two processes, in one twice as often. The difference is the step without the
//! start of the process.

use std::process::Command;

use cdb_bench::micro::steps;

use crate::report::Report;

/// The word on the command line that makes a process repeat a step.
pub const REPEAT: &str = "--repeat";

const TIMES: u64 = 200;
const HEAD: &str = "\
| step | instructions |
|---|--:|";

/// Counts all steps.
pub fn run() -> Result<Report, String> {
    let mut lines = Vec::new();
    println!("{HEAD}");
    for (number, step) in steps().iter().enumerate() {
        let each = (count(number, 2 * TIMES)? - count(number, TIMES)?) / TIMES;
        lines.push(format!("| {} | {each} |", step.name));
        println!("{}", lines[lines.len() - 1]);
    }
    let text = format!(
        "Instructions per step, counted by valgrind.\n\n{HEAD}\n{}",
        lines.join("\n")
    );
    Ok(Report {
        section: "instructions",
        text,
        plots: Vec::new(),
    })
}

/// Runs one step many times, in a child process.
pub fn repeat(words: &[String]) -> Result<(), String> {
    let numbers: Vec<usize> = words.iter().filter_map(|word| word.parse().ok()).collect();
    let [number, times] = *numbers.as_slice() else {
        return Err("a step and a number of times are needed".to_owned());
    };
    let steps = steps();
    let step = steps.get(number).ok_or("there is no such step")?;
    for _ in 0..times {
        step.run();
    }
    Ok(())
}

fn count(number: usize, times: u64) -> Result<u64, String> {
    let program = std::env::current_exe().map_err(|error| error.to_string())?;
    let counted = Command::new("valgrind")
        .args([
            "--tool=cachegrind",
            "--cache-sim=no",
            "--cachegrind-out-file=/dev/null",
        ])
        .arg(program)
        .args([REPEAT, &number.to_string(), &times.to_string()])
        .output()
        .map_err(|error| format!("valgrind counts the instructions and is not here: {error}"))?;
    let told = String::from_utf8_lossy(&counted.stderr).into_owned();
    let refs = told.lines().find_map(|line| {
        line.split_once("I   refs:")
            .or_else(|| line.split_once("I refs:"))
    });
    let (_, refs) = refs.ok_or_else(|| format!("valgrind did not count: {told}"))?;
    refs.trim()
        .replace(',', "")
        .parse()
        .map_err(|_| format!("valgrind said `{refs}`"))
}
