//! `cdb messages`, with dead messages of instances, outboxes and inboxes.

use std::time::Duration;

use cdb_cli::{Cli, Exit};
use cdb_client::ContainerClient;
use cdb_emulator::{Effect, Fault, OperationKind};
use cdb_model::container::MemberOf;
use cdb_model::{Container, Document};
use cdb_provider::coordination::{Message, MessageDocument, Messaging, Received};
use cdb_provider::documents::{Durable, OutboxIntentKey};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio::sync::mpsc::unbounded_channel;

use crate::fixture::{at, dead_intent, fill};
use crate::harness::{Account, Run, ends};
use crate::shop::Shop;

/// A container with orchestrations and messages, a type that the built-in command does not know.
#[derive(Container)]
#[expect(clippy::large_enum_variant, reason = "the test creates no value")]
enum Mixed {
    #[container(extends)]
    Durable(Durable),
    Message(MessageDocument<Mixed>),
}

#[derive(Document, Serialize, Deserialize)]
#[document(type = "parcel", id = "parcel")]
struct Parcel {
    #[document(partition_key)]
    customer: String,
}

/// A container with messages, with another partition key.
#[derive(Container)]
enum Warehouse {
    Parcel(Parcel),
    Message(MessageDocument<Warehouse>),
}

#[derive(Serialize, Deserialize)]
struct Note {
    text: String,
}

impl Message for Note {
    const TYPE: &'static str = "note";
}

/// Returns a message from `bob` that `ann` could not receive, as `Messaging` stores it.
fn dead<C: Container>(number: u64) -> MessageDocument<C> {
    let (key, stream) = (&C::PARTITION_KEY[0][1..], "0".repeat(32));
    let json = format!(
        r#"{{ "{key}": "ann", "slot": "in-{stream}-{number}", "mailDead": {buried},
            "mail": {{ "kind": "dead", "side": "inbox", "reason": "no such parcel", "letter": {{
                "stream": "{stream}", "number": {number}, "messageType": "note", "payload": "{{\"text\":\"{number}\"}}",
                "from": {{ "container": "duroxide", "partition": ["bob"] }},
                "to": {{ "container": "duroxide", "partition": ["ann"] }}, "sentAt": {sent} }},
                "tries": {{ "counted": 1, "failed": 2, "history": [
                    {{ "at": {sent}, "reason": "the service does not answer" }}, {{ "at": {buried}, "reason": "no such parcel" }}] }} }} }}"#,
        sent = at(100).as_millis(),
        buried = at(100 + number).as_millis(),
    );
    serde_json::from_str(&json).expect("it is the stored form")
}

async fn add_dead_letters<C: Container>(container: &ContainerClient<C>, count: u64)
where
    MessageDocument<C>: MemberOf<C>,
{
    for number in 1..=count {
        ok!(container.run(dead::<C>(number).create()));
    }
}

/// Starts an account with an undelivered message, and dead ones of both sources.
async fn start() -> (Account, ContainerClient<Mixed>) {
    let account = Account::empty().await;
    let mixed = account.container::<Mixed>().await;
    add_dead_letters(&mixed, 3).await;
    let durable = fill(&account).await;
    dead_intent(&durable).await;
    (account, mixed)
}

fn names(run: &Run) -> Vec<String> {
    let names = run.out.lines().filter_map(|line| line.split(' ').next());
    names
        .filter(|name| name.contains('@'))
        .map(str::to_owned)
        .collect()
}

/// Returns the names of all dead messages.
async fn dead_names(account: &Account) -> Vec<String> {
    names(&account.cdb("messages list --state dead").await)
}

#[tokio::test]
async fn dead_messages_of_both_sources_are_listed_and_shown() {
    let (account, _) = start().await;
    let listed = account.cdb("messages list").await;
    listed.is("messages-list");
    let names = names(&listed);
    assert_eq!(names.len(), 5, "{listed:?}");
    for (name, texts) in [
        (
            &names[0],
            &[
                "state:        dead, not delivered\n",
                "why:          create item: 403 Forbidden\n",
                "contents: ExternalRaised Released\n",
            ][..],
        ),
        (
            &names[4],
            &[
                "state:        retrying, not delivered\n",
                "contents: StartOrchestration Ship\n",
            ],
        ),
    ] {
        let shown = account.cdb(&["messages", "show", name]).await;
        for text in texts {
            shown.prints(text);
        }
    }
    let message = account.cdb(&["messages", "show", &names[1]]).await;
    message.is("messages-show");
    let message = account
        .cdb(&["messages", "show", &names[1], "--json"])
        .await;
    message.is("messages-show-json");
    let doctor = account.cdb("doctor").await;
    for (count, place) in [("1 message", "instances"), ("3 messages", "partitions")] {
        doctor.prints(&format!(
            "PROBLEM  messages     dead, until redriven or discarded: {count} between {place}; for example: "
        ));
    }
}

