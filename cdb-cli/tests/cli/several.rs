//! Every subcommand of a program with two containers of one type, of which the second exists.

use std::path::Path;

use cdb_cli::{Cli, Exit};
use cdb_model::Container;
use cdb_provider::coordination::change_feed::ChangeFeedState;
use cdb_provider::documents::Durable;
use cdb_work::Work;

use crate::fixture::{dead_intent, fill};
use crate::harness::{Account, Run, run};
use crate::help::COMMANDS;
use crate::migrate::House;
use crate::orchestration::orchestrations;
use crate::retrying::Mixed;

/// The subcommands that only contain others.
const GROUPS: [&str; 5] = ["", "instances", "limits", "messages", "policy"];

/// The subcommands without a container.
const WITHOUT: [&str; 2] = ["completions", "emulator"];

/// The subcommands that serve until they are ended: `mcp` in the unit tests, `dashboard` below.
const SERVERS: [&str; 2] = ["dashboard", "mcp"];

/// The subcommands that need no account.
const OFFLINE: [&str; 3] = ["model", "model diff", "policy print"];

/// A subcommand with its other arguments, and its exit code where the container exists.
type Call = (&'static str, &'static str, Exit);

const ON_ORCHESTRATIONS: &[Call] = &[
    ("doctor", "", Exit::Finding),
    ("export", "", Exit::Ok),
    ("import", "LINES", Exit::Ok),
    ("instances cancel", "order-2 --dry-run", Exit::Ok),
    ("instances delete", "order-1 --dry-run", Exit::Ok),
    (
        "instances fork",
        "order-2 --as order-9 --event 1 --dry-run",
        Exit::Ok,
    ),
    ("instances history", "order-2", Exit::Ok),
    ("instances list", "", Exit::Ok),
    ("instances pause", "order-2 --dry-run", Exit::Ok),
    ("instances prune", "order-2 --dry-run", Exit::Ok),
    ("instances raise", "order-2 Approved --dry-run", Exit::Ok),
    ("instances replay", "", Exit::Finding),
    ("instances restart", "order-1 --dry-run", Exit::Ok),
    ("instances resume", "order-2 --dry-run", Exit::Ok),
    (
        "instances rewind",
        "--status failed --dry-run",
        Exit::Finding,
    ),
    ("instances show", "order-2", Exit::Ok),
    ("instances start", "order-9 Order --dry-run", Exit::Ok),
    ("instances tree", "order-2", Exit::Ok),
    ("instances wait", "missing", Exit::Finding),
    ("instances watch", "order-1", Exit::Ok),
    ("limits list", "", Exit::Ok),
    ("limits remove", "tenant=* --dry-run", Exit::Ok),
    ("limits set", "tenant=* --running 1 --by ada", Exit::Ok),
    ("members", "", Exit::Ok),
    ("messages discard", "--all --dry-run", Exit::Ok),
    ("messages list", "", Exit::Ok),
    (
        "messages redrive",
        "intent-turn-1@order-3 --dry-run",
        Exit::Ok,
    ),
    ("messages show", "intent-turn-1@order-3", Exit::Ok),
    ("model", "", Exit::Ok),
    ("model diff", "MODEL", Exit::Ok),
    ("policy apply", "--dry-run", Exit::Ok),
    ("policy check", "", Exit::Ok),
    ("policy diff", "", Exit::Ok),
    ("policy print", "", Exit::Ok),
    ("queues", "", Exit::Ok),
];

const ON_MESSAGES: &[Call] = &[("messages list", "--source partitions", Exit::Ok)];

const MESSAGE_OF_WORK: &str = "work-004:message:inbox:order-7:paid-1 --dry-run";

const ON_WORK: &[Call] = &[
    ("messages list", "", Exit::Ok),
    ("messages discard", "--all --dry-run", Exit::Ok),
    ("messages redrive", MESSAGE_OF_WORK, Exit::Finding),
];

const ON_CHANGE_FEEDS: &[Call] = &[("change-feed", "", Exit::Ok)];

const ON_VERSIONS: &[Call] = &[("migrate", "", Exit::Ok)];

#[test]
fn every_subcommand_is_called_with_two_containers() {
    let called = [
        ON_ORCHESTRATIONS,
        ON_MESSAGES,
        ON_WORK,
        ON_CHANGE_FEEDS,
        ON_VERSIONS,
    ];
    let called = called.iter().copied().flatten().map(|(name, ..)| *name);
    let all = called.chain(GROUPS).chain(WITHOUT).chain(SERVERS);
    let mut all: Vec<&str> = all.collect();
    all.sort_unstable();
    all.dedup();
    // `help::COMMANDS` is compared with the command itself.
    assert_eq!(all, COMMANDS);
}

