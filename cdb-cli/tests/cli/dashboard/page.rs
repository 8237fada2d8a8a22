//! The page in a headless Chromium: every view, by keyboard, with hostile ids and with 100,000
//! instances.

use std::time::Instant;

use cdb_client::ContainerClient;
use cdb_model::BulkBatch;
use cdb_provider::documents::{Durable, Status};
use serde_json::json;

use super::browser::Browser;
use super::serving::Serving;
use crate::fixture::{dead_intent, fill, instance, members};
use crate::harness::Account;

/// An id with markup, which a page that does not escape data would run.
const HOSTILE: &str = "<img src=x onerror=window.pwned=1>";

/// The number of loads that are measured.
const LOADS: u32 = 5;

/// The number of instances. `CDB_DASHBOARD_INSTANCES` overrides it, for a quick run with
/// screenshots.
fn instance_count() -> u64 {
    let given = std::env::var("CDB_DASHBOARD_INSTANCES").ok();
    given.map_or(100_000, |given| given.parse().expect("a number"))
}

async fn many(container: &ContainerClient<Durable>) {
    let ids: Vec<u64> = (0..instance_count()).collect();
    for batch in ids.chunks(100) {
        let mut bulk = BulkBatch::<Durable>::new();
        for number in batch {
            let status = if number % 7 == 0 {
                Status::Failed
            } else {
                Status::Completed
            };
            let one = instance(
                &format!("many-{number:06}"),
                "Import",
                status,
                1_000 + number,
            );
            bulk.create(&one).expect("an instance");
        }
        for result in container.execute_bulk(&bulk).await {
            result.expect("it is stored");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a Chromium and half a minute: cargo test-dashboard"]
async fn a_browser_shows_every_view_and_100_000_instances_within_a_second() {
    let account = Account::start().await;
    let container = fill(&account).await;
    members(&container).await;
    dead_intent(&container).await;
    let hostile = instance(HOSTILE, HOSTILE, Status::Failed, 900_000);
    container.create(&hostile).await.expect("it is stored");
    many(&container).await;
    let serving = Serving::start(&account, &["--allow-actions"]);
    let address = serving.address.clone();
    let visited = tokio::task::spawn_blocking(move || visit(&address)).await;
    if visited.expect("the page works") {
        let shown = account.cdb(&["instances", "show", "order-2"]).await;
        assert!(
            shown.out.contains("message: ExternalRaised Shipped"),
            "{shown:?}"
        );
    }
}

/// Visits every view. Returns `false` when this machine has no browser.
fn visit(address: &str) -> bool {
    let Some(mut browser) = Browser::open(address) else {
        println!("skipped: this machine has no Chromium");
        return false;
    };
    browser.wait_for("document.querySelectorAll('tbody tr').length === 50");
    assert_eq!(
        browser.evaluate("location.hash"),
        json!("#/instances"),
        "the address still holds the token"
    );
    first_paint(&mut browser, address);
    browser.wait_for("document.querySelector('tbody a').textContent.startsWith('<img')");
    browser.screenshot("instances");
    by_keyboard(&mut browser);
    browser.screenshot("instance");
    raise_event(&mut browser);
    browser.evaluate("location.hash = '#/queues'");
    // The view is shown before the queues are counted.
    browser.wait_for("document.querySelector('h2').textContent === 'Queues'");
    browser.wait_for("document.querySelectorAll('.heat i').length === 256");
    browser.wait_for("document.querySelectorAll('polyline').length === 2");
    browser.screenshot("queues");
    browser.evaluate("location.hash = '#/outbox'");
    browser.wait_for("document.querySelector('h2').textContent === 'Outbox'");
    browser.wait_for("document.querySelectorAll('tbody tr').length === 1");
    browser.screenshot("outbox");
    dead_letters(&mut browser);
    assert!(
        browser.evaluate("window.pwned === undefined") == json!(true),
        "the page ran stored text as a script"
    );
    true
}

/// Reloads the page, and checks the time until the first paint and until the list is shown.
fn first_paint(browser: &mut Browser, address: &str) {
    let (page, _) = address.split_once('#').expect("a token");
    let (mut paints, mut lists) = (Vec::new(), Vec::new());
    for load in 0..LOADS {
        let started = Instant::now();
        browser.call(
            "Page.navigate",
            &json!({ "url": format!("{page}?again={load}") }),
        );
        browser.wait_for(&format!(
            "location.search === '?again={load}' && document.querySelectorAll('tbody tr').length === 50"
        ));
        lists.push(started.elapsed().as_millis());
        browser.wait_for("performance.getEntriesByName('first-contentful-paint').length === 1");
        let paint =
            browser.evaluate("performance.getEntriesByName('first-contentful-paint')[0].startTime");
        paints.push(paint.as_f64().expect("it is painted"));
    }
    println!(
        "{} instances: first contentful paint after {paints:?} ms, the list after {lists:?} ms",
        instance_count()
    );
    assert!(
        paints.iter().all(|paint| *paint < 1000.0),
        "first paint after {paints:?} ms"
    );
}

/// Searches, selects a row and opens it by keyboard.
fn by_keyboard(browser: &mut Browser) {
    browser.press("/", 191, false);
    browser.wait_for("document.activeElement.name === 'text'");
    browser.evaluate("document.activeElement.value = '<img'");
    browser.press("Enter", 13, false);
    browser.wait_for(
        "location.hash.includes('text=') && document.querySelectorAll('tbody tr').length === 1",
    );
    browser.evaluate("location.hash = '#/instances?status=Running'");
    browser.wait_for("document.querySelectorAll('tbody tr').length === 2");
    browser.press("ArrowDown", 40, false);
    browser.press("ArrowDown", 40, false);
    browser.wait_for("document.activeElement.textContent === 'order-2'");
    browser.press("Enter", 13, false);
    browser.wait_for("document.querySelectorAll('.bar.activity').length === 2");
    browser.wait_for("document.querySelectorAll('.bar.subOrchestration').length === 1");
    browser.wait_for("document.querySelector('ul.tree') !== null");
    browser.press("Escape", 27, false);
    browser.wait_for("location.hash === '#/instances'");
    // Wait for the next view, because the previous view ignores requests.
    browser.wait_for("document.querySelector('ul.tree') === null");
    browser.evaluate("location.hash = '#/instances/order-2'");
    browser.wait_for("document.querySelector('ul.tree') !== null");
}

/// Opens the dead letter, goes back, and redrives it by keyboard.
fn dead_letters(browser: &mut Browser) {
    browser.evaluate("location.hash = '#/deadletters'");
    browser.wait_for("document.querySelector('h2').textContent === 'Dead letters'");
    browser.wait_for("document.querySelectorAll('tbody button').length === 1");
    browser.screenshot("deadletters");
    browser.press("ArrowDown", 40, false);
    browser.press("Enter", 13, false);
    browser.wait_for("document.querySelectorAll('pre').length === 2");
    browser.screenshot("deadletter");
    browser.press("Escape", 27, false);
    browser.wait_for("location.hash === '#/deadletters'");
    browser.wait_for("document.querySelectorAll('tbody button').length === 1");
    browser.evaluate("window.confirm = () => true");
    browser.evaluate("document.querySelector('tbody button').focus()");
    browser.press("Enter", 13, false);
    browser.wait_for("document.body.textContent.includes('No dead letters')");
    browser.wait_for("document.body.textContent.includes('the message is sent again')");
}

/// Raises an event from the page, with the token.
fn raise_event(browser: &mut Browser) {
    browser.evaluate("document.querySelector('input[name=event]').value = 'Shipped'");
    browser.evaluate("document.querySelector('input[name=event]').form.requestSubmit()");
    browser.wait_for("document.body.textContent.includes('ExternalRaised Shipped')");
    browser.wait_for("document.getElementById('status').textContent === 'the event is raised'");
}
