//! The examples in the help of each command.

use clap::Command;

/// A command's path, and its examples without the program's name.
const EXAMPLES: &[(&str, &[&str])] = &[
    (
        "policy print",
        &["policy print", "policy print --definition"],
    ),
    (
        "policy diff",
        &[
            "policy diff",
            "policy diff --file provider/indexing-policy.json",
        ],
    ),
    (
        "policy apply",
        &["policy apply --dry-run", "policy apply --create"],
    ),
    (
        "policy check",
        &[
            "policy check --breaking-only",
            "policy check --file provider/indexing-policy.json",
        ],
    ),
    ("model", &["model", "model --diagram mermaid"]),
    (
        "model diff",
        &[
            "model diff production.json",
            "model diff production.json --json",
        ],
    ),
    (
        "instances list",
        &[
            "instances list --status failed --newer-than 24h",
            "instances list --where customer=ada --where 'total>100' --sort -total",
        ],
    ),
    (
        "instances start",
        &[
            "instances start order-1 Order '{\"cents\":990}'",
            "instances start order-1 Order --wait",
        ],
    ),
    (
        "instances wait",
        &["instances wait order-1", "instances wait order-1 --for 30s"],
    ),
    (
        "instances watch",
        &["instances watch order-1", "instances watch order-1 --json"],
    ),
    (
        "instances show",
        &["instances show order-1", "instances show order-1 --full"],
    ),
    (
        "instances history",
        &[
            "instances history order-1",
            "instances history order-1 --execution 2 --full",
        ],
    ),
    (
        "instances tree",
        &["instances tree order-1", "instances tree order-1 --json"],
    ),
    (
        "instances cancel",
        &[
            "instances cancel order-1 order-2 --reason 'wrong price' --yes",
            "instances cancel --orchestration Order --older-than 7d --dry-run",
        ],
    ),
    (
        "instances pause",
        &[
            "instances pause order-1 --tree --yes",
            "instances pause --where customer=ada --yes",
        ],
    ),
    (
        "instances resume",
        &[
            "instances resume order-1 --tree --yes",
            "instances resume --paused --yes",
        ],
    ),
    (
        "instances restart",
        &[
            "instances restart order-1 --yes",
            "instances restart order-1 --as order-1b --input '{\"cents\":990}' --yes",
        ],
    ),
    (
        "instances rewind",
        &[
            "instances rewind order-1 --dry-run",
            "instances rewind --status failed --orchestration Order --yes",
        ],
    ),
    (
        "instances fork",
        &[
            "instances fork order-1 --event 7 --as order-1-fork",
            "instances fork order-1 --execution 1 --event 4 --as order-1-first",
        ],
    ),
    (
        "instances raise",
        &[
            "instances raise order-1 Approved '{\"by\":\"ada\"}'",
            "instances raise order-1 Approved --queue",
        ],
    ),
    (
        "instances replay",
        &[
            "instances replay --orchestration Order",
            "instances replay --file production.jsonl",
        ],
    ),
    (
        "instances delete",
        &[
            "instances delete order-1 --yes",
            "instances delete --status failed --ended-before 30d --dry-run",
        ],
    ),
    (
        "instances prune",
        &[
            "instances prune order-1 --keep 3 --yes",
            "instances prune --ended-before 30d --dry-run",
        ],
    ),
    ("queues", &["queues", "queues --slots"]),
    (
        "messages list",
        &[
            "messages list --state dead",
            "messages list --source work --json",
        ],
    ),
    (
        "messages show",
        &[
            "messages show intent-turn-1@order-3",
            "messages show work-007:message:inbox:order-7:paid-1 --json",
        ],
    ),
    (
        "messages redrive",
        &[
            "messages redrive intent-turn-1@order-3 --yes",
            "messages redrive --all --source work --dry-run",
        ],
    ),
    (
        "messages discard",
        &[
            "messages discard intent-turn-1@order-3 --yes",
            "messages discard --all --dry-run",
        ],
    ),
    (
        "change-feed",
        &[
            "change-feed --container change-feeds",
            "change-feed --container change-feeds --json",
        ],
    ),
    #[cfg(feature = "mcp")]
    ("mcp", &["mcp", "mcp --allow-actions"]),
    ("limits list", &["limits list", "limits list --json"]),
    (
        "limits set",
        &[
            "limits set activity=CallBank --running 10",
            "limits set 'tenant=*' --per-second 5 --dry-run",
        ],
    ),
    (
        "limits remove",
        &[
            "limits remove activity=CallBank",
            "limits remove 'tenant=*' --dry-run",
        ],
    ),
    ("members", &["members", "members --json"]),
    (
        "export",
        &[
            "export --out shop.jsonl",
            "export --instance order-1 --out order-1.jsonl",
        ],
    ),
    (
        "import",
        &[
            "import order-1.jsonl --endpoint http://localhost:8081 --create",
            "import shop.jsonl --max-rus 2000",
        ],
    ),
    (
        "migrate",
        &[
            "migrate --position shop.position --max-rus 2000",
            "migrate --json",
        ],
    ),
    ("doctor", &["doctor --json", "doctor --account"]),
    #[cfg(feature = "dashboard")]
    ("dashboard", &["dashboard", "dashboard --port 9000"]),
    #[cfg(feature = "emulator")]
    (
        "emulator",
        &["emulator", "emulator --port 0 --data .cosmos"],
    ),
    ("completions", &["completions bash", "completions zsh"]),
];

