//! The members of every JSON answer: what scripts rely on changes only together with this list, which stands in `docs/cli.md`.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use cdb_client::ContainerChange;
use cdb_model::Container;
use cdb_provider::documents::Durable;
use serde_json::Value;

use crate::fixture::{fill, give_up, members};
use crate::harness::{Account, cdb, snapshot};

/// A command for each form of answer, and what completes it where it is run.
const COMMANDS: &[(&str, &[&str])] = &[
    ("policy diff", &[]),
    ("policy check", &[]),
    ("model", &[]),
    ("instances list", &["--limit", "2"]),
    ("instances show", &["order-2"]),
    ("instances history", &["order-2"]),
    ("instances tree", &["order-2"]),
    ("instances delete --dry-run", &["order-1"]),
    ("instances delete --yes", &["order-1"]),
    ("instances raise", &["order-2", "Approved"]),
    ("queues", &["--slots"]),
    ("outbox", &[]),
    ("members", &[]),
    ("deadletters list", &["--limit", "1"]),
    ("deadletters show", &["intent-turn-1@order-3"]),
    ("deadletters discard --dry-run", &["--all"]),
    ("deadletters discard --yes", &["--all"]),
    ("doctor", &[]),
];

/// The names of members, by the place of the object that has them.
type Places = BTreeMap<String, BTreeSet<String>>;

fn collect(value: &Value, place: &str, into: &mut Places) {
    match value {
        Value::Array(values) => {
            for value in values {
                collect(value, &format!("{place}[]"), into);
            }
        }
        Value::Object(object) => {
            let names = into.entry(place.to_owned()).or_default();
            names.extend(object.keys().cloned());
            // What an event carries is duroxide's, and differs by its kind.
            for (name, value) in object.iter().filter(|(name, _)| *name != "data") {
                let inner = format!("{place}.{name}");
                collect(value, inner.trim_start_matches('.'), into);
            }
        }
        _ => {}
    }
}

async fn answer(account: &Account, command: &str, rest: &[&str]) -> Places {
    let mut arguments: Vec<&str> = command.split(' ').collect();
    arguments.extend(rest);
    arguments.push("--json");
    // The model is known without an account.
    let run = match command {
        "model" => cdb(&arguments).await,
        _ => account.cdb(&arguments).await,
    };
    let answer = serde_json::from_str(&run.out);
    let mut found = Places::new();
    collect(
        &answer.unwrap_or_else(|error| panic!("{error}: {run:?}")),
        "",
        &mut found,
    );
    found
}

#[tokio::test]
async fn every_answer_in_json_has_the_members_that_the_book_lists() {
    let account = Account::start().await;
    let container = fill(&account).await;
    members(&container).await;
    give_up(&container).await;
    // So that there are differences to list.
    let mut policy = Durable::definition().indexing_policy;
    policy
        .included_paths
        .retain(|path| path.path != "/status/?");
    let change = ContainerChange::default().with_indexing_policy(policy);
    let changed = account
        .database()
        .change_container("duroxide", &change)
        .await;
    changed.expect("it is taken");
    let mut list = String::new();
    for (command, rest) in COMMANDS {
        writeln!(list, "{command}").expect("text");
        for (place, names) in answer(&account, command, rest).await {
            let names: Vec<String> = names.into_iter().collect();
            let place = if place.is_empty() {
                place
            } else {
                place + ": "
            };
            writeln!(list, "  {place}{}", names.join(" ")).expect("text");
        }
    }
    snapshot("json-members", &list);
    let book = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/cli.md");
    let book = std::fs::read_to_string(book).expect("it is there");
    assert!(
        book.contains(&list),
        "docs/cli.md does not hold tests/snapshots/json-members.txt"
    );
}
