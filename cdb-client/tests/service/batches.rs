//! Batches and bulks.

use cdb_client::ErrorKind;
use cdb_model::document::Read;
use cdb_model::operation::BulkBatch;
use cdb_model::{Batch, Document, DocumentKey as _, Patch, Query};

use crate::account::Account;
use crate::shop::{Order, Profile, Shop, order, profile};

#[tokio::test]
async fn a_batch_is_atomic_and_sees_its_own_writes() {
    let (_account, shop) = Account::with_shop().await;
    let mut batch = Batch::<Shop>::new("ann");
    batch.add(profile("ann").create()).unwrap();
    batch.add(order("ann", 1).create()).unwrap();
    let touch = Patch::<Order>::new().incr(Order::VIEW_COUNT, 1);
    batch.add(touch.at(&order("ann", 1).key())).unwrap();
    let read = batch.add(Read::new(&order("ann", 1).key())).unwrap();
    let outcome = shop.execute(&batch).await.unwrap();
    let stored = outcome.document::<Order>(read).unwrap().unwrap();
    assert_eq!(stored.document.view_count, 1);
    assert_eq!(outcome.etag(read), Some(&stored.etag));
}

#[tokio::test]
async fn a_failed_batch_has_no_effect_and_names_the_operation() {
    let (_account, shop) = Account::with_shop().await;
    shop.run(profile("ann").create()).await.unwrap();
    let mut batch = Batch::<Shop>::new("ann");
    batch.add(order("ann", 1).create()).unwrap();
    let culprit = batch.add(profile("ann").create()).unwrap();
    batch.add(order("ann", 2).create()).unwrap();
    let error = shop.execute(&batch).await.unwrap_err();
    assert!(error.is_conflict() && !error.is_ambiguous(), "{error}");
    assert_eq!(error.operation_index(), Some(culprit.get()));
    let orders = Query::<Order>::in_partition("ann").count();
    assert_eq!(shop.query(orders).first().await.unwrap(), Some(0));
}

#[tokio::test]
async fn a_stale_version_fails_its_batch() {
    let (_account, shop) = Account::with_shop().await;
    let first = shop.run(profile("ann").create()).await.unwrap();
    shop.run(profile("ann").upsert()).await.unwrap();
    let mut batch = Batch::<Shop>::new("ann");
    batch.add(order("ann", 1).create()).unwrap();
    batch
        .add(profile("ann").replace().if_match(&first.etag))
        .unwrap();
    let error = shop.execute(&batch).await.unwrap_err();
    assert!(error.is_precondition_failed(), "{error}");
    assert_eq!(error.operation_index(), Some(1));
}

#[tokio::test]
async fn a_bulk_writes_to_all_partitions_and_operations_are_independent() {
    let (_account, shop) = Account::with_shop().await;
    shop.run(profile("customer-3").create()).await.unwrap();
    let mut bulk = BulkBatch::<Shop>::new();
    for customer in 0..60 {
        bulk.add(profile(&format!("customer-{customer}")).create())
            .unwrap();
        for number in 0..4 {
            bulk.add(order(&format!("customer-{customer}"), number).upsert())
                .unwrap();
        }
    }
    let results = shop.execute_bulk(&bulk).await;
    assert_eq!(results.len(), 300);
    let refused: Vec<usize> = (0..results.len())
        .filter(|&at| results[at].is_err())
        .collect();
    assert_eq!(refused, [15], "only the existing profile");
    assert_eq!(
        results[15].as_ref().unwrap_err().kind(),
        ErrorKind::Conflict
    );
    let all = Query::<Shop>::across_partitions().count();
    assert_eq!(shop.query(all).first().await.unwrap(), Some(300));

    let mut deletions = BulkBatch::<Shop>::new();
    for customer in 0..60 {
        let key = profile(&format!("customer-{customer}")).key();
        assert_eq!(key.partition(), format!("customer-{customer}").into());
        deletions.add(key.delete()).unwrap();
    }
    assert!(
        shop.execute_bulk(&deletions)
            .await
            .iter()
            .all(Result::is_ok)
    );
    let profiles = Query::<Profile>::across_partitions().count();
    assert_eq!(shop.query(profiles).first().await.unwrap(), Some(0));
}