#[tokio::test]
async fn a_filter_selects_messages_by_state_and_source() {
    let (account, _) = start().await;
    let all = names(&account.cdb("messages list").await);
    for (filter, expected) in [
        ("--state dead", &all[..4]),
        ("--state retrying", &all[4..]),
        ("--state dead --source instances", &all[..1]),
        ("--source partitions", &all[1..4]),
        ("--source partitions --state retrying", &[]),
    ] {
        let run = ends(Exit::Ok, account.cdb(&*format!("messages list {filter}"))).await;
        assert_eq!(names(&run), expected, "{filter}");
    }
}

#[tokio::test]
async fn pages_of_all_lists_have_no_gaps_and_no_duplicates() {
    let (account, _) = start().await;
    let all = names(&account.cdb("messages list").await);
    for limit in ["1", "2", "3", "4"] {
        let (mut seen, mut from) = (Vec::new(), None::<String>);
        loop {
            let more = from.iter().flat_map(|from| ["--from", from]);
            let arguments: Vec<&str> = ["messages", "list", "--json", "--limit", limit]
                .into_iter()
                .chain(more)
                .collect();
            let run = ends(Exit::Ok, account.cdb(&arguments)).await;
            let page: Value = serde_json::from_str(&run.out).expect("JSON");
            let rows = page["messages"].as_array().expect("messages");
            seen.extend(
                rows.iter()
                    .filter_map(|row| Some(row["name"].as_str()?.to_owned())),
            );
            let Some(next) = page["next"].as_str() else {
                break;
            };
            from = Some(next.to_owned());
        }
        assert_eq!(seen, all, "by {limit}");
    }
}

#[tokio::test]
async fn a_redriven_message_is_received_and_a_discarded_message_is_deleted() {
    let (account, mixed) = start().await;
    let all = dead_names(&account).await;
    let [intent, first, second, third] = &*all else {
        panic!("{all:?}");
    };
    account
        .cdb(&["messages", "redrive", intent, first])
        .await
        .is("messages-redrive-without-yes");
    account
        .cdb(&["messages", "redrive", intent, first, "--yes"])
        .await
        .is("messages-redrive");
    account
        .cdb(&["messages", "discard", second, "--yes"])
        .await
        .is("messages-discard");
    assert_eq!(dead_names(&account).await, std::slice::from_ref(third));

    let (received, mut notes) = unbounded_channel();
    let messaging = Messaging::builder(mixed).on(move |note: Received<Note>, batch| {
        let received = received.clone();
        async move {
            received.send(note.message.text).expect("the test waits");
            Ok(batch)
        }
    });
    let messaging = messaging.start().expect("the durations fit");
    let note = tokio::time::timeout(Duration::from_secs(1800), notes.recv()).await;
    assert_eq!(note.expect("it is received").as_deref(), Some("1"));
    messaging.stop().await;
    let retried = account.cdb("messages list --state retrying").await;
    assert!(names(&retried).contains(intent), "{retried:?}");
}

#[tokio::test]
async fn all_discards_every_dead_message() {
    let (account, _) = start().await;
    account
        .cdb("messages discard --all --dry-run")
        .await
        .is("messages-discard-all-dry-run");
    let discarded = account.cdb("messages discard --all --yes").await;
    assert_eq!(discarded.out, "discarded 4 messages\n", "{discarded:?}");
    assert_eq!(dead_names(&account).await, Vec::<String>::new());
    let container = account.container::<Durable>().await;
    let key = OutboxIntentKey::new("order-3", "turn-1");
    let intent = container.read(&key).await.expect("it can be read");
    assert!(intent.is_none());
}

#[tokio::test]
async fn a_message_that_stays_does_not_stop_the_others() {
    for (action, done) in [("redrive", "redrove"), ("discard", "discarded")] {
        let (account, _) = start().await;
        let all = dead_names(&account).await;
        let refused = Effect::error(400, 0);
        let fault = Fault::once(refused).on(OperationKind::Delete);
        let fault = fault.on(OperationKind::Batch).on(OperationKind::Patch);
        account.emulator.inject(fault);
        let run = account.cdb(&["messages", action, "--all", "--yes"]).await;
        assert_eq!(run.exit, Exit::Finding, "{run:?}");
        let shown = format!("{done} 3 messages\nnot {done}: {}: ", all[0]);
        assert!(run.out.starts_with(&shown), "{run:?}");
        let left = dead_names(&account).await;
        assert_eq!(left, all[..1], "{run:?}");
    }
}