/// Adds the examples to the help of each command, for a user who calls it `program`.
pub(crate) fn add_to(command: Command, program: &str) -> Command {
    let command = command.mut_subcommand("completions", |found| {
        let about = found.get_long_about().map(ToString::to_string);
        let about = about.unwrap_or_default();
        found.long_about(about.replace("cdb completions", &format!("{program} completions")))
    });
    EXAMPLES.iter().fold(command, |command, (path, examples)| {
        let lines = examples.iter().map(|line| format!("\n  {program} {line}"));
        let text = format!("Examples:{}", lines.collect::<String>());
        on_subcommand(command, path, &|found| found.after_help(text.clone()))
    })
}

/// Changes the subcommand at a path of names.
fn on_subcommand(command: Command, path: &str, change: &dyn Fn(Command) -> Command) -> Command {
    let (name, rest) = path.split_once(' ').unwrap_or((path, ""));
    command.mut_subcommand(name, |found| match rest {
        "" => change(found),
        rest => on_subcommand(found, rest, change),
    })
}

#[cfg(test)]
mod tests {
    use clap::{CommandFactory as _, Parser as _};

    use super::*;
    use crate::program::args::Args;

    fn leaves(command: &Command, path: &str, found: &mut Vec<String>) {
        let mut commands = command.get_subcommands().peekable();
        if commands.peek().is_none() {
            found.push(path.trim().to_owned());
        }
        for inner in commands {
            leaves(inner, &format!("{path} {}", inner.get_name()), found);
        }
    }

    #[test]
    fn every_command_has_two_examples_of_itself() {
        let mut commands = Vec::new();
        leaves(&Args::command(), "", &mut commands);
        let with_examples: Vec<&str> = EXAMPLES.iter().map(|(path, _)| *path).collect();
        for command in &commands {
            assert!(with_examples.contains(&&**command), "{command}");
        }
        for (path, examples) in EXAMPLES {
            assert_eq!(examples.len(), 2, "{path}");
            assert!(examples.iter().all(|example| example.starts_with(path)));
        }
    }

    #[test]
    fn every_example_is_accepted() {
        for example in EXAMPLES.iter().flat_map(|(_, examples)| *examples) {
            // A quoted word of the examples holds no quote of its own.
            let words = example.split('\'').enumerate().flat_map(|(at, part)| {
                if at % 2 == 1 {
                    vec![part]
                } else {
                    part.split_whitespace().collect::<Vec<&str>>()
                }
            });
            let parsed = Args::try_parse_from(std::iter::once("cdb").chain(words));
            if let Err(error) = parsed {
                panic!("{example}: {error}");
            }
        }
    }
}
