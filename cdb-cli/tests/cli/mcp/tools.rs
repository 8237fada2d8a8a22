//! The tools, their arguments and the confirmation of changes.

use std::fmt::Write as _;

use cdb_model::Document as _;
use cdb_provider::documents::{HistorySegment, NEVER, OutboxIntent, Status};
use serde_json::json;

use super::client::Client;
use crate::fixture::{at, fill, instance, started};
use crate::harness::{Account, snapshot};

#[tokio::test]
async fn a_restart_answers_the_ids_of_the_new_instances() {
    let account = Account::start().await;
    let container = fill(&account).await;
    let segment = HistorySegment::pack("order-1", 1, &[started("order-1")]);
    let segment = segment.expect("it packs").expect("events");
    container.run(segment.create()).await.expect("a segment");
    let mut client = Client::with_actions(&account).await;
    let arguments = json!({ "instances": ["order-1"] });
    let restarted = client.change("instances_restart", arguments).await;
    assert_eq!(restarted.answer["started"], json!(["order-1-restart"]));
}

#[tokio::test]
async fn every_tool_stands_in_the_snapshot_with_its_arguments() {
    let account = Account::start().await;
    let mut client = Client::with_actions(&account).await;
    assert!(
        client.about["instructions"]
            .as_str()
            .is_some_and(|text| text.contains("doctor"))
    );
    let listed = client.request("tools/list", json!({})).await;
    let mut text = String::new();
    for tool in listed["tools"].as_array().expect("a list") {
        let annotations = &tool["annotations"];
        let kind = match (
            annotations["readOnlyHint"].as_bool(),
            annotations["destructiveHint"].as_bool(),
        ) {
            (Some(true), _) => "reads",
            (_, Some(true)) => "changes, destructive",
            _ => "changes",
        };
        let schema = &tool["inputSchema"];
        let required = schema["required"].as_array().expect("a list");
        let arguments = schema["properties"].as_object().expect("an object");
        let arguments = arguments.iter().map(|(name, property)| {
            assert!(
                property["description"]
                    .as_str()
                    .is_some_and(|text| !text.is_empty()),
                "{tool}"
            );
            let mark = if required.contains(&json!(name)) {
                "!"
            } else {
                ""
            };
            let of = match property["enum"].as_array() {
                Some(_) => "enum",
                None => property["type"].as_str().expect("a type"),
            };
            format!("{name}{mark}:{of}")
        });
        let arguments = arguments.collect::<Vec<_>>().join(" ");
        let name = tool["name"].as_str().expect("a name");
        assert!(
            !tool["description"].as_str().unwrap_or_default().is_empty(),
            "{name}"
        );
        writeln!(text, "{name} ({kind}) {arguments}").expect("text");
    }
    snapshot("mcp-tools", &text);
    assert!(client.end().await);
}

#[tokio::test]
async fn without_actions_there_are_only_tools_that_read() {
    let account = Account::start().await;
    fill(&account).await;
    let mut client = Client::start(&account, &[]).await;
    let listed = client.request("tools/list", json!({})).await;
    let tools = listed["tools"].as_array().expect("a list");
    assert!(
        tools.len() > 10
            && tools
                .iter()
                .all(|tool| tool["annotations"]["readOnlyHint"] == true)
    );
    let refused = client
        .call("instances_delete", json!({ "instances": ["order-1"] }))
        .await;
    assert!(
        refused.is_error && refused.text.contains("no tool `instances_delete`"),
        "{refused:?}"
    );
    let shown = client
        .read("instances_show", json!({ "instance": "order-1" }))
        .await;
    assert_eq!(shown.answer["status"], "Completed");
}

#[tokio::test]
async fn the_answer_of_a_tool_is_the_json_of_its_command() {
    let account = Account::start().await;
    fill(&account).await;
    let mut client = Client::start(&account, &[]).await;
    let run = account
        .cdb(&[
            "instances",
            "list",
            "--status",
            "running",
            "--where",
            "total>100",
            "--limit",
            "1",
            "--json",
        ])
        .await;
    let arguments = json!({ "status": ["running"], "where": ["total>100"], "limit": 1 });
    let listed = client.read("instances_list", arguments).await;
    assert_eq!(
        listed.answer,
        serde_json::from_str::<serde_json::Value>(&run.out).expect("JSON")
    );
    let missing = client
        .call(
            "instances_show",
            json!({ "instance": "--endpoint=https://elsewhere" }),
        )
        .await;
    assert!(
        missing.is_error
            && missing
                .text
                .contains("`--endpoint=https://elsewhere` does not exist"),
        "{missing:?}"
    );
}

#[tokio::test]
async fn wrong_arguments_are_refused_with_what_is_right() {
    let account = Account::start().await;
    let mut client = Client::start(&account, &[]).await;
    for (arguments, says) in [
        (
            json!({ "endpoint": "https://elsewhere" }),
            "has no argument `endpoint`; its arguments are: limit, all",
        ),
        (
            json!({ "token_command": "id" }),
            "has no argument `token_command`",
        ),
        (json!({ "all": "yes" }), "`all` takes true or false"),
        (json!({ "limit": {} }), "`limit` takes a text or a number"),
        (
            json!({ "status": ["ended"] }),
            "[possible values: running, completed, failed]",
        ),
        (json!({ "limit": 0 }), "0 is not in 1..=1000"),
    ] {
        let refused = client.call("instances_list", arguments).await;
        assert!(
            refused.is_error && refused.text.contains(says),
            "{says}: {refused:?}"
        );
    }
}

