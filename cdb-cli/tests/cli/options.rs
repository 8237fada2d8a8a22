//! The options of the commands that change something: the same names with the same meaning.

use std::collections::BTreeSet;

use cdb_cli::Exit;
use serde_json::Value;

use crate::fixture::{dead_intent, fill};
use crate::harness::{Account, cdb};

/// The commands that change something, and their `--yes`.
const CHANGES: &[(&str, &str)] = &[
    ("instances cancel", YES),
    ("instances delete", YES),
    ("instances fork", YES_UNASKED),
    ("instances pause", YES),
    ("instances prune", YES),
    ("instances raise", YES_UNASKED),
    ("instances restart", YES),
    ("instances resume", YES),
    ("instances rewind", YES),
    ("instances start", YES_UNASKED),
    ("limits remove", YES_UNASKED),
    ("limits set", YES_UNASKED),
    ("messages discard", YES),
    ("messages redrive", YES),
    ("policy apply", YES_REMOVAL),
];

const BY: &str = "--by <NAME> Who makes the change, for the record and the JSON answer; by default the user of this machine";
const DRY_RUN: &str = "--dry-run Show the plan and change nothing";
const YES: &str = "--yes Make the change; without it the command only shows the plan";
const YES_UNASKED: &str = "--yes Make the change, as without the option: nothing is lost by it";
const YES_REMOVAL: &str = "--yes Also remove indexes that the model does not need; without it, a change that removes any is only shown";

#[tokio::test]
async fn every_change_takes_the_operator_the_plan_and_the_confirmation() {
    let tools = include_str!("../snapshots/mcp-tools.txt").lines();
    let changes = tools.filter(|tool| tool.contains("(changes"));
    let changes: BTreeSet<String> = changes
        .filter_map(|tool| tool.split(' ').next())
        .map(|tool| tool.replace('_', " "))
        .collect();
    let listed: BTreeSet<String> = CHANGES.iter().map(|(name, _)| (*name).to_owned()).collect();
    assert_eq!(changes, listed, "the commands that change something");
    for (command, yes) in CHANGES {
        let help = cdb(&*format!("{command} --help")).await.out;
        let help = help.split_whitespace().collect::<Vec<_>>().join(" ");
        for option in [BY, DRY_RUN, yes] {
            assert!(help.contains(option), "{command} has no `{option}`: {help}");
        }
        let both = cdb(&*format!("{command} --yes --dry-run")).await;
        assert_eq!(both.exit, Exit::Usage, "{command}: {both:?}");
    }
}

#[tokio::test]
async fn the_answer_of_every_change_names_the_operator() {
    let account = Account::start().await;
    let container = fill(&account).await;
    dead_intent(&container).await;
    for change in [
        "instances start order-9 Order",
        "instances raise order-2 Approved",
        "instances pause order-2",
        "instances resume order-2",
        "instances prune order-2",
        "instances restart order-1 --input 1",
        "instances cancel order-2",
        "instances delete order-1",
        "limits set * --running 3",
        "limits remove *",
        "messages discard intent-turn-1@order-3",
    ] {
        let run = account
            .cdb(&*format!("{change} --yes --by ada --json"))
            .await;
        assert_eq!(run.exit, Exit::Ok, "{run:?}");
        let answer: Value = serde_json::from_str(&run.out).expect("JSON");
        let by = match change {
            change if change.starts_with("limits") => &answer["changed"]["by"],
            _ => &answer["by"],
        };
        assert_eq!(by, "ada", "{run:?}");
    }
}
