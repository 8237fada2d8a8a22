//! Reports runs as rows of a table, and writes them into a document, where a row replaces the
//! earlier one of its mix and provider.

use std::path::Path;

use crate::check::Verdict;
use crate::mix::MIXES;
use crate::subject::Subject;

/// The markers around the table in the document.
const BEGIN: &str = "<!-- chaos: begin -->\n";
const END: &str = "<!-- chaos: end -->";

const HEAD: &str = "| mix | provider | seed | orchestrations | lost | wrong result | ledger off | doubled or left behind | broken | per second |\n\
    |---|---|---|---|---|---|---|---|---|---|\n";

/// A run and its judgement.
#[derive(Clone, Debug)]
pub struct Row {
    /// The mix's name.
    pub mix: &'static str,
    /// The provider's.
    pub provider: &'static str,
    /// The seed of the faults.
    pub seed: u64,
    /// Started orchestrations, without children.
    pub orchestrations: usize,
    /// How many times a process was killed, paused or restarted, or a partition split.
    pub broken: usize,
    /// Ended orchestrations per second.
    pub pace: f64,
    /// Used request units per second.
    pub charge_per_second: f64,
    /// Allowed request units per second.
    pub throughput: Option<u32>,
    /// The problems.
    pub verdict: Verdict,
}

impl Row {
    /// The row as a line of the Markdown table.
    fn line(&self) -> String {
        let verdict = &self.verdict;
        let counts = [&verdict.lost, &verdict.wrong, &verdict.off, &verdict.left];
        let counts = counts.map(|found| found.len().to_string()).join(" | ");
        let (mix, provider, seed) = (self.mix, self.provider, self.seed);
        let (orchestrations, broken, pace) = (self.orchestrations, self.broken, self.pace);
        format!(
            "| {mix} | {provider} | {seed} | {orchestrations} | {counts} | {broken} | {pace:.1} |\n"
        )
    }
}

/// The rows as a Markdown table.
pub(crate) fn table(rows: &[Row]) -> String {
    let lines: String = rows.iter().map(Row::line).collect();
    format!("{HEAD}{lines}")
}

/// Puts a row into the table of a document.
///
/// # Errors
/// When the document cannot be read or written, or has no place for a table.
pub(crate) fn write_docs(path: &Path, row: &Row) -> Result<(), String> {
    let name = path.display();
    let text = std::fs::read_to_string(path).map_err(|error| format!("{name}: {error}"))?;
    let text = with_row(&text, row).ok_or(format!("{name} has no {BEGIN}"))?;
    std::fs::write(path, text).map_err(|error| format!("{name}: {error}"))
}

fn with_row(text: &str, row: &Row) -> Option<String> {
    let (before, rest) = text.split_once(BEGIN)?;
    let (table, after) = rest.split_once(END)?;
    let line = row.line();
    // Replace a table with other columns.
    let others = table.strip_prefix(HEAD).unwrap_or_default();
    let others = others.lines().map(|line| format!("{line}\n"));
    let mut lines: Vec<String> = others
        .filter(|other| place(other) != place(&line))
        .collect();
    lines.push(line);
    lines.sort_by_key(|line| place(line));
    let lines = lines.concat();
    Some(format!("{before}{BEGIN}{HEAD}{lines}{END}{after}"))
}

/// The sort key of a line: the mix's order, then our provider before others.
fn place(line: &str) -> (usize, bool, String) {
    let mut cells = line.split('|').skip(1).map(str::trim);
    let mix = cells.next().unwrap_or_default();
    let provider = cells.next().unwrap_or_default();
    let at = MIXES.iter().position(|known| known.name == mix);
    (
        at.unwrap_or(MIXES.len()),
        provider != Subject::OURS.name,
        provider.to_owned(),
    )
}

/// Formats the values of several rounds in one line: least, median, 90th percentile, most.
pub(crate) fn spread(mut values: Vec<f64>, digits: usize) -> String {
    values.sort_by(f64::total_cmp);
    let rank = |tenths: usize| values[(values.len() * tenths).div_ceil(10).max(1) - 1];
    if values.is_empty() {
        return "nothing measured".to_owned();
    }
    let count = values.len();
    let [least, middle, nine, most] = [0, 5, 9, 10].map(rank);
    format!(
        "least {least:.digits$}, median {middle:.digits$}, nine in ten up to {nine:.digits$}, most {most:.digits$} ({count} rounds)"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(mix: &'static str, provider: &'static str, orchestrations: usize) -> Row {
        Row {
            mix,
            provider,
            seed: 1,
            orchestrations,
            broken: 2,
            pace: 3.04,
            charge_per_second: 5.0,
            throughput: None,
            verdict: Verdict::default(),
        }
    }

    #[test]
    fn a_new_row_replaces_the_old_one_in_the_order_of_the_mixes() {
        let mut text = format!("before\n{BEGIN}something else\n{END}\nafter\n");
        let ours = Subject::OURS.name;
        let rows = [
            ("kills", "another", 1),
            ("kills", ours, 2),
            ("calm", "another", 3),
            ("kills", "another", 4),
        ];
        for (mix, provider, orchestrations) in rows {
            let row = row(mix, provider, orchestrations);
            text = with_row(&text, &row).expect("there is a place");
        }
        let lines = "| calm | another | 1 | 3 | 0 | 0 | 0 | 0 | 2 | 3.0 |\n\
            | kills | cdb-provider | 1 | 2 | 0 | 0 | 0 | 0 | 2 | 3.0 |\n\
            | kills | another | 1 | 4 | 0 | 0 | 0 | 0 | 2 | 3.0 |\n";
        assert_eq!(text, format!("before\n{BEGIN}{HEAD}{lines}{END}\nafter\n"));
    }

    #[test]
    fn a_spread_reports_only_measured_values() {
        let values = (1..=10).rev().map(f64::from).collect();
        let said = "least 1, median 5, nine in ten up to 9, most 10 (10 rounds)";
        assert_eq!(spread(values, 0), said);
        assert_eq!(spread(Vec::new(), 0), "nothing measured");
    }
}
