//! Effects that another writer makes impossible run the body again, without another attempt of the
//! activity.

use cdb_model::{Document as _, Patch};

use super::{Counter, CounterKey, Env, Receipt, ReceiptKey, Runs, receipt};

const INSTANCE: &str = "refused";

/// The state that the first run of a body does not expect.
#[derive(Clone, Copy)]
enum State {
    Exists,
    IsMissing,
    HasChanged,
    ConditionFails,
}

fn numbered(number: &str) -> Receipt {
    Receipt {
        number: number.to_owned(),
        ..receipt(INSTANCE, String::new())
    }
}

/// Runs a body whose effects are refused at the first commit. The counter must show the effect of
/// the second run only.
async fn runs_again(state: State, expected: i64) {
    let mut env = Env::start().await;
    let (runs, other) = (Runs::default(), env.shop.clone());
    let counted = runs.clone();
    env.create_counter(INSTANCE).await;
    ok!(env.shop.run(numbered("taken").create()));
    env.join_with_one_attempt(move |_, tx, _| {
        let (run, other) = (counted.next(), other.clone());
        async move {
            let key = CounterKey::new(INSTANCE);
            let found = tx.read(&key).await?.ok_or("there is no counter")?;
            let one = Patch::new().incr(Counter::EFFECTS, 1);
            tx.add(numbered(&format!("run-{run}")).create())?;
            match state {
                _ if run > 1 => {}
                State::Exists => tx.add(numbered("taken").create())?,
                State::IsMissing => tx.add(ReceiptKey::new(INSTANCE, "missing").delete())?,
                State::HasChanged => {
                    let ten = Patch::new().incr(Counter::EFFECTS, 10);
                    other.run(ten.at(&key)).await?;
                }
                State::ConditionFails => {
                    let impossible = one.clone().when(Counter::EFFECTS.eq(7));
                    tx.add(impossible.at(&key))?;
                }
            }
            tx.add(one.at(&found))?;
            Ok(run.to_string())
        }
    })
    .await;
    assert_eq!(env.run(INSTANCE, "").await.as_deref(), Ok("2"));
    assert_eq!(runs.count(), 2);
    assert_eq!(env.counted(INSTANCE).await, expected);
    let receipts = env.receipts(INSTANCE).await.into_iter();
    let mut numbers: Vec<String> = receipts.map(|receipt| receipt.number).collect();
    numbers.sort_unstable();
    assert_eq!(numbers, ["run-2", "taken"]);
    env.stop().await;
}

#[tokio::test]
async fn a_body_runs_again_when_a_document_exists() {
    runs_again(State::Exists, 1).await;
}

#[tokio::test]
async fn a_body_runs_again_when_a_document_is_missing() {
    runs_again(State::IsMissing, 1).await;
}

#[tokio::test]
async fn a_body_runs_again_when_a_document_has_changed() {
    runs_again(State::HasChanged, 11).await;
}

#[tokio::test]
async fn a_body_runs_again_when_the_condition_of_a_patch_fails() {
    runs_again(State::ConditionFails, 1).await;
}

#[tokio::test]
async fn an_activity_fails_without_effects_when_ten_runs_are_refused() {
    let mut env = Env::start().await;
    let runs = Runs::default();
    let counted = runs.clone();
    env.join_with_one_attempt(move |_, tx, _| {
        counted.next();
        async move {
            tx.add(numbered("written").create())?;
            tx.add(ReceiptKey::new(INSTANCE, "missing").delete())?;
            Ok(String::new())
        }
    })
    .await;
    let failed = env.run(INSTANCE, "").await.expect_err("it fails");
    for part in [
        "activity `Act` were refused in each of 10 runs",
        "document `refused:receipt:missing`",
    ] {
        assert!(failed.contains(part), "{failed}");
    }
    assert_eq!(runs.count(), 10);
    assert!(env.receipts(INSTANCE).await.is_empty());
    env.stop().await;
}

#[tokio::test]
async fn a_body_that_fails_has_no_effects() {
    let mut env = Env::start().await;
    env.join_with_one_attempt(|_, tx, _| async move {
        tx.add(numbered("written").create())?;
        Err("sold out".into())
    })
    .await;
    let failed = env.run(INSTANCE, "").await.expect_err("it fails");
    assert_eq!(failed, "sold out");
    assert!(env.receipts(INSTANCE).await.is_empty());
    env.stop().await;
}
