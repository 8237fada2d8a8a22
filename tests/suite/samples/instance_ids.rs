//! Instance ids of any kind: all work, and none is confused with another.

use std::collections::BTreeMap;

use duroxide::runtime::registry::ActivityRegistry;
use duroxide::{ActivityContext, OrchestrationContext, OrchestrationRegistry};

use crate::harness::TestEnv;

/// Ids that look alike, or like syntax of cdb, Cosmos DB, SQL or HTTP.
fn odd_ids() -> Vec<String> {
    let ids = [
        "a",
        "A",
        "a ",
        " a",
        "a:b",
        "a:b:history:1:1",
        "a%3Ab",
        "a~b",
        "a/b",
        "a\\b",
        "a?b#c",
        "a%2Fb",
        "it's \"quoted\"",
        "'; DROP TABLE documents; --",
        "@p0",
        "two\nlines\tand a tab",
        "\u{0}null",
        "über-größe",
        "u\u{308}ber-gro\u{308}ße",
        "注文",
        "👩‍🚀 in orbit",
        "../..",
        "..",
        ".",
        "instance",
        "{\"json\":1}",
    ];
    let mut ids: Vec<String> = ids.into_iter().map(str::to_owned).collect();
    ids.push("x".repeat(200));
    ids.push(format!("{}y", "x".repeat(199)));
    ids
}

#[tokio::test]
async fn ids_of_any_kind_work_without_collisions() {
    let activities = ActivityRegistry::builder()
        .register("Echo", |ctx: ActivityContext, text: String| async move {
            Ok(format!("{text} in {}", ctx.instance_id()))
        })
        .build();
    let orchestrations = OrchestrationRegistry::builder()
        .register(
            "Child",
            |_: OrchestrationContext, text: String| async move { Ok(text) },
        )
        .register(
            "Echo",
            |ctx: OrchestrationContext, text: String| async move {
                ctx.set_kv_value("it's a \"key\"/with:all", &*text);
                let echo = ctx.schedule_activity("Echo", text).await?;
                ctx.schedule_sub_orchestration("Child", echo).await
            },
        )
        .build();
    let env = TestEnv::start(activities, orchestrations).await;
    let mut expected = BTreeMap::new();
    for (n, id) in odd_ids().into_iter().enumerate() {
        let started = env
            .client
            .start_orchestration(&*id, "Echo", n.to_string())
            .await;
        started.unwrap_or_else(|error| panic!("{id:?} does not start: {error}"));
        assert_eq!(expected.insert(id, n), None);
    }
    for (id, n) in &expected {
        let ended = env.end_of(id).await;
        assert_eq!(ended, Ok(format!("{n} in {id}")), "{id:?}");
        let key = "it's a \"key\"/with:all";
        let value = env.client.get_kv_value(id, key).await;
        assert_eq!(value.expect("a value"), Some(n.to_string()), "{id:?}");
    }
    let mut roots = env.client.list_all_instances().await.expect("a list");
    roots.retain(|id| !id.contains("::sub::"));
    roots.sort();
    assert_eq!(roots, expected.into_keys().collect::<Vec<_>>());
    env.stop().await;
}
