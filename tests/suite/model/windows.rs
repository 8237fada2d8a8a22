//! The searches for due work: a window over the rows of a partition, and a memory of limited size.
//!
//! The first rows cannot run now: their instance is held, their payload key is missing, or they are
//! set aside. Rows behind them can run. Rows may become able to run at any time, and new rows may
//! arrive without end.

use super::explore::{Explored, explore};
use super::fairness::{Action, CHANCE, action, assert_contains};
use super::rules::Rules;

/// The rules. Both are necessary.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Rule {
    /// A search counts rows that can run, and a later one continues behind the others
    /// (`window.rs` of the coordination crate). Otherwise a search counts every row.
    BlockedRowsDoNotCount,
    /// A row that cannot run leaves a marker in memory (`poll.rs` of the work crate). Otherwise its
    /// message counts towards the limit of the memory, at which no search begins.
    BlockedHeadsAreMarkers,
}

const ROWS: usize = 5;

/// The first row behind the blocked ones.
const BEHIND: usize = 3;

/// The rows that one search reads, and the rows that can run after which the next one does not
/// continue behind them.
const MAX_ROWS: usize = 2;
const WANTED: usize = 1;

/// The messages in memory at which no search begins.
const MOST_HELD: usize = 2;

/// A row of the store, in the order of due times.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Row {
    Blocked(&'static str),
    Runnable,
    Done,
}

/// A row in the memory of the runtime.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Known {
    Nothing,
    Marker,
    Message(Row),
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct State {
    rows: [Row; ROWS],
    known: [Known; ROWS],
    /// The row before which a search stopped, and whether the next one begins there.
    stopped_at: Option<usize>,
    continues: bool,
    /// The rows that may still become able to run.
    changes: u8,
    /// Whether new rows arrive behind the blocked ones.
    has_supply: bool,
}

impl State {
    fn start(has_supply: bool) -> Self {
        let [held, no_key, aside] = ["held", "without a key", "set aside"].map(Row::Blocked);
        Self {
            rows: [held, no_key, aside, Row::Runnable, Row::Runnable],
            known: [Known::Nothing; ROWS],
            stopped_at: None,
            continues: false,
            changes: 2,
            has_supply,
        }
    }

    fn steps(&self, rules: Rules<Rule>) -> Vec<(Action, State)> {
        let mut steps = Vec::new();
        if !self.is_full() {
            steps.push(self.search(rules));
        }
        let mut ready = self.known.iter();
        if let Some(first) = ready.position(|known| *known == Known::Message(Row::Runnable)) {
            let mut after = self.clone();
            after.known[first] = Known::Nothing;
            after.rows[first] = Row::Done;
            steps.push((action("dispatcher", format!("takes row {first}")), after));
        }
        for (at, row) in self.rows.iter().enumerate() {
            let mut after = self.clone();
            after.rows[at] = Row::Runnable;
            if matches!(row, Row::Blocked(_)) && self.changes > 0 {
                after.changes -= 1;
                steps.push((action(CHANCE, format!("row {at} can run")), after));
            } else if self.has_supply && *row == Row::Done && at >= BEHIND {
                steps.push((action(CHANCE, format!("row {at} arrives")), after));
            }
        }
        steps
    }

    /// One search, as `Windows` and `Search` of the coordination crate do it.
    fn search(&self, rules: Rules<Rule>) -> (Action, Self) {
        let mut after = self.clone();
        let from = self.stopped_at.filter(|_| self.continues);
        let due = (from.unwrap_or(0)..ROWS).filter(|at| self.rows[*at] != Row::Done);
        let read: Vec<usize> = due.take(MAX_ROWS).collect();
        let mut found = 0;
        let mut texts = Vec::new();
        for &at in &read {
            let runs = self.rows[at] == Row::Runnable;
            found += usize::from(runs || !rules.has(&Rule::BlockedRowsDoNotCount));
            after.known[at] = if runs || !rules.has(&Rule::BlockedHeadsAreMarkers) {
                Known::Message(self.rows[at])
            } else {
                Known::Marker
            };
            texts.push(match self.rows[at] {
                Row::Blocked(why) => format!("row {at}, {why}"),
                Row::Runnable | Row::Done => format!("row {at}, which can run"),
            });
        }
        after.stopped_at = match from {
            _ if read.len() < MAX_ROWS => None,
            None if self.stopped_at.is_some() => self.stopped_at,
            _ if found >= WANTED => self.stopped_at,
            _ => read.last().map(|last| last + 1),
        };
        after.continues = after.stopped_at.is_some() && from.is_none();
        if after.is_full() {
            texts.push("the memory is full".to_owned());
        }
        let text = format!("reads {}", texts.join("; "));
        (action("poll", text), after)
    }

    /// Whether no search begins.
    fn is_full(&self) -> bool {
        let held = self.known.iter();
        let held = held.filter(|known| matches!(known, Known::Message(_)));
        held.count() >= MOST_HELD
    }
}

fn check(rules: Rules<Rule>, has_supply: bool) -> Explored<State, Action> {
    let start = State::start(has_supply);
    explore(start, |state| state.steps(rules), |_| None)
}

/// Returns a run in which a row that can run is never taken.
fn endless(rules: Rules<Rule>, row: usize) -> String {
    let found = check(rules, false).endless(|state| state.rows[row] == Row::Runnable);
    found.expect("a rule is missing").to_string()
}

#[test]
fn every_row_that_can_run_is_taken() {
    let explored = check(Rules::ALL, false);
    println!("{} states", explored.states);
    for row in 0..ROWS {
        explored.assert_ends(|state| state.rows[row] == Row::Runnable);
    }
}

#[test]
fn a_steady_supply_does_not_keep_out_rows_that_can_run_again() {
    let explored = check(Rules::ALL, true);
    println!("{} states", explored.states);
    for row in 0..BEHIND {
        explored.assert_ends(|state| state.rows[row] == Row::Runnable);
    }
}

#[test]
fn if_blocked_rows_count_no_search_passes_them() {
    let found = endless(Rules::without(&[Rule::BlockedRowsDoNotCount]), ROWS - 1);
    let reads = "  poll: reads row 0, held; row 1, without a key\n";
    assert_eq!(
        found,
        format!("first\n{reads}then again and again\n{reads}")
    );
}

#[test]
fn if_blocked_heads_stay_in_memory_no_search_begins() {
    let rules = Rules::without(&[Rule::BlockedHeadsAreMarkers]);
    let found = endless(rules, ROWS - 1);
    let reads = "poll: reads row 0, held; row 1, without a key; the memory is full";
    assert_eq!(found, format!("first\n  {reads}\nthen nothing happens\n"));
    // A row that can run again is not found either.
    assert_contains(&endless(rules, 0), &[reads, "by chance: row 0 can run"]);
}
