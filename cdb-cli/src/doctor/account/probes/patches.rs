//! Patches. Source: partial-document-update.md.

use std::time::Duration;

use cdb_model::{Document as _, Patch};
use futures::future::try_join_all;
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::doctor::account::answer::{Answer, Failure, Outcome};
use crate::doctor::account::check::Check;
use crate::doctor::account::raw::Raw;
use crate::doctor::account::samples::Sample;

/// "If the field doesn't exist, it creates the field and sets it to the specified value."
pub(super) async fn incr(check: &Check) -> Outcome {
    let operations = json!([{ "op": "incr", "path": "/missing", "value": 3 }]);
    let (patched, item) = patch(check, "incr", &operations).await?;
    Ok(Answer::when(
        item["missing"] == 3,
        format!("{patched}; the value is {}", item["missing"]),
    ))
}

pub(super) async fn ten_changes(check: &Check) -> Outcome {
    let (patched, item) = patch(check, "ten", &changes(10)).await?;
    Ok(Answer::when(item["change9"] == 9, patched))
}

/// "A single patch request has a limit of 10 patch operations."
pub(super) async fn eleven_changes(check: &Check) -> Outcome {
    let (patched, item) = patch(check, "eleven", &changes(11)).await?;
    Ok(Answer::when(item.get("change0").is_none(), patched))
}

fn changes(count: usize) -> Value {
    let change = |at| json!({ "op": "set", "path": format!("/change{at}"), "value": at });
    (0..count).map(change).collect()
}

/// Patches a new item. Returns the status and the item afterwards.
async fn patch(check: &Check, id: &str, operations: &Value) -> Result<(String, Value), Failure> {
    let item = json!({ "id": id, "instanceId": "patch" });
    check.upsert("patch", &item).await?;
    let patched = check.send(&Raw::patch("patch", id, operations)).await?;
    let item = check.send(&Raw::read("patch", id)).await?;
    Ok((patched.outline(), item.body))
}

/// The writers of one document, and the patches of each.
const WRITERS: u32 = 10;
const PATCHES: u32 = 10;

/// A limited key has one document, which all runtimes patch. Source of 449: azure-sdk-for-java #32630.
pub(super) async fn hot_document(check: &Check) -> Outcome {
    let item = json!({ "id": "hot", "instanceId": "patch", "count": 0 });
    check.upsert("patch", &item).await?;
    let increment = json!([{ "op": "incr", "path": "/count", "value": 1 }]);
    let writer = || async {
        let (mut written, mut refused) = (0, 0);
        for _ in 0..PATCHES {
            let patched = check.send(&Raw::patch("patch", "hot", &increment)).await?;
            match patched.status {
                200 => written += 1,
                412 | 449 => refused += 1,
                _ => return Err(Failure::from(patched.outline())),
            }
        }
        Ok((written, refused))
    };
    let begun = Instant::now();
    let writers = try_join_all((0..WRITERS).map(|_| writer())).await?;
    let took = begun.elapsed().as_secs_f64();
    let written: u32 = writers.iter().map(|(written, _)| written).sum();
    let refused: u32 = writers.iter().map(|(_, refused)| refused).sum();
    let item = check.send(&Raw::read("patch", "hot")).await?;
    Ok(Answer::when(
        item.body["count"] == written,
        format!(
            "{:.0} a second by {WRITERS} writers, {refused} refused; the count is {} after {written}",
            f64::from(written) / took,
            item.body["count"]
        ),
    ))
}

/// A lock that has expired may be taken, another one may not.
pub(super) async fn time_condition(check: &Check) -> Outcome {
    let container = check.container()?;
    let now = container.now();
    let locked = Sample {
        until: now + Duration::from_secs(3600),
        ..Sample::new("patch", "locked")
    };
    let expired = Sample {
        until: now,
        ..Sample::new("patch", "expired")
    };
    let take = Patch::<Sample>::new().set(Sample::GROUP, "taken");
    let take = take.when(Sample::UNTIL.le(now));
    let mut taken = Vec::new();
    for sample in [&locked, &expired] {
        container.run(sample.create()).await?;
        let patched = container.run(take.at(&sample.key())).await;
        let status = match patched {
            Ok(_) => 200,
            Err(error) => error.status().map_or(0, |status| status.code),
        };
        let read = container.read(&sample.key()).await?;
        let is_taken = read.is_some_and(|row| row.document.group == "taken");
        taken.push((status, is_taken));
    }
    Ok(Answer::when(
        taken == [(412, false), (200, true)],
        format!(
            "{} if it is later, {} if it has passed",
            taken[0].0, taken[1].0
        ),
    ))
}
