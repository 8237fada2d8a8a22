//! An emulator with three physical partitions, and the vendor's client for it.

use azure_data_cosmos::models::ContainerProperties;
use azure_data_cosmos::{
    AccountReference, ContainerClient, CosmosClient, CosmosError, DatabaseClient, RoutingStrategy,
};
use cdb_emulator::Emulator;
use serde_json::{Value, json};

/// An emulator, kept alive, with a database.
pub(crate) struct Account {
    pub(crate) emulator: Emulator,
    pub(crate) client: CosmosClient,
    pub(crate) database: DatabaseClient,
}

impl Account {
    pub(crate) async fn start() -> Self {
        let emulator = Emulator::builder().physical_partitions(3);
        let emulator = emulator.start().await.expect("it starts");
        let client = connect(&emulator).await;
        client
            .create_database("db", None)
            .await
            .expect("a database");
        let database = client.database_client("db");
        Self {
            emulator,
            client,
            database,
        }
    }

    /// A container that is partitioned by `/pk`.
    pub(crate) async fn container(&self) -> ContainerClient {
        let properties = ContainerProperties::new("c", "/pk".into());
        self.database
            .create_container(properties, None)
            .await
            .expect("a container");
        self.database
            .container_client("c", None)
            .await
            .expect("it is found")
    }

    /// Thirty documents in ten partition keys.
    pub(crate) async fn filled(&self) -> ContainerClient {
        let container = self.container().await;
        for n in 0..30 {
            let (id, pk) = (format!("{n:02}"), format!("p{}", n % 10));
            let group = ["a", "b", "c"][n % 3];
            let document = json!({ "id": id, "pk": pk, "n": n, "group": group });
            container
                .create_item(pk, &id, &document, None)
                .await
                .expect("a document");
        }
        container
    }
}

/// A client as an application makes it.
pub(crate) async fn connect(emulator: &Emulator) -> CosmosClient {
    // Built beside the workspace's own client, reqwest has TLS without an implementation, and asks
    // for one even where it connects without TLS. An error says that another test of this process
    // was faster.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let endpoint = emulator.endpoint().parse().expect("an endpoint");
    let account = AccountReference::with_authentication_key(endpoint, emulator.key().to_owned());
    let region = RoutingStrategy::PreferredRegions(vec!["Local".into()]);
    CosmosClient::builder()
        .build(account, region)
        .await
        .expect("a client")
}

/// The status of a refusal.
pub(crate) fn refused<T>(result: Result<T, CosmosError>) -> u16 {
    match result {
        Ok(_) => panic!("it was not refused"),
        Err(error) => error.status().status_code().into(),
    }
}

/// A document without what the service adds.
pub(crate) fn own(mut document: Value) -> Value {
    let fields = document.as_object_mut().expect("an object");
    fields.retain(|name, _| !name.starts_with('_'));
    document
}
