//! Payload codecs: no payload is stored as plaintext, a damaged one fails its instance only, and
//! keys are rotated while work is under way.

use std::sync::Arc;
use std::time::Duration;

use cdb_provider::documents::{SCHEMA_PARTITION, SchemaKey};
use cdb_provider::payload::{Compression, Encryption, PayloadCodec};
use cdb_provider::{CosmosDBProvider, CosmosDBProviderConfig};
use duroxide::providers::{Provider as _, ProviderAdmin as _};
use duroxide::runtime::registry::ActivityRegistry;
use duroxide::{
    ActivityContext, Client, Either2, OrchestrationContext, OrchestrationRegistry,
    OrchestrationStatus,
};
use serde_json::{Value, json};

use crate::harness::{TestEnv, end_of, eventually, long_locks};
use crate::hostile::raw::Raw;

/// Part of every payload of these tests.
const PLAINTEXT: &str = "secret";

fn encryption() -> Encryption {
    Encryption::new("k1", &[1; 32]).expect("a key")
}

/// A store whose providers have this codec.
async fn encoded_by(codec: impl PayloadCodec + 'static) -> TestEnv {
    TestEnv::with_config(|config| config.payload_codec = Some(Arc::new(codec))).await
}

fn activities() -> ActivityRegistry {
    ActivityRegistry::builder()
        .register("Echo", |_: ActivityContext, text: String| async move {
            Ok(format!("{text}, activity secret"))
        })
        .register("Fail", |_: ActivityContext, text: String| async move {
            Err::<String, _>(format!("{text}, error secret"))
        })
        .build()
}

/// Passes payloads in every way that duroxide has, except that it ends with a result.
async fn pass_payloads(ctx: &OrchestrationContext) -> Result<String, String> {
    ctx.set_custom_status("status secret");
    ctx.set_kv_value("key", "value secret");
    let echoed = ctx.schedule_activity("Echo", "input secret").await?;
    let failed = ctx.schedule_activity("Fail", "input secret").await;
    let child = ctx.schedule_sub_orchestration_with_id("Child", "child", "child secret");
    let child = child.await?;
    ctx.schedule_orchestration("Child", "detached", "detached secret");
    let event = ctx.schedule_wait("Event").await;
    let queued = ctx.dequeue_event("Queue").await;
    Ok(format!("{echoed}; {failed:?}; {child}; {event}; {queued}"))
}

fn orchestrations() -> OrchestrationRegistry {
    OrchestrationRegistry::builder()
        .register("All", async |ctx: OrchestrationContext, input: String| {
            if input == "first secret" {
                let passed = pass_payloads(&ctx).await?;
                return ctx.continue_as_new(passed).await;
            }
            let carried = ctx.dequeue_event("Queue").await;
            Ok(format!("{input}; {carried}"))
        })
        .register(
            "Child",
            |_: OrchestrationContext, input: String| async move { Ok(format!("{input} result")) },
        )
        .register("Fails", async |ctx: OrchestrationContext, input: String| {
            ctx.schedule_activity("Fail", input).await
        })
        .register("Wait", |ctx: OrchestrationContext, _: String| async move {
            let event = ctx.schedule_wait("Go").await;
            ctx.schedule_activity("Echo", event).await
        })
        .register(
            "WaitForTwo",
            async |ctx: OrchestrationContext, _: String| {
                let (first, second) = (ctx.schedule_wait("One"), ctx.schedule_wait("Two"));
                match ctx.select2(first, second).await {
                    Either2::First(event) | Either2::Second(event) => Ok(event),
                }
            },
        )
        .build()
}

