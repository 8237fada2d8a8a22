//! `cdb queues` and `cdb members`.

use crate::fixture::{fill, members};
use crate::harness::Account;

#[tokio::test]
async fn queues_show_counts_and_ages() {
    let account = Account::start().await;
    fill(&account).await;
    account.cdb("queues --slots").await.is("queues");
}

#[tokio::test]
async fn members_are_listed_with_their_slots() {
    let account = Account::start().await;
    let container = account.container().await;
    account.cdb("members").await.is("members-none");
    members(&container).await;
    account.cdb("members").await.is("members");
}

#[tokio::test]
async fn the_queues_of_an_empty_container_are_empty() {
    let account = Account::start().await;
    account.cdb("queues").await.is("queues-empty");
    let messages = account.cdb("messages list").await;
    assert_eq!(messages.out, "no message is dead or retried\n");
}
