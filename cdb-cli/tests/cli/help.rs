//! The help of every command.

use cdb_cli::Exit;

use crate::harness::{cdb, ends, snapshot};

pub(crate) const COMMANDS: &[&str] = &[
    "",
    "change-feed",
    "completions",
    "dashboard",
    "doctor",
    "emulator",
    "export",
    "import",
    "instances",
    "instances cancel",
    "instances delete",
    "instances fork",
    "instances history",
    "instances list",
    "instances pause",
    "instances prune",
    "instances raise",
    "instances replay",
    "instances restart",
    "instances resume",
    "instances rewind",
    "instances show",
    "instances start",
    "instances tree",
    "instances wait",
    "instances watch",
    "limits",
    "limits list",
    "limits remove",
    "limits set",
    "mcp",
    "members",
    "messages",
    "messages discard",
    "messages list",
    "messages redrive",
    "messages show",
    "migrate",
    "model",
    "model diff",
    "policy",
    "policy apply",
    "policy check",
    "policy diff",
    "policy print",
    "queues",
];

#[tokio::test]
async fn every_command_has_a_help_text() {
    for command in COMMANDS {
        let mut arguments: Vec<&str> = command.split_whitespace().collect();
        arguments.push("--help");
        let run = ends(Exit::Ok, cdb(&arguments)).await;
        let name = arguments[..arguments.len() - 1].join("-");
        let name = if name.is_empty() { "cdb" } else { &name };
        snapshot(&format!("help/{name}"), &run.shown());
    }
}

#[tokio::test]
async fn every_command_is_in_the_list_of_help_snapshots() {
    let mut open = vec![String::new()];
    let mut found = Vec::new();
    while let Some(command) = open.pop() {
        let mut arguments: Vec<&str> = command.split_whitespace().collect();
        arguments.push("--help");
        let run = cdb(&arguments).await;
        let listed = run.out.split_once("Commands:\n").map(|(_, rest)| rest);
        let names = listed
            .into_iter()
            .flat_map(str::lines)
            .take_while(|line| !line.is_empty());
        for name in names
            .filter_map(|line| line.split_whitespace().next())
            .filter(|name| *name != "help")
        {
            open.push(format!("{command} {name}").trim().to_owned());
        }
        found.push(command);
    }
    found.sort();
    assert_eq!(found, COMMANDS);
}

#[tokio::test]
async fn a_misspelled_command_is_a_usage_error_with_a_suggestion() {
    let run = cdb("polcy").await;
    assert_eq!(run.exit, Exit::Usage);
    assert!(
        run.err.contains("'policy'") && run.out.is_empty(),
        "{run:?}"
    );
}

#[tokio::test]
async fn completions_are_generated_for_each_shell() {
    for shell in ["bash", "zsh", "fish", "powershell", "elvish"] {
        let run = cdb(&["completions", shell]).await;
        assert_eq!(run.exit, Exit::Ok);
        for word in ["policy", "breaking-only"] {
            assert!(run.out.contains(word), "{shell} does not know {word}");
        }
    }
}
