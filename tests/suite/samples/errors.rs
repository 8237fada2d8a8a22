//! Failures: propagated, compensated, retried.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use duroxide::runtime::registry::ActivityRegistry;
use duroxide::{
    ActivityContext, AppErrorKind, BackoffStrategy, ErrorDetails, EventKind, OrchestrationContext,
    OrchestrationRegistry, RetryPolicy,
};

use crate::harness::TestEnv;

fn bank() -> ActivityRegistry {
    ActivityRegistry::builder()
        .register("Debit", |_: ActivityContext, account: String| async move {
            Ok(format!("debited {account}"))
        })
        .register("Credit", |_: ActivityContext, account: String| async move {
            if account == "closed" {
                return Err(format!("account {account} does not exist"));
            }
            Ok(format!("credited {account}"))
        })
        .build()
}

#[tokio::test]
async fn an_activity_s_failure_fails_the_instance_that_does_not_catch_it() {
    let orchestrations = OrchestrationRegistry::builder()
        .register(
            "Transfer",
            |ctx: OrchestrationContext, to: String| async move {
                let debit = ctx.schedule_activity("Debit", "mine").await?;
                let credit = ctx.schedule_activity("Credit", to).await?;
                Ok(format!("{debit}, {credit}"))
            },
        )
        .build();
    let env = TestEnv::start(bank(), orchestrations).await;
    let ended = env.run("good", "Transfer", "yours").await;
    assert_eq!(ended.as_deref(), Ok("debited mine, credited yours"));
    let error = env.run("bad", "Transfer", "closed").await;
    let error = error.expect_err("a closed account cannot be credited");
    assert_eq!(error.category(), "application");
    let message = error.display_message();
    assert!(
        message.contains("account closed does not exist"),
        "{message}"
    );
    let instances = env.client.list_instances_by_status("Failed").await;
    assert_eq!(instances.expect("a list"), ["bad"]);
    env.stop().await;
}

#[tokio::test]
async fn a_failure_can_be_compensated() {
    let orchestrations = OrchestrationRegistry::builder()
        .register(
            "Transfer",
            |ctx: OrchestrationContext, to: String| async move {
                ctx.schedule_activity("Debit", "mine").await?;
                match ctx.schedule_activity("Credit", to).await {
                    Ok(credit) => Ok(credit),
                    Err(_) => ctx.schedule_activity("Credit", "mine").await,
                }
            },
        )
        .build();
    let env = TestEnv::start(bank(), orchestrations).await;
    let ended = env.run("refund", "Transfer", "closed").await;
    assert_eq!(ended.as_deref(), Ok("credited mine"));
    let history = env.history("refund").await;
    let failed = history
        .iter()
        .filter(|kind| matches!(kind, EventKind::ActivityFailed { .. }));
    assert_eq!(failed.count(), 1);
    env.stop().await;
}

#[tokio::test]
async fn an_activity_is_retried_by_its_policy() {
    let attempts = Arc::new(AtomicUsize::new(0));
    let counted = attempts.clone();
    let activities = ActivityRegistry::builder()
        .register("Flaky", move |_: ActivityContext, until: String| {
            let attempt = counted.fetch_add(1, Ordering::SeqCst) + 1;
            async move {
                if attempt.to_string() == until {
                    Ok(format!("attempt {attempt}"))
                } else {
                    Err(format!("attempt {attempt} failed"))
                }
            }
        })
        .build();
    let orchestrations = OrchestrationRegistry::builder()
        .register(
            "Retry",
            |ctx: OrchestrationContext, until: String| async move {
                let policy = RetryPolicy::new(3).with_backoff(BackoffStrategy::None);
                ctx.schedule_activity_with_retry("Flaky", until, policy)
                    .await
            },
        )
        .build();
    let env = TestEnv::start(activities, orchestrations).await;
    let ended = env.run("third", "Retry", "3").await;
    assert_eq!(ended.as_deref(), Ok("attempt 3"));
    let error = env.run("never", "Retry", "0").await;
    let error = error.expect_err("three attempts are not enough");
    assert!(error.display_message().contains("attempt 6 failed"));
    assert_eq!(attempts.load(Ordering::SeqCst), 6);
    env.stop().await;
}

#[tokio::test]
async fn a_panic_fails_its_instance_and_nothing_else() {
    let orchestrations = OrchestrationRegistry::builder()
        .register("Panic", |_: OrchestrationContext, _: String| async move {
            assert!(std::hint::black_box(false), "out of cheese");
            Ok("never".to_owned())
        })
        .register("Calm", |_: OrchestrationContext, _: String| async move {
            Ok("calm".to_owned())
        })
        .build();
    let env = TestEnv::start(bank(), orchestrations).await;
    let error = env.run("panic", "Panic", "").await;
    let error = error.expect_err("it panics");
    assert!(
        matches!(
            &error,
            ErrorDetails::Application {
                kind: AppErrorKind::Panicked,
                ..
            }
        ),
        "{error:?}"
    );
    assert_eq!(env.run("calm", "Calm", "").await.as_deref(), Ok("calm"));
    env.stop().await;
}
