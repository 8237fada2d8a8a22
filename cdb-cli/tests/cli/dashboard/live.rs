//! A running orchestration in a headless Chromium: the page moves without a reload.

use std::sync::Arc;
use std::time::Duration;

use cdb_provider::documents::Durable;
use cdb_provider::{CosmosDBProvider, CosmosDBProviderConfig};
use duroxide::runtime::Runtime;
use duroxide::runtime::registry::ActivityRegistry;
use duroxide::{ActivityContext, Client, OrchestrationContext, OrchestrationRegistry};
use serde_json::json;
use tokio::runtime::Handle;

use super::browser::Browser;
use super::layout;
use super::serving::Serving;
use crate::harness::{Account, long_locks};

/// Charges, waits in vain for a coupon, packs, sends eleven parcels, and waits for an approval.
async fn checkout(context: OrchestrationContext, order: String) -> Result<String, String> {
    context.set_custom_status("charging");
    context.schedule_activity("Charge", order).await?;
    let coupon = context.schedule_wait("Coupon");
    let timeout = context.schedule_timer(Duration::from_millis(900));
    context.select2(coupon, timeout).await;
    context.set_custom_status("packing");
    context.schedule_wait("Packed").await;
    let parcels = (1..=11).map(|number| {
        let id = format!("order-4711-parcel-{number}");
        context.schedule_sub_orchestration_with_id("Parcel", id, number.to_string())
    });
    context.join(parcels.collect()).await;
    // The order goes on without an invoice.
    let _ = context.schedule_activity("Invoice", "4711").await;
    context.set_custom_status("waiting for approval");
    let approved = context.schedule_wait("Approved");
    let reminder = context.schedule_timer(Duration::from_secs(86_400));
    context.select2(approved, reminder).await;
    Err("the card was refused:\n  the bank answered 51\n  the limit is 500 euros".to_owned())
}

async fn activity(time: Duration, result: Result<&str, &str>) -> Result<String, String> {
    tokio::time::sleep(time).await;
    result.map(str::to_owned).map_err(str::to_owned)
}

async fn start(store: Arc<CosmosDBProvider>) -> Arc<Runtime> {
    let activities = ActivityRegistry::builder()
        .register("Charge", |_: ActivityContext, _: String| {
            activity(Duration::from_millis(700), Ok("paid"))
        })
        .register("Label", |_: ActivityContext, _: String| {
            activity(Duration::from_millis(300), Ok("printed"))
        })
        .register("Invoice", |_: ActivityContext, _: String| {
            activity(Duration::from_millis(400), Err("the printer is offline"))
        });
    let parcel = |context: OrchestrationContext, number: String| async move {
        context.schedule_activity("Label", number).await
    };
    let orchestrations = OrchestrationRegistry::builder()
        .register("Checkout", checkout)
        .register("Parcel", parcel);
    let orchestrations = orchestrations.build();
    Runtime::start_with_options(store, activities.build(), orchestrations, long_locks()).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a Chromium: cargo xtask test-dashboard"]
async fn a_running_instance_moves_while_a_browser_shows_it() {
    let account = Account::start().await;
    let config = CosmosDBProviderConfig::default();
    let store = CosmosDBProvider::on(account.container::<Durable>().await, &config).await;
    let store = Arc::new(store.expect("the container opens"));
    let runtime = start(store.clone()).await;
    let client = Client::new(store);
    let input = r#"{"customer":"ada","lines":[{"item":"lamp","count":2}],"cents":12900}"#;
    ok!(client.start_orchestration("order-4711", "Checkout", input));
    let serving = Serving::start(&account, &["--allow-actions"]);
    let (address, handle) = (serving.address.clone(), Handle::current());
    let pack = move || {
        let packed = client.raise_event("order-4711", "Packed", "yes");
        handle.block_on(packed).expect("it is raised");
    };
    let visited = tokio::task::spawn_blocking(move || visit(&address, &pack)).await;
    visited.expect("the page works");
    runtime.shutdown(None).await;
}

const STATUS: &str = "document.querySelector('dl')?.textContent";

fn visit(address: &str, pack: &dyn Fn()) {
    let Some(mut browser) = Browser::open(address) else {
        println!("skipped: this machine has no Chromium");
        return;
    };
    let browser = &mut browser;
    layout::set_width(browser, 1200);
    browser.wait_for("document.querySelectorAll('.tile').length === 5");
    browser.evaluate("location.hash = '#/instances/order-4711'");
    browser.wait_for(&format!("{STATUS}?.includes('packing') === true"));
    browser.wait_for("document.querySelector('input[name=event]').value === 'Packed'");
    browser.evaluate("window.loaded = 'once'");
    browser.evaluate("document.querySelector('details').open = false");
    browser.evaluate("document.querySelector('input[name=data]').value = 'half written'");
    browser.evaluate("document.querySelector('input[name=data]').focus()");
    let age = "[...document.querySelectorAll('td')].find((cell) => cell.dataset.label === 'For').textContent";
    let before = browser.evaluate(age);
    browser.wait_for(&format!("{age} !== {before}"));
    pack();
    browser.wait_for(&format!("{STATUS}.includes('waiting for approval')"));
    for kept in [
        "window.loaded === 'once'",
        "!document.querySelector('details').open",
        "document.activeElement.name === 'data'",
        "document.activeElement.value === 'half written'",
        "document.querySelector('input[name=event]').value === 'Approved'",
    ] {
        assert_eq!(browser.evaluate(kept), json!(true), "{kept}");
    }
    bars(browser);
    browser.evaluate("document.activeElement.blur()");
    layout::check(browser, "running");
    children(browser);
    browser.evaluate("document.querySelector('input[name=event]').form.requestSubmit()");
    browser.wait_for("document.querySelector('dl .state').textContent === 'Failed'");
    browser.wait_for("document.querySelector('dl').textContent.includes('the bank answered 51')");
    browser.wait_for(
        "[...document.querySelectorAll('button')].some((one) => one.textContent === 'Restart')",
    );
    layout::check(browser, "ended");
    restart(browser);
}

/// Checks the timed-out, failed and open bars of the timeline.
fn bars(browser: &mut Browser) {
    browser.wait_for("document.querySelectorAll('.bar.event.abandoned').length === 1");
    browser.wait_for("document.querySelectorAll('.bar.event.open').length === 1");
    browser.wait_for("document.querySelectorAll('.bar.activity.failed').length === 1");
    let end = "(() => { const bar = document.querySelector('.bar.event.open'); return Math.round(bar.x.baseVal.value + bar.width.baseVal.value); })()";
    assert_eq!(browser.evaluate(end), json!(990), "it does not end now");
}

/// Checks that all children are shown. They stand in the order of their creation.
fn children(browser: &mut Browser) {
    browser.wait_for("document.querySelectorAll('ul.tree ul a').length === 11");
    let ids = browser
        .evaluate("[...document.querySelectorAll('ul.tree ul a')].map((link) => link.textContent).sort(new Intl.Collator('en', { numeric: true }).compare)");
    let expected: Vec<String> = (1..=11)
        .map(|number| format!("order-4711-parcel-{number}"))
        .collect();
    assert_eq!(ids, json!(expected));
}

fn restart(browser: &mut Browser) {
    browser.evaluate("window.prompt = (question, id) => id");
    browser.evaluate(
        "[...document.querySelectorAll('button')].find((one) => one.textContent === 'Restart').click()",
    );
    browser.wait_for("location.hash === '#/instances/order-4711-restart'");
    browser.wait_for("document.querySelector('dl')?.textContent.includes('packing')");
}
