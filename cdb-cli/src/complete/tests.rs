//! Completions of a program's own command through the engine, against an emulator.

use std::ffi::OsString;

use cdb_client::{Bootstrap, CosmosClient, MasterKey};
use cdb_emulator::Emulator;
use cdb_model::{Container, Document, Timestamp};
use cdb_provider::documents::{Durable, Instance, Status};
use serde::{Deserialize, Serialize};
use tokio::runtime::Runtime;

use super::*;

#[derive(Document, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[document(type = "order", id = "{instance_id}:order:{number}")]
struct Order {
    #[document(partition_key)]
    instance_id: String,
    number: u64,
}

/// A container of documents and orchestrations.
#[derive(Container)]
#[expect(clippy::large_enum_variant, reason = "the test creates no value")]
enum Shop {
    #[container(extends)]
    Durable(Durable),
    Order(Order),
}

/// A container without orchestrations.
#[derive(Container)]
#[container(partition_key = "/instanceId")]
enum Orders {
    Order(Order),
}

/// An account with a container `shop`. Its threads serve requests while a test completes.
struct Account {
    runtime: Runtime,
    emulator: Emulator,
}

impl Account {
    fn start() -> Self {
        let runtime = Runtime::new().expect("a runtime");
        let emulator = runtime.block_on(Emulator::start()).expect("it starts");
        let account = Self { runtime, emulator };
        account.runtime.block_on(account.fill());
        account
    }

    async fn fill(&self) {
        let key = MasterKey::new(self.emulator.key()).expect("a key");
        let client = CosmosClient::builder(self.emulator.endpoint())
            .credential(key)
            .build();
        let database = client.expect("a client").database("shop");
        let shop = database
            .bootstrap::<Shop>("shop", Bootstrap::CreateIfMissing)
            .await;
        shop.expect("it opens");
        let container = database.container::<Durable>("shop");
        for number in 0..60 {
            let created = Timestamp::from_millis(1_767_225_600_000 + number * 1000);
            let instance = Instance {
                orchestration_name: "Ship".to_owned(),
                status: Status::Running,
                ..Instance::pending(&format!("order-{number}"), created)
            };
            container.create(&instance).await.expect("it is stored");
        }
        let pending = Instance::pending("order-pending", Timestamp::from_millis(0));
        container.create(&pending).await.expect("it is stored");
    }

    /// Returns the completions of a line's last word, which are not options.
    fn complete<C: Container>(&self, line: &str) -> Vec<String> {
        let endpoint = self.emulator.endpoint();
        let line = format!("shop --endpoint {endpoint} --database shop --container shop {line}");
        complete::<C>(&line)
    }
}

fn complete<C: Container>(line: &str) -> Vec<String> {
    let words: Vec<OsString> = line.split(' ').map(OsString::from).collect();
    let at = words.len() - 1;
    let mut command = command(
        Model::of::<C>(),
        words::connection(&words, &EnvFile::default()),
    );
    let found = clap_complete::engine::complete(&mut command, words, at, None).unwrap_or_default();
    let names = found
        .iter()
        .map(|found| found.get_value().to_string_lossy().into_owned());
    names.filter(|name| !name.starts_with('-')).collect()
}

#[test]
fn a_command_of_a_program_completes_the_newest_instances_with_the_prefix() {
    let account = Account::start();
    let all = account.complete::<Shop>("instances show ord");
    assert_eq!(all.len(), 50, "{all:?}");
    assert_eq!(all.first().map(String::as_str), Some("order-59"));
    let few = account.complete::<Shop>("instances delete order-1 order-5");
    assert_eq!(few.len(), 11, "{few:?}");
    assert_eq!(
        account.complete::<Shop>("instances list --parent order-42"),
        ["order-42"]
    );
    assert_eq!(
        account.complete::<Shop>("instances start order-60 S"),
        ["Ship"]
    );
    // The id of a new instance is the user's to choose.
    assert!(account.complete::<Shop>("instances start ord").is_empty());
}

#[test]
fn a_container_without_orchestrations_completes_no_instances() {
    let account = Account::start();
    assert!(account.complete::<Orders>("instances show ord").is_empty());
}

#[test]
fn an_account_that_does_not_answer_completes_nothing() {
    // A listener that accepts connections and never answers.
    let silent = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let silent = silent.local_addr().expect("an address");
    let closed = "127.0.0.1:1";
    for address in [silent.to_string(), closed.to_owned()] {
        let line = format!("cdb instances show --endpoint http://{address} ord");
        assert!(complete::<Durable>(&line).is_empty(), "{address}");
    }
}
