//! `cdb queues`, `cdb outbox` and `cdb members`.

use crate::fixture::{fill, members};
use crate::harness::Account;

#[tokio::test]
async fn what_waits_is_counted_and_its_age_is_told() {
    let account = Account::start().await;
    fill(&account).await;
    account.cdb(&["queues", "--slots"]).await.is("queues");
    account.cdb(&["outbox"]).await.is("outbox");
}

#[tokio::test]
async fn the_runtimes_are_listed_with_their_slots() {
    let account = Account::start().await;
    let container = account.container().await;
    account.cdb(&["members"]).await.is("members-none");
    members(&container).await;
    account.cdb(&["members"]).await.is("members");
}

#[tokio::test]
async fn an_empty_container_has_nothing_waiting() {
    let account = Account::start().await;
    account.cdb(&["queues"]).await.is("queues-empty");
    account.cdb(&["outbox"]).await.is("outbox-empty");
}
