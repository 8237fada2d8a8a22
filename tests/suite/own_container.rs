//! Containers with own document types: the provider opens them as views, with the same schema and
//! gate.

use std::sync::Arc;
use std::time::Duration;

use cdb_client::{Bootstrap, ContainerClient, CosmosClient, MasterKey};
use cdb_emulator::Emulator;
use cdb_model::{Container, Document, Query};
use cdb_provider::documents::{Durable, SCHEMA_PARTITION, SCHEMA_VERSION, Schema, SchemaKey};
use cdb_provider::{
    CosmosDBProvider, CosmosDBProviderConfig, InMemoryLeaseProvider, MembershipConfig,
};
use duroxide::providers::{ProviderAdmin, ProviderError};
use serde::{Deserialize, Serialize};

/// The provider's documents and one type beside them.
#[expect(clippy::large_enum_variant, reason = "tests handle few rows")]
#[derive(Container, Clone, Debug)]
enum Shop {
    #[container(extends)]
    Durable(Durable),
    Order(Order),
}

/// An order.
#[derive(Document, Serialize, Deserialize, Clone, Debug)]
#[serde(rename_all = "camelCase")]
#[document(type = "order", id = "{instance_id}:order")]
struct Order {
    #[document(partition_key)]
    instance_id: String,
}

/// Slots that the gate covers, each with a message and an activity.
const GATE: usize = 16;

/// A container of the shop that no provider has opened.
async fn shop() -> (Emulator, ContainerClient<Shop>) {
    let emulator = Emulator::start().await.expect("the emulator starts");
    let key = MasterKey::new(emulator.key()).expect("a key");
    let client = CosmosClient::builder(emulator.endpoint()).credential(key);
    let database = client.build().expect("a client").database("shop");
    let shop = database.bootstrap("shop", Bootstrap::CreateIfMissing).await;
    (emulator, shop.expect("the container is created"))
}

/// An invalid setting.
fn without_polls() -> CosmosDBProviderConfig {
    CosmosDBProviderConfig {
        min_poll_interval: Duration::ZERO,
        ..CosmosDBProviderConfig::default()
    }
}

/// Opens the container in each of the ways for a container that exists.
async fn open_each(
    shop: &ContainerClient<Shop>,
    config: &CosmosDBProviderConfig,
) -> [Result<CosmosDBProvider, ProviderError>; 3] {
    let member = CosmosDBProviderConfig {
        membership: Some(MembershipConfig::named("member")),
        ..config.clone()
    };
    let own_share = CosmosDBProviderConfig {
        leases: Some(Arc::new(InMemoryLeaseProvider::share(0, 2))),
        ..config.clone()
    };
    [
        CosmosDBProvider::on(shop.clone(), config).await,
        CosmosDBProvider::on(shop.clone(), &member).await,
        CosmosDBProvider::on(shop.clone(), &own_share).await,
    ]
}

/// Returns the number of documents in the schema's partition: schema, messages, activities.
async fn schema_and_gate(shop: &ContainerClient<Shop>) -> [usize; 3] {
    let stored = Query::<Shop>::in_partition(SCHEMA_PARTITION);
    let stored = shop.query(stored).all().await.expect("it can be read");
    let mut counts = [0; 3];
    for row in &stored {
        let kind = match &row.document {
            Shop::Durable(Durable::Schema(_)) => 0,
            Shop::Durable(Durable::OrchestratorItem(_)) => 1,
            Shop::Durable(Durable::WorkerItem(_)) => 2,
            other => panic!("{other:?}"),
        };
        counts[kind] += 1;
    }
    counts
}

async fn write_newer_schema(shop: &ContainerClient<Shop>) -> Schema {
    let newer = Schema {
        version: SCHEMA_VERSION + 1,
        written_by: "cdb-provider 9.0.0".to_owned(),
        ..Schema::current(shop.now())
    };
    let container = shop.view::<Durable>();
    container.run(newer.upsert()).await.expect("it is written");
    newer
}

