//! Account, databases, containers.

use azure_data_cosmos::models::{
    CompositeIndex, CompositeIndexOrder, CompositeIndexProperty, ContainerProperties, IndexingMode,
    IndexingPolicy, UniqueKey, UniqueKeyPolicy,
};
use futures::TryStreamExt;
use serde_json::json;

use crate::account::{Account, refused};

#[tokio::test]
async fn a_container_keeps_its_definition() {
    let account = Account::start().await;
    let ascending = |path: &str| CompositeIndexProperty::new(path, CompositeIndexOrder::Ascending);
    let policy = IndexingPolicy::default()
        .with_indexing_mode(IndexingMode::Consistent)
        .with_included_path("/*")
        .with_excluded_path("/blob/?")
        .with_composite_index(
            CompositeIndex::default()
                .with_property(ascending("/group"))
                .with_property(ascending("/n")),
        );
    let keys = UniqueKeyPolicy::default().with_unique_key(UniqueKey::default().with_path("/email"));
    let properties = ContainerProperties::new("c", "/pk".into())
        .with_indexing_policy(policy.clone())
        .with_unique_key_policy(keys)
        .with_default_ttl(3600_u32);
    let created = account
        .database
        .create_container(properties.clone(), None)
        .await
        .expect("a container");
    assert_eq!(u16::from(created.status().status_code()), 201);
    let again = account.database.create_container(properties, None).await;
    assert_eq!(refused(again), 409);

    let container = account
        .database
        .container_client("c", None)
        .await
        .expect("it is found");
    let read = container
        .read(None)
        .await
        .expect("it is read")
        .into_model()
        .expect("its definition");
    assert_eq!(read.id, "c");
    assert_eq!(
        read.indexing_policy
            .as_ref()
            .map(|policy| policy.composite_indexes.clone()),
        Some(policy.composite_indexes)
    );
    assert_eq!(read.default_ttl, 3600_u32.into());

    let one = json!({ "id": "1", "pk": "p", "email": "a@b" });
    let two = json!({ "id": "2", "pk": "p", "email": "a@b" });
    container
        .create_item("p", "1", &one, None)
        .await
        .expect("a document");
    assert_eq!(
        refused(container.create_item("p", "2", &two, None).await),
        409
    );

    let mut changed = read;
    changed.default_ttl = azure_data_cosmos::models::TimeToLive::Forever;
    container
        .replace(changed, None)
        .await
        .expect("it is replaced");
    container.delete(None).await.expect("it is deleted");
}

#[tokio::test]
async fn databases_and_containers_are_listed_and_deleted() {
    let account = Account::start().await;
    account.container().await;
    let databases = account
        .client
        .query_databases("SELECT * FROM c WHERE c.id = 'db'", None)
        .await
        .expect("a query");
    let databases: Vec<_> = databases.try_collect().await.expect("databases");
    assert_eq!(databases.len(), 1);
    let containers = account
        .database
        .query_containers("SELECT * FROM c", None)
        .await
        .expect("a query");
    let containers: Vec<_> = containers.try_collect().await.expect("containers");
    assert_eq!(
        containers
            .iter()
            .map(|found| &*found.id)
            .collect::<Vec<_>>(),
        ["c"]
    );
    account.database.delete(None).await.expect("it is deleted");
    assert_eq!(refused(account.database.read(None).await), 404);
}
