//! Tests of the regions of an account: endpoints, failovers, removed regions.

use std::time::Duration;

use cdb_emulator::{Effect, Emulator, Failover, Fault, Settings};
use reqwest::Method;
use serde_json::{Value, json};

use crate::account::{Account, Answer, Request, ask};

const WEST: &str = "West US";
const EAST: &str = "East US";

/// A header that changes nothing.
const NONE: (&str, &str) = ("accept", "application/json");

async fn two_regions() -> Account {
    let builder = Emulator::builder().regions([WEST, EAST]);
    Account::with(builder.start().await.expect("it starts"), json!({})).await
}

fn endpoint(account: &Account, region: &str) -> String {
    account.emulator.region_endpoint(region).expect("a region")
}

/// Reads the account document from an endpoint.
async fn document(account: &Account, endpoint: &str) -> Answer {
    let request = Request::to(Method::GET, "", "");
    account.send_to(endpoint, &request).await
}

/// Returns the names of the writable and of the readable regions.
async fn locations(account: &Account) -> [Vec<String>; 2] {
    let body = document(account, &account.emulator.endpoint()).await.body;
    ["writableLocations", "readableLocations"].map(|list| {
        let locations = body[list].as_array().expect("a list").iter();
        let names = locations.map(|location| location["name"].as_str().expect("a name").to_owned());
        names.collect()
    })
}

/// Upserts a document at an endpoint.
async fn write(account: &Account, endpoint: &str) -> Answer {
    write_with(account, endpoint, "p", NONE).await
}

/// Upserts a document of a partition key at an endpoint, with another header.
async fn write_with(account: &Account, endpoint: &str, key: &str, header: (&str, &str)) -> Answer {
    let document = json!({ "id": "a", "pk": key });
    let partition = json!([key]).to_string();
    let headers = [
        ("x-ms-documentdb-partitionkey", &*partition),
        ("x-ms-documentdb-is-upsert", "True"),
        header,
    ];
    let request = Request::docs(Method::POST).headers(&headers);
    account.send_to(endpoint, &request.body(&document)).await
}