#[tokio::test]
async fn a_change_needs_the_code_of_its_own_plan() {
    let account = Account::start().await;
    fill(&account).await;
    let mut client = Client::with_actions(&account).await;
    let delete =
        |id: &str, confirm: &serde_json::Value| json!({ "instances": [id], "confirm": confirm });
    let first = client
        .read("instances_delete", delete("order-1", &json!(null)))
        .await;
    assert_eq!(first.answer["plan"]["would"], "delete");
    let code = first.answer["confirm"].clone();
    let other = client
        .read("instances_delete", delete("order-3", &code))
        .await;
    assert_eq!(other.answer["changed"], false);
    assert!(other.text.contains("belongs to another call"), "{other:?}");
    let done = client
        .read("instances_delete", delete("order-1", &code))
        .await;
    assert_eq!(done.answer["action"], "deleted");
    let again = client
        .call("instances_delete", delete("order-1", &code))
        .await;
    assert!(
        again.is_error && again.text.contains("does not exist"),
        "{again:?}"
    );
    let start = json!({ "instance": "order-9", "orchestration": "Order", "wait": true });
    let start = client.read("instances_start", start).await;
    assert_eq!(start.answer["plan"]["would"], "start");
    // The plan has changed after it was shown.
    let failed = json!({ "status": ["failed"] });
    let plan = client.read("instances_delete", failed.clone()).await;
    client
        .change("instances_delete", json!({ "instances": ["order-3"] }))
        .await;
    let confirmed = json!({ "status": ["failed"], "confirm": plan.answer["confirm"] });
    let stale = client.read("instances_delete", confirmed).await;
    assert_eq!(stale.answer["changed"], false, "{stale:?}");
}

#[tokio::test]
async fn the_code_of_a_selection_covers_what_its_plan_does_not_list() {
    let account = Account::start().await;
    let container = fill(&account).await;
    for number in 0..12 {
        let failed = instance(&format!("old-{number}"), "Order", Status::Failed, number);
        container.run(failed.create()).await.expect("an instance");
    }
    let dead = |name: &str| OutboxIntent {
        created_at: NEVER,
        ..OutboxIntent::new("order-3", name.to_owned(), "stock", at(90))
    };
    let first = dead("turn-1");
    container.run(first.create()).await.expect("a dead letter");
    let mut client = Client::with_actions(&account).await;
    let selections = [
        ("instances_delete", json!({ "status": ["failed"] })),
        ("messages_discard", json!({ "all": true })),
    ];
    let mut plans = Vec::new();
    for (tool, arguments) in &selections {
        plans.push(client.read(tool, arguments.clone()).await.answer);
    }
    assert_eq!(plans[0]["plan"]["count"], 13);
    assert_eq!(plans[1]["plan"]["count"], 1);
    // Each selection loses an item and gets another one.
    let oldest = instance("old-0", "Order", Status::Failed, 0);
    container
        .run(oldest.key().delete())
        .await
        .expect("it exists");
    let other = instance("older", "Order", Status::Failed, 0);
    container.run(other.create()).await.expect("an instance");
    container
        .run(first.key().delete())
        .await
        .expect("it exists");
    let second = dead("turn-2");
    container.run(second.create()).await.expect("a dead letter");
    for ((tool, arguments), plan) in selections.into_iter().zip(plans) {
        let mut confirmed = arguments;
        confirmed["confirm"] = plan["confirm"].clone();
        let stale = client.read(tool, confirmed).await.answer;
        assert_eq!(stale["changed"], false, "{stale}");
        assert_eq!(stale["plan"]["count"], plan["plan"]["count"]);
        assert_eq!(stale["plan"]["instances"], plan["plan"]["instances"]);
    }
}

#[tokio::test]
async fn a_change_records_the_client() {
    let account = Account::start().await;
    fill(&account).await;
    let mut client = Client::with_actions(&account).await;
    client
        .change(
            "instances_fork",
            json!({ "instance": "order-2", "as": "copy", "event": 2 }),
        )
        .await;
    let shown = client
        .read("instances_show", json!({ "instance": "copy" }))
        .await;
    assert_eq!(shown.answer["origin"]["by"], "mcp: a test", "{shown:?}");
}

#[tokio::test]
async fn calls_end_when_they_are_cancelled_and_when_the_client_leaves() {
    let account = Account::start().await;
    fill(&account).await;
    let mut client = Client::start(&account, &[]).await;
    let arguments = json!({ "instance": "order-2", "for": "24h" });
    let wait = json!({ "name": "instances_wait", "arguments": arguments });
    // More than run at the same time: a call that went on would delay the others.
    for _ in 0..20 {
        let id = client.begin("tools/call", wait.clone()).await;
        client.cancel(id).await;
    }
    let short = json!({ "instance": "order-2", "for": "0s" });
    client.call("instances_wait", short).await;
    client.begin("tools/call", wait).await;
    assert!(client.end().await);
}

#[tokio::test]
async fn calls_that_wait_do_not_hold_up_the_others() {
    let account = Account::start().await;
    fill(&account).await;
    let mut client = Client::start(&account, &[]).await;
    let arguments = json!({ "instance": "order-2", "for": "24h" });
    let wait = json!({ "name": "instances_wait", "arguments": arguments });
    for _ in 0..8 {
        client.begin("tools/call", wait.clone()).await;
    }
    let listed = client.read("instances_list", json!({ "limit": 1 })).await;
    assert_eq!(listed.answer["instances"][0]["id"], "order-3");
    assert!(client.end().await);
}
