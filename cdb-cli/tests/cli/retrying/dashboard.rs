//! The pages of what fails and is retried.

use serde_json::json;

use super::*;
use crate::dashboard::browser::Browser;
use crate::dashboard::layout;
use crate::dashboard::server::{get, json};
use crate::dashboard::serving::Serving;

const INBOX: &str = "api/messages?source=partitions&failed=handling";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_inbox_is_a_view_of_a_container_with_messages() {
    let account = Account::empty().await;
    let is_fixed = Arc::new(AtomicBool::new(false));
    let mixed = account.container::<Mixed>().await;
    let messaging = failing(mixed, is_fixed.clone()).await;
    let serving = Serving::start(&account, &[]);
    let views = json(&serving, "api/about").await["views"].clone();
    let expected = json!([
        "overview",
        "instances",
        "queues",
        "outbox",
        "inbox",
        "deadletters"
    ]);
    assert_eq!(views, expected);
    let page = json(&serving, INBOX).await;
    assert_eq!(page["messages"][0]["reason"], "no parcel for the note");
    let queues = json(&serving, "api/queues").await;
    assert_eq!(queues["queues"]["messaging"]["inboxRetrying"], 1);
    is_fixed.store(true, Ordering::SeqCst);
    until_retrying(&messaging, 0).await;
    assert_eq!(json(&serving, INBOX).await["messages"], json!([]));
    messaging.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_container_of_ordered_work_has_the_views_that_it_can_have() {
    let account = Account::empty().await;
    let container = account.container::<Work>().await;
    let work = coordinator(container, 3).await;
    fail(&work, "order-7", "out of stock").await;
    let serving = Serving::start(&account, &[]);
    let views = json(&serving, "api/about").await["views"].clone();
    assert_eq!(views, json!(["queues", "work"]));
    let page = json(&serving, "api/messages?source=work").await;
    assert_eq!(page["messages"][0]["reason"], "out of stock");
    assert_eq!(page["messages"][0]["attempts"], 1);
    let queues = json(&serving, "api/queues").await;
    assert_eq!(queues["queues"]["work"]["blockedStreams"], 1);
    for other in ["instances", "overview", "messages?source=partitions"] {
        let refused = get(&serving, &format!("api/{other}")).await;
        assert_eq!(refused.status(), 400, "{other}");
    }
    work.shutdown().await.expect("it stops");
}

/// Opens a dashboard of the account in a browser, and waits for each view and its words.
async fn visit(account: &Account, views: &'static [(&str, &str, &str)]) {
    let serving = Serving::start(account, &[]);
    let address = serving.address.clone();
    let visited = tokio::task::spawn_blocking(move || {
        let Some(mut browser) = Browser::open(&address) else {
            println!("skipped: this machine has no Chromium");
            return;
        };
        for (view, title, words) in views {
            browser.wait_for(&format!(
                "document.querySelector('nav a[href=\"#/{view}\"]')?.hidden === false"
            ));
            browser.evaluate(&format!("location.hash = '#/{view}'"));
            browser.wait_for(&format!("document.title === '{title} – duroxide – cdb'"));
            browser.wait_for(&format!(
                "document.getElementById('main').innerText.includes('{words}')"
            ));
            layout::check(&mut browser, view);
        }
    });
    visited.await.expect("the pages work");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a Chromium: cargo xtask test-dashboard"]
async fn a_browser_shows_what_fails_in_each_kind_of_container() {
    let is_fixed = Arc::new(AtomicBool::new(false));
    let account = Account::empty().await;
    let work = coordinator(account.container::<Work>().await, 3).await;
    fail(&work, "order-7", "out of stock").await;
    let views = &[
        ("queues", "Queues", "streams blocked"),
        ("work", "Work", "out of stock"),
    ];
    visit(&account, views).await;
    work.shutdown().await.expect("it stops");

    let account = Account::empty().await;
    let messaging = failing(account.container::<Mixed>().await, is_fixed.clone()).await;
    let views = &[
        ("inbox", "Inbox", "no parcel for the note"),
        ("deadletters", "Dead letters", "No dead letters"),
    ];
    visit(&account, views).await;
    messaging.stop().await;

    let account = Account::empty().await;
    let processor = failing_feed(&account, is_fixed).await;
    let views = &[
        ("queues", "Queues", "parts failing"),
        ("change-feed", "Change feed", "the printer is off"),
    ];
    visit(&account, views).await;
    processor.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_positions_of_change_feeds_have_a_view() {
    let account = Account::empty().await;
    account.container::<ChangeFeedState>().await;
    let serving = Serving::start(&account, &[]);
    let views = json(&serving, "api/about").await["views"].clone();
    assert_eq!(views, json!(["queues", "change-feed"]));
    assert_eq!(json(&serving, "api/change-feed").await["parts"], json!([]));
}
