//! What an operator can do with held instances, and their stored form.

use std::sync::Arc;

use cdb_provider::Fork;
use cdb_provider::documents::{Hold, HoldCause, Instance, InstanceKey};
use cdb_provider::model::Patch;
use cdb_provider::payload::Encryption;
use cdb_tests::Backend;
use duroxide::Client;

use super::{Code, FOUND, Shop, run};

#[tokio::test(start_paused = true)]
async fn a_held_instance_is_not_rewound_but_forked_for_the_deployed_code() {
    let shop = Shop::open().await;
    let old = shop.deploy(Code::Old).await;
    shop.order("order-1").await;
    old.stop().await;
    let changed = shop.deploy(Code::Changed).await;
    shop.ship("order-1").await;
    let hold = shop.until_held("order-1").await.held.expect("it is held");
    let refused = changed.provider.rewind("order-1", "ada").await;
    let refused = refused.expect_err("it has not failed").to_string();
    says!(refused, "is held", "fork it at event 2");
    let fork = Fork {
        execution: None,
        event: hold.event.expect("the event is known"),
        new_instance: "order-2",
    };
    ok!(changed.provider.fork("order-1", fork, "ada"));
    // The changed code has one activity more.
    let mut wait = crate::harness::Wait::begin();
    while shop.events("order-2").await < 6 {
        assert!(!wait.is_over(), "order-2 is never charged");
        tokio::time::sleep(super::SECOND / 10).await;
    }
    shop.ship("order-2").await;
    let output = shop.end_within("order-2", FOUND).await;
    assert_eq!(output, Ok("ship order-2".to_owned()));
    assert!(shop.instance("order-1").await.held.is_some());
    shop.backend.stop().await;
}

/// Former versions ignore the field and remove it with their next commit. A newer version may store
/// causes and fields that this one does not know.
#[tokio::test(start_paused = true)]
async fn a_hold_of_another_version_is_read_and_removed_by_the_next_commit() {
    let shop = Shop::open().await;
    let _old = shop.deploy(Code::Old).await;
    shop.order("order-1").await;
    assert_eq!(shop.instance("order-1").await.held, None);
    let newer = r#"{"since":1000,"cause":"unheardOf","orchestration":"Order","reason":"","by":"web-9","more":[1]}"#;
    let hold: Hold = serde_json::from_str(newer).expect("a hold");
    assert_eq!(hold.cause, HoldCause::Other);
    let patch = Patch::<Instance>::new().set(Instance::HELD, Some(hold));
    let key = InstanceKey::new("order-1");
    ok!(shop.provider.container().run(patch.at(&key)));
    shop.ship("order-1").await;
    let output = shop.end_within("order-1", FOUND).await;
    assert_eq!(output, Ok("ship order-1".to_owned()));
    assert_eq!(shop.instance("order-1").await.held, None);
    shop.backend.stop().await;
}

/// The reason quotes inputs of activities.
#[tokio::test(start_paused = true)]
async fn the_stored_reason_of_a_hold_is_encrypted() {
    let backend = Backend::start_simulated().await;
    let encrypted = || {
        backend.provider_with(|config| {
            let codec = Encryption::new("k1", &[1; 32]).expect("a key");
            config.payload_codec = Some(Arc::new(codec));
        })
    };
    let (provider, old, changed) = (encrypted().await, encrypted().await, encrypted().await);
    let shop = Shop {
        client: Client::new(Arc::new(provider.clone())),
        provider,
        backend,
    };
    let old = run(old, Code::Old).await;
    shop.order("order-1").await;
    old.stop().await;
    let _changed = run(changed, Code::Changed).await;
    shop.ship("order-1").await;
    let hold = shop.until_held("order-1").await.held.expect("it is held");
    assert_eq!(hold.event, Some(2));
    assert!(!hold.reason.contains("charge"), "{}", hold.reason);
    shop.backend.stop().await;
}
