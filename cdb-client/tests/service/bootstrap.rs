//! Bootstrap.

use cdb_client::Bootstrap;
use cdb_client::database::{BootstrapConfig, OnDifference};

use crate::account::Account;
use crate::shop::Shop;

#[tokio::test]
async fn a_container_made_from_the_model_does_not_differ_from_it() {
    let account = Account::new().await;
    account.shop().await;
    let strict =
        BootstrapConfig::from(Bootstrap::VerifyOnly).with_on_difference(OnDifference::Fail);
    ok!(account.database.bootstrap::<Shop>("shop", strict));
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
