//! The members of every JSON answer. The README of this crate links the snapshot, because scripts depend on
//! it.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use serde_json::Value;

use crate::fixture::{dead_intent, fill, members, remove_status_index};
use crate::harness::{Account, cdb, snapshot};
use crate::retrying::{Mixed, coordinator, fail, failing, failing_feed};

/// A command for each form of answer, with its arguments.
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
    ("limits list", &[]),
    ("members", &[]),
    ("messages list", &["--limit", "1"]),
    ("messages show", &["intent-turn-1@order-3"]),
    ("messages discard --dry-run", &["--all"]),
    ("messages discard --yes", &["--all"]),
    ("doctor", &[]),
];

/// The names of members, by the path of their object.
type Members = BTreeMap<String, BTreeSet<String>>;

fn collect(value: &Value, path: &str, into: &mut Members) {
    match value {
        Value::Array(values) => {
            for value in values {
                collect(value, &format!("{path}[]"), into);
            }
        }
        Value::Object(object) => {
            let names = into.entry(path.to_owned()).or_default();
            names.extend(object.keys().cloned());
            // duroxide defines the data of an event, which differ by its kind; programs define the
            // search attributes.
            let own = |name: &str| !matches!(name, "data" | "attributes");
            for (name, value) in object.iter().filter(|(name, _)| own(name)) {
                let inner = format!("{path}.{name}");
                collect(value, inner.trim_start_matches('.'), into);
            }
        }
        _ => {}
    }
}

async fn answer(account: &Account, command: &str, rest: &[&str]) -> Members {
    let mut arguments: Vec<&str> = command.split(' ').collect();
    arguments.extend(rest);
    arguments.push("--json");
    // `model` has no connection options.
    let run = match command {
        "model" => cdb(&arguments).await,
        _ => account.cdb(&arguments).await,
    };
    let answer = serde_json::from_str(&run.out);
    let mut found = Members::new();
    collect(
        &answer.unwrap_or_else(|error| panic!("{error}: {run:?}")),
        "",
        &mut found,
    );
    found
}

fn print(list: &mut String, command: &str, members: Members) {
    writeln!(list, "{command}").expect("text");
    for (path, names) in members {
        let names: Vec<String> = names.into_iter().collect();
        let path = if path.is_empty() { path } else { path + ": " };
        writeln!(list, "  {path}{}", names.join(" ")).expect("text");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_json_answer_has_the_documented_members() {
    let account = Account::start().await;
    let container = fill(&account).await;
    members(&container).await;
    dead_intent(&container).await;
    let paused = account
        .cdb("limits set --by ada * --running 0 --per-second 5 --weight 1 --priority low")
        .await;
    paused.prints("paused");
    // A difference, so that the answers list one.
    remove_status_index(&account).await;
    let (messages, work, feeds) = (
        Account::empty().await,
        Account::empty().await,
        Account::empty().await,
    );
    let never = Arc::new(AtomicBool::new(false));
    let _messaging = failing(messages.container::<Mixed>().await, never.clone()).await;
    for (stream, max_attempts) in [("order-7", 3), ("order-8", 1)] {
        let coordinator = coordinator(work.container().await, max_attempts).await;
        fail(&coordinator, stream, "out of stock").await;
        coordinator.shutdown().await.expect("it stops");
    }
    let _processor = failing_feed(&feeds, never).await;
    let mut list = String::new();
    for (command, rest) in COMMANDS {
        print(&mut list, command, answer(&account, command, rest).await);
    }
    let of_work = ["queues", "messages list", "messages discard --yes"];
    for (account, commands) in [
        (&messages, &["queues", "messages list"][..]),
        (&work, &of_work),
        (&feeds, &["queues", "change-feed"]),
    ] {
        for command in commands {
            let rest: &[&str] = if command.contains("--") {
                &["--all"]
            } else {
                &[]
            };
            print(&mut list, command, answer(account, command, rest).await);
        }
    }
    snapshot("json-members", &list);
}
