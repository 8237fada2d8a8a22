//! The indexing policy: the file matches the model, and every index serves a query.

use std::time::Duration;

use cdb_provider::documents::Durable;
use cdb_provider::model::Container;
use cdb_provider::model::policy::IndexingPolicy;
use cdb_provider::model::shape::Direction;
use cdb_provider::{
    CosmosDBProvider, CosmosDBProviderConfig, InMemoryLeaseProvider, SearchAttributes,
};
use cdb_tests::Backend;
use duroxide::providers::{
    InstanceFilter, Provider, ProviderAdmin, SessionFetchConfig, TagFilter, WorkItem,
};

#[test]
fn the_checked_in_policy_is_the_model_s() {
    let path = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../provider/indexing-policy.json"
    );
    let file = std::fs::read_to_string(path).expect("provider/indexing-policy.json is there");
    let model = Durable::definition().indexing_policy().to_json_pretty();
    assert_eq!(file.trim_end(), model, "regenerate it with `cargo policy`");
    let parsed: IndexingPolicy = serde_json::from_str(&file).expect("it is a policy");
    assert_eq!(parsed, *Durable::definition().indexing_policy());
}

/// The documents of the example, as its users would write them.
#[path = "../../provider/examples/own_document/shop.rs"]
mod shop;

#[test]
fn the_example_s_checked_in_policy_is_its_model_s() {
    let path = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../provider/examples/own_document/indexing-policy.json"
    );
    let file = std::fs::read_to_string(path).expect("the example has its policy beside it");
    let model = shop::Shop::definition().indexing_policy().to_json_pretty();
    assert_eq!(
        file.trim_end(),
        model,
        "regenerate it with `cargo xtask shop-policy`"
    );
}

/// The SQL of all queries of the provider, as received by the emulator.
async fn queries() -> Option<Vec<String>> {
    let backend = Backend::start_simulated().await;
    let Some(emulator) = backend.emulator() else {
        println!("skipped: only the emulator tells which queries it was asked");
        return None;
    };
    ask_everything(&backend.provider().await).await;
    let queries: Vec<String> = emulator.requests().queries.into_keys().collect();
    assert!(queries.len() > 10, "{queries:?}");
    Some(queries)
}

#[tokio::test(start_paused = true)]
async fn every_query_of_the_provider_is_served_by_indexes() {
    let queries = or_skip!(queries().await);
    let definition = Durable::definition();
    let policy = definition.indexing_policy();
    for sql in queries {
        // Paths before the condition are returned, not searched.
        let searched = sql
            .split_once(" WHERE ")
            .map_or("", |(_, searched)| searched);
        for part in searched.split("c[\"").skip(1) {
            let name = part.split('"').next().unwrap_or_default();
            let path = format!("/{name}/?");
            let paths = [path.clone(), format!("/{name}/*")];
            let included = policy.included_paths.iter();
            let included = included
                .map(|known| &known.path)
                .any(|known| paths.contains(known));
            assert!(included, "{path} is searched without an index: {sql}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn every_index_serves_a_query_of_the_provider() {
    let queries = or_skip!(queries().await);
    let asks = |text: &str| queries.iter().any(|sql| sql.contains(text));
    let property = |path: &str| {
        let names = path
            .trim_end_matches("/?")
            .trim_end_matches("/*")
            .split('/')
            .filter(|name| !name.is_empty());
        names.fold("c".to_owned(), |text, name| format!("{text}[\"{name}\"]"))
    };
    let definition = Durable::definition();
    let policy = definition.indexing_policy();
    for included in &policy.included_paths {
        let property = property(&included.path);
        assert!(
            asks(&property),
            "no query needs an index on {}",
            included.path
        );
    }
    for composite in &policy.composite_indexes {
        let sort = |inverted: bool| {
            let keys = composite.iter().map(|path| {
                let descending = (path.order == Direction::Descending) != inverted;
                format!(
                    "{} {}",
                    property(&path.path),
                    if descending { "DESC" } else { "ASC" }
                )
            });
            format!("ORDER BY {}", keys.collect::<Vec<_>>().join(", "))
        };
        assert!(
            asks(&sort(false)) || asks(&sort(true)),
            "no query sorts by {composite:?}"
        );
    }
}

#[derive(SearchAttributes)]
struct Search {
    customer: String,
}

/// Every kind of query that the provider has.
async fn ask_everything(provider: &CosmosDBProvider) {
    let lock = Duration::from_secs(5);
    let activity = WorkItem::ActivityExecute {
        instance: "policy".to_owned(),
        execution_id: 1,
        id: 1,
        name: "Work".to_owned(),
        input: String::new(),
        session_id: Some("session".to_owned()),
        tag: Some("gpu".to_owned()),
    };
    ok!(provider.enqueue_for_worker(activity));
    let session = SessionFetchConfig {
        owner_id: "worker".to_owned(),
        lock_timeout: Duration::from_millis(1),
    };
    let gpu = TagFilter::tags(["gpu"]);
    let share = InMemoryLeaseProvider::share(0, 2);
    let container = provider.container().clone();
    let config = CosmosDBProviderConfig {
        leases: Some(std::sync::Arc::new(share)),
        ..cdb_tests::settings()
    };
    let shared = ok!(CosmosDBProvider::on(container, &config));
    for provider in [&shared, provider] {
        let fetch = provider.fetch_work_item(lock, Duration::ZERO, None, &TagFilter::DefaultOnly);
        fetch.await.expect("fetch");
        let fetch = provider.fetch_orchestration_item(lock, Duration::ZERO, None);
        fetch.await.expect("fetch");
    }
    let fetch = provider.fetch_work_item(lock, Duration::ZERO, Some(&session), &gpu);
    fetch.await.expect("fetch");
    provider.read("policy").await.expect("read");
    ok!(provider.renew_session_lock(&["worker"], lock, lock));
    tokio::time::sleep(Duration::from_millis(20)).await;
    ok!(provider.cleanup_orphaned_sessions(lock));
    ok!(provider.list_instances_by_status("Running"));
    provider.list_children("policy").await.expect("list");
    let search = provider.instances_where(Search::CUSTOMER.eq("ada"));
    search.page(10, None).await.expect("a page");
    provider.get_queue_depths().await.expect("count");
    let old = InstanceFilter {
        completed_before: Some(1),
        ..InstanceFilter::default()
    };
    provider.delete_instance_bulk(old).await.expect("delete");
    // The reconciler searches the outbox in the background.
    tokio::time::sleep(Duration::from_millis(400)).await;
}