#[tokio::test]
async fn only_dead_messages_are_redriven_and_discarded() {
    let (account, _) = start().await;
    let missing = ["intent-turn-9@order-3", "in-0-1@missing", "out-0-1@[7]"];
    for name in missing {
        let shown = account.cdb(&*format!("messages show {name}")).await;
        assert_eq!(shown.exit, Exit::Finding, "{shown:?}");
        shown.complains(&format!("message `{name}` is neither dead nor retried"));
    }
    let missing = missing.map(|name| {
        let why = "redriven or discarded before, or the name is wrong";
        (name, format!("not found: `{name}`; {why}"))
    });
    let retried = "intent-turn-2@order-2";
    let says = format!("retried by itself: `{retried}`; only dead messages are redriven");
    for (name, says) in missing.iter().chain(&[(retried, says.clone())]) {
        for action in ["redrive", "discard"] {
            for confirmation in ["--yes", "--dry-run"] {
                let command = format!("messages {action} {name} {confirmation}");
                let run = ends(Exit::Finding, account.cdb(&*command)).await;
                run.complains(says);
            }
        }
    }
    let both = format!("messages discard {retried} intent-turn-1@order-3 --yes");
    let run = ends(Exit::Finding, account.cdb(&*both)).await;
    run.prints(&format!("discarded 1 message\n{says}"));
    let left = account.cdb("messages list --source instances").await;
    assert_eq!(names(&left), [retried], "{left:?}");
}

/// An interrupted run has redriven or discarded the first of them.
#[tokio::test]
async fn a_repeated_run_does_what_is_left_and_reports_what_is_gone() {
    for (action, done) in [("redrive", "redrove"), ("discard", "discarded")] {
        let (account, _) = start().await;
        let all = dead_names(&account).await;
        let [_, first, second, third] = &*all else {
            panic!("{all:?}");
        };
        let run = async |names: &[&String], confirmation| {
            let names = names.iter().map(|name| name.as_str());
            let command = ["messages", action].into_iter().chain(names);
            let command: Vec<&str> = command.chain([confirmation]).collect();
            account.cdb(&command).await
        };
        ends(Exit::Ok, run(&[first], "--yes")).await;
        let planned = ends(Exit::Finding, run(&[first, second, second], "--dry-run")).await;
        planned.prints(&format!("would {action} 1 message\n"));
        planned.prints(&format!(
            "\nnot found: `{first}`; redriven or discarded before"
        ));
        let again = ends(Exit::Finding, run(&[first, second, second, third], "--yes")).await;
        again.prints(&format!(
            "{done} 2 messages\nnot found: `{first}`; redriven or discarded before, or the name is wrong\n"
        ));
        let none = ends(Exit::Finding, run(&[first, second], "--yes")).await;
        none.complains(&format!(
            "not found: `{first}`, `{second}`; redriven or discarded before, or the name is wrong"
        ));
        assert_eq!(none.out, "", "nothing was done");
    }
}

#[tokio::test]
async fn a_source_narrows_all() {
    let (account, _) = start().await;
    let of = "messages discard --all --source";
    let run = account.cdb(&*format!("{of} instances --yes")).await;
    assert_eq!(run.out, "discarded 1 message\n", "{run:?}");
    assert_eq!(dead_names(&account).await.len(), 3);
}

#[tokio::test]
async fn the_arguments_are_checked() {
    let (account, _) = start().await;
    let (page, lacks) = ("`next` of the previous page", "holds no ordered work");
    for (arguments, says) in [
        ("list --source work", lacks),
        ("list --from nonsense", page),
        ("list --from 9", page),
        ("show order-3", "use a name from `messages list`"),
        ("discard --all --source work --yes", lacks),
        (
            "discard in-0-1@ann --source partitions",
            "cannot be used with",
        ),
        ("redrive --yes", "<NAME|--all>"),
        ("redrive work-004:message:inbox:a:b --yes", lacks),
    ] {
        let run = ends(Exit::Usage, account.cdb(&*format!("messages {arguments}"))).await;
        run.complains(says);
    }
}

#[tokio::test]
async fn a_program_redrives_the_messages_of_its_own_container() {
    let account = Account::empty().await;
    let warehouse = account.container::<Warehouse>().await;
    add_dead_letters(&warehouse, 2).await;
    let cli = Cli::<Warehouse>::new("duroxide");
    let listed = account.run(&cli, "messages list").await;
    assert_eq!(names(&listed).len(), 2, "{listed:?}");
    let run = account.run(&cli, "messages redrive --all --yes").await;
    assert_eq!(run.out, "redrove 2 messages\n", "{run:?}");
    // The built-in command cannot write documents with another partition key.
    let refused = ends(Exit::Usage, account.cdb("messages list")).await;
    refused.complains("partitioned by /customer");
    refused.complains("cdb_cli::run");
}

#[tokio::test]
async fn a_container_without_either_source_is_a_usage_error() {
    let account = Account::empty().await;
    account.container::<Shop>().await;
    let run = account
        .run(&Cli::<Shop>::new("duroxide"), "messages list")
        .await;
    assert_eq!(run.exit, Exit::Usage, "{run:?}");
    run.complains("holds neither orchestrations nor messages");
}
