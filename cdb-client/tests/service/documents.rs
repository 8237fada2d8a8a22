//! Point operations.

use cdb_model::limits::MAX_DOCUMENT_BYTES;
use cdb_model::operation::BulkBatch;
use cdb_model::stored::encode;
use cdb_model::{Batch, Document, ETag, PartitionKey, Patch, Timestamp};

use crate::account::Account;
use crate::shop::{Order, Profile, Shop, order, profile};

#[tokio::test]
async fn a_document_is_created_read_replaced_and_deleted() {
    let (_account, shop) = Account::with_shop().await;
    let key = profile("ann").key();
    assert!(shop.read(&key).await.unwrap().is_none());
    let created = shop.run(profile("ann").create()).await.unwrap();
    let stored = shop.read(&key).await.unwrap().unwrap();
    assert_eq!(
        (stored.document, &stored.etag),
        (profile("ann"), &created.etag)
    );

    let renamed = Profile {
        name: "Anna".to_owned(),
        ..profile("ann")
    };
    let replaced = ok!(shop.run(renamed.replace().if_match(&created.etag)));
    assert_ne!(replaced.etag, created.etag);
    ok!(shop.run(key.delete().if_match(&replaced.etag)));
    assert!(shop.read(&key).await.unwrap().is_none());
}

#[tokio::test]
async fn each_refusal_has_its_own_kind() {
    let (_account, shop) = Account::with_shop().await;
    let key = profile("ann").key();
    assert!(shop.run(key.delete()).await.unwrap_err().is_not_found());
    assert!(
        shop.run(profile("ann").replace())
            .await
            .unwrap_err()
            .is_not_found()
    );
    shop.run(profile("ann").create()).await.unwrap();
    assert!(
        shop.run(profile("ann").create())
            .await
            .unwrap_err()
            .is_conflict()
    );
    let stale = ETag::new("\"00000000-0000-0000-0000-000000000000\"");
    let error = shop
        .run(profile("ann").replace().if_match(&stale))
        .await
        .unwrap_err();
    assert!(
        error.is_precondition_failed() && !error.is_ambiguous(),
        "{error}"
    );
    let error = shop.run(key.delete().if_match(&stale)).await.unwrap_err();
    assert!(error.is_precondition_failed(), "{error}");
}

#[tokio::test]
async fn a_document_is_found_by_any_id_and_partition_key() {
    let (_account, shop) = Account::with_shop().await;
    for customer in [
        "plain",
        "",
        " leading and trailing ",
        "quo\"te's \\ back/slash",
        "a:b|c;d,e?f#g%41~h+i@j&k=l",
        "line\nbreak\ttab",
        "größe 東京 😀",
        ".",
        "..",
        "{\"json\":[1]}",
        &"long ".repeat(40),
    ] {
        shop.run(profile(customer).create()).await.unwrap();
        let stored = shop.read(&profile(customer).key()).await.unwrap();
        assert_eq!(stored.unwrap().document, profile(customer), "{customer:?}");
        shop.run(profile(customer).key().delete()).await.unwrap();
    }
}

#[tokio::test]
async fn a_patch_changes_only_its_paths_if_its_condition_holds() {
    let (_account, shop) = Account::with_shop().await;
    let noted = Order {
        note: Some("ring twice".to_owned()),
        ..order("ann", 2)
    };
    shop.run(noted.create()).await.unwrap();
    let (partition, key) = (PartitionKey::from("ann"), noted.key());
    let pay = Patch::<Order>::new()
        .set(Order::STATUS, "paid")
        .incr(Order::VIEW_COUNT, 3)
        .remove(Order::NOTE)
        .when(Order::STATUS.eq("new"));
    ok!(shop.run(pay.at(key.in_partition(&partition))));
    let stored = shop
        .read(key.in_partition(&partition))
        .await
        .unwrap()
        .unwrap();
    let Order {
        status,
        view_count,
        note,
        ..
    } = &stored.document;
    assert_eq!((status.as_str(), *view_count, note), ("paid", 3, &None));
    let error = shop
        .run(pay.at(key.in_partition(&partition)))
        .await
        .unwrap_err();
    assert!(error.is_precondition_failed(), "{error}");
    let touch = Patch::<Order>::new().set(Order::VIEW_COUNT, 4);
    let written = shop.run(touch.at(&stored)).await.unwrap();
    assert_ne!(written.etag, stored.etag);
    assert!(
        shop.run(touch.at(&stored))
            .await
            .unwrap_err()
            .is_precondition_failed()
    );
}

#[tokio::test]
async fn the_client_learns_the_services_clock_and_counts_charges() {
    let (account, shop) = Account::with_shop().await;
    shop.run(profile("ann").create()).await.unwrap();
    let stored = shop.read(&profile("ann").key()).await.unwrap().unwrap();
    // `_ts` has whole seconds.
    assert!(shop.now().since(stored.timestamp).as_secs() < 10);
    assert!(account.client.clock_uncertainty().unwrap().as_millis() <= 1000);
    let usage = account.client.usage().total();
    assert!(
        usage.requests >= 4 && usage.charge > 0.0 && usage.bytes_sent > 0,
        "{usage:?}"
    );
}

/// Source: concepts-limits, "Per-item limits". Microsoft does not say whether the properties that the
/// service adds count, so the limit of the client leaves room for them.
#[tokio::test]
async fn the_largest_document_that_the_client_accepts_is_stored() {
    let (_account, shop) = Account::with_shop().await;
    let largest = |number| {
        let mut order = order("ann", number);
        order.note = Some(String::new());
        let empty = encode::<Shop, _>(&order, Timestamp::default()).unwrap();
        let room = MAX_DOCUMENT_BYTES - empty.json.get().len();
        order.note = Some("x".repeat(room));
        order
    };
    let mut too_large = largest(1);
    shop.run(too_large.create()).await.unwrap();
    let mut batch = Batch::<Shop>::new(too_large.partition_key());
    batch.add(largest(2).create()).unwrap();
    shop.execute(&batch).await.unwrap();
    let mut bulk = BulkBatch::<Shop>::new();
    bulk.add(largest(3).create()).unwrap();
    shop.execute_bulk(&bulk).await.remove(0).unwrap();

    too_large.note.get_or_insert_default().push('x');
    let error = shop.run(too_large.upsert()).await.unwrap_err().to_string();
    let (bytes, most) = (MAX_DOCUMENT_BYTES + 1, MAX_DOCUMENT_BYTES);
    let named = format!("has {bytes} bytes as JSON, {most} are allowed per document");
    assert!(error.contains(&named), "{error}");
}
