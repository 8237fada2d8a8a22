//! Documents, one by one and in batches.

use azure_data_cosmos::TransactionalBatch;
use azure_data_cosmos::models::{
    PatchInstructions, PatchOperation, TransactionalBatchOperationResult,
};
use azure_data_cosmos::options::{
    BatchOptions, ContentResponseOnWrite, ItemReadOptions, ItemWriteOptions,
    OperationOptionsBuilder, PatchItemOptions, PatchStrategy, Precondition,
};
use serde_json::{Value, json};

use crate::account::{Account, own, refused};

#[tokio::test]
async fn a_document_is_created_read_replaced_and_deleted() {
    let account = Account::start().await;
    let container = account.container().await;
    let document =
        json!({ "id": "ä 'b'", "pk": "p", "n": 1.5, "nested": { "list": [1, null, true, "ß"] } });
    let created = container
        .create_item("p", "ä 'b'", &document, None)
        .await
        .expect("it is created");
    assert_eq!(u16::from(created.status().status_code()), 201);
    assert!(created.headers().request_charge().is_some());
    assert_eq!(
        refused(container.create_item("p", "ä 'b'", &document, None).await),
        409
    );

    let read = container
        .read_item("p", "ä 'b'", None)
        .await
        .expect("it is read");
    assert_eq!(own(read.into_model().expect("a document")), document);
    let changed = json!({ "id": "ä 'b'", "pk": "p", "n": 2 });
    container
        .replace_item("p", "ä 'b'", &changed, None)
        .await
        .expect("it is replaced");
    let upserted = container
        .upsert_item("q", "2", json!({ "id": "2", "pk": "q" }), None)
        .await
        .expect("an upsert");
    assert_eq!(u16::from(upserted.status().status_code()), 201);
    container
        .delete_item("p", "ä 'b'", None)
        .await
        .expect("it is deleted");
    assert_eq!(refused(container.read_item("p", "ä 'b'", None).await), 404);
    assert_eq!(
        refused(
            container
                .create_item("other", "3", json!({ "id": "3", "pk": "q" }), None)
                .await
        ),
        400
    );
}

#[tokio::test]
async fn a_conditional_write_applies_only_to_the_version_read() {
    let account = Account::start().await;
    let container = account.container().await;
    let document = json!({ "id": "1", "pk": "p", "n": 1 });
    let created = container
        .create_item("p", "1", &document, None)
        .await
        .expect("it is created");
    let etag = created.headers().etag().expect("an etag").clone();
    let matching = || {
        Some(ItemWriteOptions::default().with_precondition(Precondition::if_match(etag.clone())))
    };
    container
        .replace_item("p", "1", &document, matching())
        .await
        .expect("the first one wins");
    assert_eq!(
        refused(
            container
                .replace_item("p", "1", &document, matching())
                .await
        ),
        412
    );
    assert_eq!(
        refused(container.delete_item("p", "1", matching()).await),
        412
    );

    let read = container
        .read_item("p", "1", None)
        .await
        .expect("it is read");
    let newest = read.headers().etag().expect("an etag").clone();
    let unchanged =
        ItemReadOptions::default().with_precondition(Precondition::if_none_match(newest));
    let again = container.read_item("p", "1", Some(unchanged)).await;
    let status = match again {
        Ok(response) => response.status().status_code().into(),
        Err(error) => u16::from(error.status().status_code()),
    };
    assert_eq!(status, 304);
}

#[tokio::test]
async fn a_patch_changes_what_it_names_on_either_side() {
    let account = Account::start().await;
    let container = account.container().await;
    for (id, strategy) in [
        ("1", PatchStrategy::ServerSide),
        ("2", PatchStrategy::ClientSide),
    ] {
        let document =
            json!({ "id": id, "pk": "p", "n": 1, "tags": ["x"], "gone": true, "from": 1 });
        container
            .create_item("p", id, &document, None)
            .await
            .expect("it is created");
        let patch = PatchInstructions::new()
            .with_operation(PatchOperation::set("/name", json!("new")))
            .with_operation(PatchOperation::add("/tags/-", json!("y")))
            .with_operation(PatchOperation::increment("/n", 41))
            .with_operation(PatchOperation::remove("/gone"))
            .with_operation(PatchOperation::move_value("/from", "/to"));
        let options = PatchItemOptions::default().with_strategy(strategy);
        container
            .patch_item("p", id, patch, Some(options))
            .await
            .expect("it is patched");
        let read = container
            .read_item("p", id, None)
            .await
            .expect("it is read");
        let patched: Value = own(read.into_model().expect("a document"));
        assert_eq!(
            patched,
            json!({ "id": id, "pk": "p", "n": 42, "tags": ["x", "y"], "name": "new", "to": 1 })
        );
    }
    let missing =
        PatchInstructions::new().with_operation(PatchOperation::replace("/none", json!(1)));
    assert_eq!(
        refused(container.patch_item("p", "1", missing, None).await),
        400
    );
}

#[tokio::test]
async fn a_batch_is_atomic() {
    let account = Account::start().await;
    let container = account.container().await;
    let bodies = OperationOptionsBuilder::new()
        .with_content_response_on_write(ContentResponseOnWrite::Enabled);
    let options = BatchOptions::default().with_operation_options(bodies.build());
    let batch = TransactionalBatch::new("p")
        .create_item(json!({ "id": "1", "pk": "p" }))
        .expect("a body")
        .upsert_item(json!({ "id": "2", "pk": "p" }), None)
        .expect("a body")
        .replace_item("1", json!({ "id": "1", "pk": "p", "n": 1 }), None)
        .expect("a body")
        .read_item("1", None)
        .delete_item("2", None);
    let response = container
        .execute_transactional_batch(batch, Some(options))
        .await
        .expect("a batch");
    let results = response.into_model().expect("results");
    let statuses: Vec<u16> = results
        .results()
        .iter()
        .map(TransactionalBatchOperationResult::status_code)
        .collect();
    assert_eq!(statuses, [201, 201, 200, 200, 204]);
    let read: Option<Value> = results.results()[3].into_model().expect("a document");
    assert_eq!(read.map(|read| read["n"].clone()), Some(json!(1)));

    let failing = TransactionalBatch::new("p")
        .create_item(json!({ "id": "3", "pk": "p" }))
        .expect("a body")
        .delete_item("none", None);
    let response = container
        .execute_transactional_batch(failing, None)
        .await
        .expect("an answer");
    let results = response.into_model().expect("results");
    let statuses: Vec<u16> = results
        .results()
        .iter()
        .map(TransactionalBatchOperationResult::status_code)
        .collect();
    assert_eq!(statuses, [424, 404]);
    assert_eq!(refused(container.read_item("p", "3", None).await), 404);
}