/// Waits for the end of an instance, and returns its output or its error.
async fn ended(client: &Client, instance: &str) -> Result<String, String> {
    match end_of(client, instance).await {
        OrchestrationStatus::Completed { output, .. } => Ok(output),
        OrchestrationStatus::Failed { details, .. } => Err(details.display_message()),
        other => Err(format!("it has not ended: {other:?}")),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_payload_is_stored_as_plaintext() {
    let mut env = encoded_by(encryption()).await;
    env.join(activities(), orchestrations(), long_locks()).await;
    let client = &env.client;
    env.begin("all", "All", "first secret").await;
    env.until_subscribed("all", "Event").await;
    env.raise("all", "Event", "event secret").await;
    for data in ["queued secret", "carried secret"] {
        ok!(client.enqueue_event("all", "Queue", data));
    }
    assert_eq!(
        ended(client, "all").await.expect("it completes"),
        "input secret, activity secret; Err(\"input secret, error secret\"); child secret result; \
         event secret; queued secret; carried secret"
    );
    let failed = env.run("fails", "Fails", "failing secret").await;
    let failed = failed.expect_err("it fails").display_message();
    assert_eq!(failed, "failing secret, error secret");
    env.begin("cancelled", "WaitForTwo", "waiting secret").await;
    env.until_subscribed("cancelled", "One").await;
    ok!(client.cancel_instance("cancelled", "cancel secret"));
    ended(client, "cancelled")
        .await
        .expect_err("it is cancelled");
    // As clients and tools read them.
    let value = client.get_kv_value("all", "key").await;
    assert_eq!(value.expect("the value").as_deref(), Some("value secret"));
    let status = env.provider.get_custom_status("all", 0).await;
    let status = status.expect("the status").and_then(|(status, _)| status);
    assert_eq!(status.as_deref(), Some("status secret"));
    let info = env
        .provider
        .get_instance_info("child")
        .await
        .expect("it exists");
    assert_eq!(info.output.as_deref(), Some("child secret result"));

    if let Some(raw) = Raw::of(&env) {
        let stored = raw.text().await;
        assert!(stored.contains("cdb:payload:k1:"));
        let shown = stored
            .find(PLAINTEXT)
            .map(|at| &stored[at.saturating_sub(200)..at + 100]);
        assert_eq!(shown, None);
    }
    env.stop().await;
}

/// Changes a character of the first payload in a text.
fn flip(text: &mut Value) {
    let mut stored = text.as_str().expect("a text").to_owned();
    let at = stored.find("cdb:payload:k1:").expect("it is encoded") + "cdb:payload:k1:".len() + 40;
    let flipped = if stored.as_bytes()[at] == b'A' {
        "B"
    } else {
        "A"
    };
    stored.replace_range(at..=at, flipped);
    *text = json!(stored);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_flipped_byte_fails_only_its_instance() {
    let mut env = encoded_by(encryption()).await;
    let Some(raw) = Raw::of(&env) else {
        return env.stop().await;
    };
    for instance in ["history", "message", "intact"] {
        env.begin(instance, "Wait", "an input").await;
    }
    raw.damage("message", "orch_queue", |it| flip(&mut it["workItem"]))
        .await;
    let two_attempts = duroxide::runtime::RuntimeOptions {
        max_attempts: 2,
        ..long_locks()
    };
    env.join(activities(), orchestrations(), two_attempts.clone())
        .await;
    env.until_subscribed("history", "Go").await;
    env.until_subscribed("intact", "Go").await;
    env.kill_runtimes().await;
    raw.damage("history", "history", |it| flip(&mut it["eventData"]))
        .await;
    for instance in ["history", "intact"] {
        env.raise(instance, "Go", "go").await;
    }
    env.join(activities(), orchestrations(), two_attempts).await;
    let intact = ended(&env.client, "intact").await;
    assert_eq!(intact.expect("it completes"), "go, activity secret");
    for instance in ["history", "message"] {
        // Until then, reads of the history fail.
        eventually(async || {
            let info = env.provider.get_instance_info(instance).await;
            info.is_ok_and(|info| info.status == "Failed")
        })
        .await;
        let message = ended(&env.client, instance).await.expect_err("it fails");
        says!(message, "a payload of key `k1` is damaged");
    }
    env.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn work_of_a_missing_key_waits_for_it_and_counts_no_attempt() {
    let mut env = encoded_by(encryption()).await;
    let client_side = encryption();
    client_side.add_key("k2", &[2; 32]).expect("a new key");
    client_side.set_current("k2").expect("it was added");
    let codec = Arc::new(client_side);
    let sender = env
        .provider_with(|config| config.payload_codec = Some(codec))
        .await;
    let runtime_side = encryption();
    let codec = Arc::new(runtime_side.clone());
    let runtime = env
        .provider_with(|config| config.payload_codec = Some(codec))
        .await;
    env.join_with(
        runtime,
        activities(),
        orchestrations(),
        duroxide::runtime::RuntimeOptions {
            max_attempts: 1,
            ..long_locks()
        },
    )
    .await;
    let client = Client::new(Arc::new(sender));
    let start = client.start_orchestration("new-key", "Fails", "a new secret");
    start.await.expect("it starts");
    assert_eq!(
        env.run("old-key", "Child", "old").await.as_deref(),
        Ok("old result")
    );
    // The runtime has met the start by now, or meets it later: both must not fail it.
    tokio::time::sleep(Duration::from_secs(3)).await;
    let status = client.get_orchestration_status("new-key").await;
    assert_eq!(status.expect("a status"), OrchestrationStatus::NotFound);
    runtime_side.add_key("k2", &[2; 32]).expect("a new key");
    let failed = ended(&client, "new-key").await;
    assert_eq!(failed, Err("a new secret, error secret".to_owned()));
    env.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_key_is_rotated_while_instances_run() {
    let keys = encryption();
    let mut env = encoded_by(keys.clone()).await;
    env.join(activities(), orchestrations(), long_locks()).await;
    for number in 0..4 {
        env.begin(format!("i-{number}"), "Wait", "an input").await;
    }
    env.until_subscribed("i-3", "Go").await;
    keys.add_key("k2", &[2; 32]).expect("a new key");
    keys.set_current("k2").expect("it was added");
    for number in 0..4 {
        let instance = format!("i-{number}");
        env.raise(&instance, "Go", "go").await;
        let result = ended(&env.client, &instance).await;
        assert_eq!(result.expect("it completes"), "go, activity secret");
    }
    if let Some(raw) = Raw::of(&env) {
        let stored = raw.text().await;
        assert!(stored.contains("cdb:payload:k1:") && stored.contains("cdb:payload:k2:"));
    }
    env.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_container_with_plaintext_is_continued_with_a_codec() {
    let mut env = TestEnv::with_config(|config| config.payload_codec = None).await;
    let start = env
        .client
        .start_orchestration("before", "Wait", "cdb:payload:no:codec");
    start.await.expect("it starts");
    let codec = || Some(Arc::new(encryption()) as Arc<dyn PayloadCodec>);
    let provider = env
        .provider_with(|config| config.payload_codec = codec())
        .await;
    env.join_with(
        provider.clone(),
        activities(),
        orchestrations(),
        long_locks(),
    )
    .await;
    let history = async || provider.read("before").await.unwrap_or_default();
    eventually(async || history().await.len() > 1).await;
    let started = serde_json::to_string(&history().await[0]).expect("JSON");
    says!(started, "\"input\":\"cdb:payload:no:codec\"");
    // A runtime without a codec is still running, and leaves encoded work alone.
    let client = Client::new(Arc::new(provider.clone()));
    ok!(client.raise_event("before", "Go", "go"));
    let result = ended(&client, "before").await;
    assert_eq!(result.expect("it completes"), "go, activity secret");
    env.stop().await;
}

#[tokio::test]
async fn a_container_is_refused_without_its_codec_and_open_to_tools() {
    let env = encoded_by(encryption()).await;
    env.begin("i", "Wait", "an input").await;
    let open = async |codec: Option<Arc<dyn PayloadCodec>>| {
        let config = CosmosDBProviderConfig {
            payload_codec: codec,
            ..Default::default()
        };
        CosmosDBProvider::on(env.provider.container().clone(), &config).await
    };
    let refused = open(None).await.expect_err("it has no codec").to_string();
    says!(refused, "are encoded by `xchacha20-poly1305`");
    says!(refused, "has no codec; set `payload_codec`");
    let other = open(Some(Arc::new(Compression))).await;
    let other = other.expect_err("it is another codec").to_string();
    assert!(other.contains("has the codec `lz4`"), "{other}");

    let container = env.provider.container().clone();
    let schema = ok!(container.read(&SchemaKey::new(SCHEMA_PARTITION)));
    let schema = schema.map(|stored| stored.document).expect("it exists");
    assert_eq!(
        (schema.version, schema.payload_codec.as_deref()),
        (2, Some("xchacha20-poly1305"))
    );
    let config = CosmosDBProviderConfig::default();
    let tool = CosmosDBProvider::for_tools(container, &config, Some(&schema)).expect("it opens");
    let client = Client::new(Arc::new(tool.clone()));
    ok!(client.raise_event("i", "Go", "cdb:payload:k9:AAAA"));
    let refused = client.raise_event("i", "Go", "plaintext").await;
    let refused = refused.expect_err("it has no codec").to_string();
    for part in ["encoded by `xchacha20-poly1305`", "set COSMOS_PAYLOAD_KEYS"] {
        assert!(refused.contains(part), "{refused}");
    }
    let cancelled = client.cancel_instance("i", "a reason").await;
    cancelled.expect("a reason is not refused");
    assert_eq!(
        tool.decode("cdb:payload:k1:AAAA".to_owned()),
        "cdb:payload:k1:AAAA"
    );
    env.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_tool_with_keys_does_not_encode_for_a_container_without_a_codec() {
    let mut env = TestEnv::with_config(|config| config.payload_codec = None).await;
    env.begin("i", "Wait", "an input").await;
    let container = env.provider.container().clone();
    let schema = container.read(&SchemaKey::new(SCHEMA_PARTITION)).await;
    let schema = schema.expect("it is read").map(|stored| stored.document);
    let config = CosmosDBProviderConfig {
        payload_codec: Some(Arc::new(encryption())),
        ..Default::default()
    };
    let tool = CosmosDBProvider::for_tools(container, &config, schema.as_ref());
    let client = Client::new(Arc::new(tool.expect("it opens")));
    let refused = client.raise_event("i", "Go", "unreadable").await;
    let refused = refused.expect_err("its runtimes have no key").to_string();
    for part in ["are not encoded", "unset COSMOS_PAYLOAD_KEYS"] {
        assert!(refused.contains(part), "{refused}");
    }
    let cancelled = client.cancel_instance("i", "a reason").await;
    cancelled.expect("a reason is not refused");
    env.join(activities(), orchestrations(), long_locks()).await;
    let ended = ended(&env.client, "i").await.expect_err("it is cancelled");
    assert!(ended.contains("a reason"), "{ended}");
    env.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn compressed_payloads_take_less_room() {
    let mut env = encoded_by(Compression).await;
    env.join(activities(), orchestrations(), long_locks()).await;
    let input = "compressible secret, ".repeat(10_000);
    let result = env.run("long", "Child", &input).await;
    assert_eq!(result, Ok(format!("{input} result")));
    assert_eq!(
        env.run("short", "Child", "a").await.as_deref(),
        Ok("a result")
    );
    if let Some(raw) = Raw::of(&env) {
        let stored = raw.text().await;
        assert!(stored.len() < input.len() / 4, "{} bytes", stored.len());
        assert!(stored.contains("a result"), "short payloads stay readable");
    }
    env.stop().await;
}