#[tokio::test]
async fn a_container_with_own_types_gets_the_gate() {
    let config = CosmosDBProviderConfig::default();
    let (_emulator, shop) = shop().await;
    let order = Order {
        instance_id: "i".to_owned(),
    };
    shop.run(order.create()).await.expect("it is stored");
    ok!(CosmosDBProvider::on(shop.clone(), &config));
    assert_eq!(schema_and_gate(&shop).await, [1, GATE, GATE]);
    for opened in open_each(&shop, &config).await {
        opened.expect("the container opens again");
    }
    assert_eq!(schema_and_gate(&shop).await, [1, GATE, GATE]);
}

#[tokio::test]
async fn a_member_writes_the_gate() {
    let (_emulator, shop) = shop().await;
    let config = CosmosDBProviderConfig {
        membership: Some(MembershipConfig::named("member")),
        ..CosmosDBProviderConfig::default()
    };
    ok!(CosmosDBProvider::on(shop.clone(), &config));
    assert_eq!(schema_and_gate(&shop).await, [1, GATE, GATE]);
}

#[tokio::test]
async fn a_runtime_with_leases_of_its_own_writes_the_gate() {
    let (_emulator, shop) = shop().await;
    let config = CosmosDBProviderConfig {
        leases: Some(Arc::new(InMemoryLeaseProvider::all())),
        ..CosmosDBProviderConfig::default()
    };
    let provider = CosmosDBProvider::on(shop.clone(), &config).await;
    provider.expect("the container opens");
    assert_eq!(schema_and_gate(&shop).await, [1, GATE, GATE]);
}

#[tokio::test]
async fn a_container_with_own_types_and_a_newer_schema_is_refused() {
    let (_emulator, shop) = shop().await;
    write_newer_schema(&shop).await;
    for opened in open_each(&shop, &CosmosDBProviderConfig::default()).await {
        let refused = opened.expect_err("its schema version is newer");
        assert!(!refused.is_retryable(), "{refused}");
        let said = refused.to_string();
        for part in [
            "written by cdb-provider 9.0.0",
            "supports up to 4",
            "use that version or a newer one",
        ] {
            assert!(said.contains(part), "{said}");
        }
    }
    assert_eq!(schema_and_gate(&shop).await, [1, 0, 0]);
}

#[tokio::test]
async fn an_invalid_setting_is_refused_before_any_request() {
    let (emulator, shop) = shop().await;
    emulator.reset_requests();
    for opened in open_each(&shop, &without_polls()).await {
        let refused = opened.expect_err("the setting cannot work").to_string();
        assert!(refused.contains("min_poll_interval"), "{refused}");
    }
    assert_eq!(emulator.requests().total(), 0);
}

#[tokio::test]
async fn a_tool_reads_a_container_without_writing_the_gate() {
    let (emulator, shop) = shop().await;
    let config = CosmosDBProviderConfig {
        reconciler_interval: Duration::from_millis(1),
        reconciler_age_threshold: Duration::ZERO,
        retention: Some(Duration::ZERO),
        ..CosmosDBProviderConfig::default()
    };
    emulator.reset_requests();
    let tool = CosmosDBProvider::for_tools(shop.view(), &config, None);
    let tool = tool.expect("the container has no schema version yet");
    // Long enough for many background rounds. There must be none.
    tokio::time::sleep(Duration::from_millis(50)).await;
    assert_eq!(emulator.requests().total(), 0);
    assert_eq!(tool.list_instances().await, Ok(vec![]));
    assert_eq!(schema_and_gate(&shop).await, [0; 3]);
}

#[tokio::test]
async fn a_tool_is_refused_a_newer_schema_and_an_invalid_setting() {
    let (_emulator, shop) = shop().await;
    let newer = write_newer_schema(&shop).await;
    let key = SchemaKey::new(SCHEMA_PARTITION);
    let stored = shop.view::<Durable>().read(&key).await;
    let stored = stored.expect("it can be read").expect("it is there");
    assert_eq!(stored.document.version, newer.version);
    let config = CosmosDBProviderConfig::default();
    let tool = CosmosDBProvider::for_tools(shop.view(), &config, Some(&stored.document));
    let refused = tool.expect_err("its schema version is newer").to_string();
    says!(refused, "use that version or a newer one");
    let tool = CosmosDBProvider::for_tools(shop.view(), &without_polls(), None);
    let refused = tool.expect_err("the setting cannot work").to_string();
    assert!(refused.contains("min_poll_interval"), "{refused}");
}
