//! Bootstrap.

use cdb_client::{Bootstrap, BootstrapConfig, ErrorKind, OnDifference};

use crate::account::Account;
use crate::shop::Shop;
use crate::shop::elsewhere::Depot;

#[tokio::test]
async fn a_container_made_from_the_model_does_not_differ_from_it() {
    let account = Account::new().await;
    account.shop().await;
    let strict =
        BootstrapConfig::from(Bootstrap::VerifyOnly).with_on_difference(OnDifference::Fail);
    account
        .database
        .bootstrap::<Shop>("shop", strict)
        .await
        .unwrap();
    assert_eq!(
        account.database.differences::<Shop>("shop").await.unwrap(),
        []
    );
}

#[tokio::test]
async fn concurrent_processes_can_create_the_same_container() {
    let account = Account::new().await;
    let create = || {
        account
            .database
            .bootstrap::<Shop>("shop", Bootstrap::CreateIfMissing)
    };
    let (a, b, c) = tokio::join!(create(), create(), create());
    a.and(b).and(c).unwrap();
}

#[tokio::test]
async fn a_container_with_another_partition_key_is_refused() {
    let account = Account::new().await;
    account.shop().await;
    let error = account
        .database
        .bootstrap::<Depot>("shop", Bootstrap::CreateIfMissing)
        .await
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ContainerMismatch);
    assert!(error.to_string().contains("/customer"), "{error}");
}

#[tokio::test]
async fn verify_only_names_the_missing_container() {
    let account = Account::new().await;
    account.shop().await;
    let error = account
        .database
        .bootstrap::<Shop>("absent", Bootstrap::VerifyOnly)
        .await
        .unwrap_err();
    assert!(error.to_string().contains("container `absent`"), "{error}");
}
