//! What is said about runs: a table, and the same table in a document.

use std::fmt::Write;
use std::path::Path;

use crate::check::Verdict;

/// Where in a document the table stands.
const BEGIN: &str = "<!-- chaos: begin -->";
const END: &str = "<!-- chaos: end -->";

/// A run and its judgement.
#[derive(Clone, Debug)]
pub struct Row {
    /// The mix's name.
    pub mix: &'static str,
    /// How many orchestrations were started, without their children.
    pub orchestrations: usize,
    /// How often a process was killed, paused or restarted, or a partition split.
    pub broken: usize,
    /// How long they took.
    pub seconds: f64,
    /// Request units per second that they used.
    pub charge_per_second: f64,
    /// What is wrong.
    pub verdict: Verdict,
}

/// The rows as a Markdown table.
pub fn table(rows: &[Row]) -> String {
    let mut text = "| mix | orchestrations | lost | wrong result | ledger off | doubled or left behind | broken | per second |\n\
        |---|---|---|---|---|---|---|---|\n"
        .to_owned();
    for row in rows {
        let verdict = &row.verdict;
        let counts = [&verdict.lost, &verdict.wrong, &verdict.off, &verdict.left];
        let [lost, wrong, off, left] = counts.map(Vec::len);
        let (mix, orchestrations, broken) = (row.mix, row.orchestrations, row.broken);
        let pace = f64::from(u32::try_from(orchestrations).unwrap_or(u32::MAX)) / row.seconds;
        // Writing to a string cannot fail.
        let _ = writeln!(
            text,
            "| {mix} | {orchestrations} | {lost} | {wrong} | {off} | {left} | {broken} | {pace:.1} |"
        );
    }
    text
}

/// Puts the table into its place in a document.
///
/// # Errors
/// When the document cannot be read or written, or has no place for it.
pub fn write_docs(path: &Path, table: &str) -> Result<(), String> {
    let name = path.display();
    let text = std::fs::read_to_string(path).map_err(|error| format!("{name}: {error}"))?;
    let (before, rest) = text
        .split_once(BEGIN)
        .ok_or(format!("{name} has no {BEGIN}"))?;
    let (_, after) = rest.split_once(END).ok_or(format!("{name} has no {END}"))?;
    let text = format!("{before}{BEGIN}\n{table}{END}{after}");
    std::fs::write(path, text).map_err(|error| format!("{name}: {error}"))
}
