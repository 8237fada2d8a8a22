//! Effects and results that are too large.

use cdb_model::Document as _;
use std::time::Duration;

use cdb_provider::EffectsError;

use super::{Env, receipt};

/// One operation more than an activity may stage.
const TOO_MANY: usize = 81;

#[tokio::test]
async fn too_many_operations_are_refused_when_staged_and_none_takes_place() {
    let mut env = Env::start().await;
    env.join_with_one_attempt(|ctx, tx, _| async move {
        for number in 1..=TOO_MANY {
            let staged = tx.add(receipt(ctx.instance_id(), String::new()).create());
            assert_eq!(staged.is_err(), number == TOO_MANY, "{number}: {staged:?}");
        }
        // The body ignores the error. Its effects would be incomplete.
        Ok("done".to_owned())
    })
    .await;
    let failed = env.run("many", "").await.expect_err("it fails");
    says!(failed, "stages 81 operations, 80 are allowed");
    assert!(env.receipts("many").await.is_empty());
    env.stop().await;
}

#[tokio::test]
async fn too_many_bytes_are_refused_when_staged() {
    let mut env = Env::start().await;
    env.join_with_one_attempt(|ctx, tx, _| async move {
        let half = "x".repeat(800_000);
        tx.add(receipt(ctx.instance_id(), half.clone()).create())?;
        tx.add(receipt(ctx.instance_id(), half).create())?;
        Ok("done".to_owned())
    })
    .await;
    let failed = env.run("large", "").await.expect_err("it fails");
    assert!(failed.contains("bytes, 1500000 are allowed"), "{failed}");
    assert!(env.receipts("large").await.is_empty());
    env.stop().await;
}

#[tokio::test]
async fn effects_and_result_of_the_largest_size_are_committed_together() {
    let mut env = Env::start().await;
    env.join_with_one_attempt(|ctx, tx, _| async move {
        let nearly_half = "x".repeat(700_000);
        for _ in 0..2 {
            tx.add(receipt(ctx.instance_id(), nearly_half.clone()).create())?;
        }
        for _ in 2..TOO_MANY - 1 {
            tx.add(receipt(ctx.instance_id(), String::new()).create())?;
        }
        // A document holds this result, but not the batch with the effects.
        Ok("x".repeat(700_000))
    })
    .await;
    let ended = env.run("full", "").await.expect("it ends");
    assert_eq!(ended.len(), 700_000);
    assert_eq!(env.receipts("full").await.len(), TOO_MANY - 1);
    env.stop().await;
}

#[tokio::test]
async fn an_activity_whose_result_is_too_large_fails_without_effects() {
    let mut env = Env::with_config(|config| config.max_value_bytes = 100_000).await;
    env.join_with_one_attempt(|ctx, tx, _| async move {
        tx.add(receipt(ctx.instance_id(), String::new()).create())?;
        Ok("x".repeat(100_001))
    })
    .await;
    let failed = env.run("wide", "").await.expect_err("it fails");
    assert!(failed.contains("max_value_bytes"), "{failed}");
    assert!(env.receipts("wide").await.is_empty());
    env.stop().await;
}

#[tokio::test]
async fn effects_cannot_be_staged_after_the_body_has_ended() {
    let mut env = Env::start().await;
    let (late, refused) = tokio::sync::oneshot::channel();
    let late = std::sync::Mutex::new(Some(late));
    env.join_with_one_attempt(move |ctx, tx, _| {
        let late = late.lock().expect("no panic").take();
        async move {
            tx.add(receipt(ctx.instance_id(), String::new()).create())?;
            tokio::spawn(async move {
                // Longer than the body takes.
                tokio::time::sleep(Duration::from_millis(500)).await;
                let staged = tx.add(receipt(ctx.instance_id(), String::new()).create());
                late.map(|late| late.send(staged))
            });
            Ok(String::new())
        }
    })
    .await;
    env.run("late", "").await.expect("it ends");
    let refused = refused.await.expect("it is refused");
    assert!(matches!(refused, Err(EffectsError::Ended)), "{refused:?}");
    env.stop().await;
}