/// Runs each call with the existing container, before and behind the subcommand, with the missing one,
/// and with none. Panics with all that differ.
async fn check<C: Container>(account: &Account, calls: &[Call]) {
    let folder = tempfile::tempdir().expect("a folder");
    let cli = Cli::<C>::new("other").container::<C>("duroxide");
    let cli = cli.orchestrations(orchestrations());
    let files = files(&cli, folder.path()).await;
    let mut wrong = Vec::new();
    for (name, arguments, exit) in calls {
        let words = format!("{name} {arguments}");
        let words = words
            .replace("LINES", &files[0])
            .replace("MODEL", &files[1]);
        let words: Vec<&str> = words.split_whitespace().collect();
        let after = |container| [&words[..], &["--container", container]].concat();
        let before = [&["--container", "duroxide"], &words[..]].concat();
        let missing = match *name {
            name if OFFLINE.contains(&name) => *exit,
            // It reports the missing container as its finding.
            "doctor" => Exit::Finding,
            _ => Exit::Service,
        };
        for (arguments, expected, says) in [
            (words.clone(), Exit::Usage, "one with --container"),
            (after("other"), missing, ""),
            (after("duroxide"), *exit, ""),
            (before, *exit, ""),
        ] {
            let run = on(account, &cli, &arguments).await;
            if run.exit != expected || !run.err.contains(says) {
                wrong.push(format!("expected {expected:?} {says}: {run:?}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

async fn on(account: &Account, cli: &Cli<impl Container>, arguments: &Vec<&str>) -> Run {
    let endpoint = account.emulator.endpoint();
    let key = account.emulator.key();
    let hidden = [
        "--endpoint",
        &*endpoint,
        "--key",
        key,
        "--database",
        "duroxide",
    ];
    // They have no options of the connection.
    let is_offline = |name: &&str| {
        let name: Vec<&str> = name.split(' ').collect();
        let mut windows = arguments.windows(name.len());
        windows.any(|words| words == name)
    };
    let hidden = if OFFLINE.iter().any(is_offline) {
        &[]
    } else {
        &hidden[..]
    };
    run(cli, arguments, hidden).await
}

/// Writes a file for `import` and one for `model diff`.
async fn files(cli: &Cli<impl Container>, folder: &Path) -> [String; 2] {
    let model = run(cli, "model --json --container duroxide", &[]).await;
    let lines = r#"{"id":"x","instanceId":"a"}"#;
    [("lines", lines), ("model", &model.out)].map(|(name, text)| {
        let file = folder.join(name);
        std::fs::write(&file, text).expect("a file");
        file.to_str().expect("UTF-8").to_owned()
    })
}

#[tokio::test]
async fn commands_about_orchestrations_take_the_named_container() {
    let account = Account::start().await;
    dead_intent(&fill(&account).await).await;
    let limit = "limits set tenant=* --running 2 --by ada";
    account.cdb(limit).await.prints("tenant=*");
    check::<Durable>(&account, ON_ORCHESTRATIONS).await;
}

#[tokio::test]
async fn commands_about_messages_work_feeds_and_versions_take_the_named_container() {
    let account = Account::empty().await;
    account.container::<Mixed>().await;
    check::<Mixed>(&account, ON_MESSAGES).await;
    let account = Account::empty().await;
    account.container::<Work>().await;
    check::<Work>(&account, ON_WORK).await;
    let account = Account::empty().await;
    account.container::<ChangeFeedState>().await;
    check::<ChangeFeedState>(&account, ON_CHANGE_FEEDS).await;
    let account = Account::empty().await;
    account.container::<House>().await;
    check::<House>(&account, ON_VERSIONS).await;
}

/// A terminal that is closed, so that the dashboard ends when it shows its address.
struct Closed;

impl std::io::Write for Closed {
    fn write(&mut self, _: &[u8]) -> std::io::Result<usize> {
        Err(std::io::ErrorKind::BrokenPipe.into())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[cfg(feature = "dashboard")]
#[tokio::test]
async fn the_dashboard_serves_the_named_container() {
    let account = Account::start().await;
    let cli = Cli::<Durable>::new("other").container::<Durable>("duroxide");
    let endpoint = account.emulator.endpoint();
    for (container, expected) in [("duroxide", Exit::Ok), ("other", Exit::Service)] {
        let dashboard = ["cdb", "dashboard", "--port", "0", "--container", container];
        let arguments = [&dashboard[..], &["--endpoint", &endpoint]].concat();
        let mut err = Vec::new();
        let exit = cli.run_with(arguments, &mut Closed, &mut err).await;
        let err = String::from_utf8_lossy(&err);
        assert_eq!(exit, expected, "{container}: {err}");
    }
}