/// Reads the document and queries it at an endpoint; returns both statuses.
async fn read(account: &Account, endpoint: &str) -> [u16; 2] {
    let key = ("x-ms-documentdb-partitionkey", r#"["p"]"#);
    let keys = [key, ("x-ms-documentdb-isquery", "True")];
    let sql = json!({ "query": "SELECT * FROM c" });
    let point = Request::to(Method::GET, "docs", "dbs/db/colls/c/docs/a").headers(&keys[..1]);
    let query = Request::docs(Method::POST).headers(&keys).body(&sql);
    let point = account.send_to(endpoint, &point).await;
    let query = account.send_to(endpoint, &query).await;
    [point.status, query.status]
}

fn code(answer: &Answer) -> (u16, &str) {
    (answer.status, answer.header("x-ms-substatus"))
}

/// Sends a body to an admin route.
async fn admin(account: &Account, path: &str, body: &Value) -> (u16, Value) {
    let (path, body) = (format!("_admin/{path}"), body.to_string());
    ask(&account.emulator, Method::POST, &path, &body).await
}

#[tokio::test]
async fn an_account_has_one_region_by_default() {
    let account = Account::start().await;
    let body = document(&account, &account.emulator.endpoint()).await.body;
    let only = json!([{ "name": "Local", "databaseAccountEndpoint": account.emulator.endpoint() }]);
    assert_eq!(body["writableLocations"], only);
    assert_eq!(body["readableLocations"], only);
    assert_eq!(body["enableMultipleWriteLocations"], false);
    // A client is told the name by which it has reached the emulator, as in a container.
    let by_name = account
        .emulator
        .endpoint()
        .replace("127.0.0.1", "localhost");
    let body = document(&account, &by_name).await.body;
    assert_eq!(
        body["writableLocations"][0]["databaseAccountEndpoint"],
        by_name
    );
    let refused = account.emulator.failover().unwrap_err().to_string();
    assert!(refused.contains("no other region"), "{refused}");
}

#[tokio::test]
async fn only_the_write_region_accepts_writes() {
    let account = two_regions().await;
    assert_eq!(locations(&account).await, [vec![WEST], vec![WEST, EAST]]);
    let (west, east) = (endpoint(&account, WEST), endpoint(&account, EAST));
    let global = account.emulator.endpoint();
    assert!(west != east && west != global && east != global);
    assert_eq!(write(&account, &west).await.status, 201);
    assert_eq!(write(&account, &global).await.status, 200);
    assert_eq!(code(&write(&account, &east).await), (403, "3"));
    assert_eq!(read(&account, &east).await, [200, 200]);
    assert_eq!(account.emulator.region_endpoint("North"), None);
}

#[tokio::test]
async fn a_failover_moves_the_writes_to_the_next_region() {
    let account = two_regions().await;
    let (west, east) = (endpoint(&account, WEST), endpoint(&account, EAST));
    let global = account.emulator.endpoint();
    assert_eq!(account.emulator.failover().unwrap(), EAST);
    assert_eq!(locations(&account).await, [vec![EAST], vec![EAST, WEST]]);
    assert_eq!(write(&account, &east).await.status, 201);
    for former in [&west, &global] {
        assert_eq!(code(&write(&account, former).await), (403, "3"));
        assert_eq!(read(&account, former).await, [200, 200]);
    }
    account.emulator.move_global_endpoint();
    assert_eq!(write(&account, &global).await.status, 200);
    assert_eq!(account.emulator.failover().unwrap(), WEST);
    assert_eq!(write(&account, &west).await.status, 200);
}

#[tokio::test]
async fn a_failover_without_a_container_refuses_its_creation_at_the_former_region() {
    let account = two_regions().await;
    account.emulator.failover().unwrap();
    let body = json!({ "id": "d", "partitionKey": { "paths": ["/pk"], "version": 2 } });
    let create = Request::new_container().body(&body);
    let refused = account.send_to(&endpoint(&account, WEST), &create).await;
    assert_eq!(code(&refused), (403, "3"));
    let created = account.send_to(&endpoint(&account, EAST), &create).await;
    assert_eq!(created.status, 201);
}

#[tokio::test(start_paused = true)]
async fn the_account_document_and_the_global_endpoint_follow_in_simulated_time() {
    let builder = Emulator::builder().regions([WEST, EAST]);
    let account = Account::simulated(builder, json!({})).await;
    let global = account.emulator.endpoint();
    let failover = Failover::to(EAST)
        .document_after(Duration::from_secs(60))
        .dns_after(Duration::from_secs(120));
    account.emulator.failover_with(&failover).unwrap();
    for (seconds, region, status) in [(59, WEST, 403), (1, EAST, 403), (60, EAST, 201)] {
        tokio::time::sleep(Duration::from_secs(seconds)).await;
        assert_eq!(locations(&account).await[0], [region]);
        assert_eq!(write(&account, &global).await.status, status);
    }
    let unknown = account.emulator.failover_with(&Failover::to("North"));
    let unknown = unknown.unwrap_err().to_string();
    assert!(unknown.contains("no region `North`"), "{unknown}");
}

#[tokio::test]
async fn a_removed_region_does_not_know_the_account() {
    let account = two_regions().await;
    let (west, east) = (endpoint(&account, WEST), endpoint(&account, EAST));
    account.emulator.remove_region(WEST).unwrap();
    assert_eq!(code(&write(&account, &west).await), (403, "1008"));
    assert_eq!(code(&document(&account, &west).await), (403, "1008"));
    assert_eq!(read(&account, &west).await, [403, 403]);
    assert_eq!(write(&account, &east).await.status, 201);
    account.emulator.move_global_endpoint();
    assert_eq!(locations(&account).await, [[EAST], [EAST]]);
    assert!(
        account.emulator.remove_region(EAST).is_err(),
        "it is the last region"
    );
    account.emulator.restore_region(WEST).unwrap();
    assert_eq!(read(&account, &west).await, [200, 200]);
    assert_eq!(locations(&account).await, [vec![EAST], vec![EAST, WEST]]);
}

#[tokio::test]
async fn every_region_accepts_writes_with_multiple_write_locations() {
    let builder = Emulator::builder()
        .regions([WEST, EAST])
        .multiple_write_locations(true);
    let account = Account::with(builder.start().await.unwrap(), json!({})).await;
    assert_eq!(locations(&account).await, [[WEST, EAST], [WEST, EAST]]);
    let east = endpoint(&account, EAST);
    assert_eq!(
        document(&account, &east).await.body["enableMultipleWriteLocations"],
        true
    );
    // CHANGELOG of azure_data_cosmos: "Without it, satellite write regions returned 403 / 3".
    assert_eq!(code(&write(&account, &east).await), (403, "3"));
    assert_eq!(
        write(&account, &account.emulator.endpoint()).await.status,
        201
    );
    let tentative = ("x-ms-cosmos-allow-tentative-writes", "true");
    let written = write_with(&account, &east, "p", tentative).await;
    assert_eq!(written.status, 200);
    // azure-cosmos-dotnet-v3 `ClientRetryPolicy.cs`, `IsMultimasterMetadataWriteRequest`.
    let body = json!({ "id": "d", "partitionKey": { "paths": ["/pk"], "version": 2 } });
    let headers = [tentative];
    let create = Request::new_container().headers(&headers).body(&body);
    assert_eq!(code(&account.send_to(&east, &create).await), (403, "3"));
    let only_one = |settings: Settings| settings.multiple_write_locations(false);
    account.emulator.change(only_one).unwrap();
    let refused = write_with(&account, &east, "p", tentative).await;
    assert_eq!(code(&refused), (403, "3"));
}

/// Reads the document of a partition key at an endpoint, which has to have its writes.
async fn read_of_hub(account: &Account, endpoint: &str, key: &str) -> Answer {
    let partition = json!([key]).to_string();
    let headers = [
        ("x-ms-documentdb-partitionkey", &*partition),
        ("x-ms-cosmos-hub-region-processing-only", "True"),
    ];
    let read = Request::to(Method::GET, "docs", "dbs/db/colls/c/docs/a").headers(&headers);
    account.send_to(endpoint, &read).await
}

/// azure-cosmos-dotnet-v3 `ClientRetryPolicy.cs`: a read with the header "will return a 403.3 only
/// when the region … determines that it is not the current hub region for the partition".
#[tokio::test]
async fn the_writes_of_a_partition_move_alone_and_return() {
    let builder = Emulator::builder()
        .regions([WEST, EAST])
        .physical_partitions(2);
    let account = Account::with(
        builder.partition_failover(true).start().await.unwrap(),
        json!({}),
    )
    .await;
    let (west, east) = (endpoint(&account, WEST), endpoint(&account, EAST));
    let write = async |endpoint: &str, key: &str| write_with(&account, endpoint, key, NONE).await;
    let move_to = |range: &str, region| {
        account
            .emulator
            .fail_over_partition("db", "c", range, region)
    };
    move_to("1", EAST).unwrap();
    let described = document(&account, &west).await.body;
    assert_eq!(described["enablePerPartitionFailoverBehavior"], true);
    assert_eq!(locations(&account).await[0], [WEST]);
    // The first key in each partition.
    let (mut stays, mut moved) = (None, None);
    for key in ["a", "b", "c", "d", "e", "f", "g", "h"] {
        match write(&east, key).await.status {
            201 => moved = moved.or(Some(key)),
            _ => stays = stays.or(Some(key)),
        }
    }
    let (stays, moved) = (stays.unwrap(), moved.unwrap());
    assert_eq!(write(&west, stays).await.status, 201);
    for (refuses, accepts, key) in [(&east, &west, stays), (&west, &east, moved)] {
        assert_eq!(code(&write(refuses, key).await), (403, "3"), "{key}");
        assert_eq!(write(accepts, key).await.status, 200, "{key}");
        let read = read_of_hub(&account, refuses, key).await;
        assert_eq!(code(&read), (403, "3"), "{key}");
        assert_eq!(read_of_hub(&account, accepts, key).await.status, 200);
    }
    assert_eq!(read(&account, &west).await, [404, 200]);
    for child in account.emulator.split("db", "c", "1").unwrap() {
        let unknown = move_to(&child, "North").unwrap_err().to_string();
        assert!(unknown.contains("no region `North`"), "{unknown}");
    }
    assert_eq!(code(&write(&west, moved).await), (403, "3"));
    for child in ["2", "3"] {
        move_to(child, WEST).unwrap();
    }
    assert_eq!(write(&west, moved).await.status, 200);
    assert!(move_to("1", EAST).is_err(), "it was split");
}

#[tokio::test]
async fn a_fault_affects_one_region() {
    let account = two_regions().await;
    account
        .emulator
        .inject(Fault::always(Effect::error(503, 0)).in_region(EAST));
    assert_eq!(read(&account, &endpoint(&account, EAST)).await, [503, 503]);
    assert_eq!(read(&account, &endpoint(&account, WEST)).await, [404, 200]);
    assert_eq!(
        read(&account, &account.emulator.endpoint()).await,
        [404, 200]
    );
}

#[tokio::test]
async fn regions_are_changed_over_http() {
    let account = two_regions().await;
    let moved = json!({ "to": EAST, "documentAfterMs": 60_000 });
    let (status, state) = admin(&account, "failover", &moved).await;
    let shown = ["writeRegion", "documentWriteRegion", "globalEndpointRegion"];
    let shown = shown.map(|name| state[name].as_str().unwrap_or_default());
    assert_eq!((status, shown), (200, [EAST, WEST, WEST]));
    assert_eq!(state["regions"][1]["endpoint"], endpoint(&account, EAST));
    let changes = json!({ "moveGlobalEndpoint": true });
    let (_, state) = admin(&account, "regions", &changes).await;
    assert_eq!(state["globalEndpointRegion"], EAST);
    let everywhere = json!({ "multipleWriteLocations": true });
    let (_, state) = admin(&account, "settings", &everywhere).await;
    assert_eq!(state["multipleWriteLocations"], true);
    let (_, state) = admin(&account, "regions", &json!({ "remove": WEST })).await;
    assert_eq!(state["regions"][0]["removed"], true);
    for (path, body, says) in [
        ("failover", json!({}), "no other region"),
        ("failover", json!({ "to": WEST }), "was removed"),
        ("regions", json!({ "remove": "North" }), "no region `North`"),
        ("regions", json!({ "add": "North" }), "unknown field `add`"),
    ] {
        let (status, refused) = admin(&account, path, &body).await;
        let message = refused["message"].as_str().unwrap_or_default();
        assert!(status == 400 && message.contains(says), "{path}: {refused}");
    }
}
