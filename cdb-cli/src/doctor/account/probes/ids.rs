//! Ids, partition keys and numbers with unusual values. Source: concepts-limits.md, "Per-item
//! limits": an id is any string without `/` and `\`.

use cdb_client::transport::http::Method;
use cdb_client::write::RawTarget;
use cdb_model::{Document as _, DocumentKey as _, Query};
use serde_json::json;

use crate::doctor::account::answer::{Answer, Failure, Outcome};
use crate::doctor::account::check::Check;
use crate::doctor::account::raw::Raw;
use crate::doctor::account::samples::Sample;

pub(super) async fn separators(check: &Check) -> Outcome {
    addressed(check, &["a:b|c;d,e", "~3a~", ":", "|x|", "a~b:c"]).await
}

pub(super) async fn other_scripts(check: &Check) -> Outcome {
    addressed(check, &["größe", "日本語", "עברית", "🦀 and é"]).await
}

pub(super) async fn control_characters(check: &Check) -> Outcome {
    addressed(check, &["a\u{1}b", "tab\tline\n", "del\u{7f}", "c1\u{85}"]).await
}

/// Creates an item of each id, reads it by its address, patches and deletes it.
async fn addressed(check: &Check, ids: &[&str]) -> Outcome {
    let mut failed = Vec::new();
    for id in ids {
        if let Err(why) = address(check, id).await? {
            failed.push(format!("{id:?}: {why}"));
        }
    }
    Ok(Answer::unless(&failed, format!("{} ids", ids.len())))
}

/// Returns the step that failed.
async fn address(check: &Check, id: &str) -> Result<Result<(), String>, Failure> {
    let item = json!({ "id": id, "instanceId": "ids" });
    let written = check.upsert("ids", &item).await?;
    if written.status != 201 {
        return Ok(Err(format!("created with {}", written.outline())));
    }
    let change = json!([{ "op": "set", "path": "/change", "value": 1 }]);
    let delete = Raw::new(Method::DELETE, RawTarget::Item(id)).in_partition("ids");
    let steps = [
        (Raw::patch("ids", id, &change), 200),
        (Raw::read("ids", id), 200),
        (delete, 204),
        (Raw::read("ids", id), 404),
    ];
    for (at, (step, expected)) in steps.into_iter().enumerate() {
        let answer = check.send(&step).await?;
        let is_other = answer.status == 200 && answer.body["id"] != id;
        if answer.status != expected || is_other {
            return Ok(Err(format!("step {at} has {}", answer.outline())));
        }
    }
    Ok(Ok(()))
}

pub(super) async fn keys_of_other_scripts(check: &Check) -> Outcome {
    located(check, &["größe", "日本語", "עברית", "🦀 and é"]).await
}

pub(super) async fn keys_with_control_characters(check: &Check) -> Outcome {
    located(check, &["a\u{1}b", "tab\tline\n", "del\u{7f}", "c1\u{85}"]).await
}

/// Creates a document of each partition key, reads it by its address, and finds it by a query of the
/// physical partition that the client computes.
async fn located(check: &Check, keys: &[&str]) -> Outcome {
    let container = check.container()?;
    let mut lost = Vec::new();
    for key in keys {
        let sample = Sample::new(key, "key");
        container.run(sample.create()).await?;
        let read = container.read(&sample.key()).await?;
        let found = match container
            .physical_partition_of(&sample.key().partition())
            .await?
        {
            Some(range) => {
                let query = Query::<Sample>::across_partitions();
                container
                    .query(query)
                    .in_physical_partition(&range)
                    .all()
                    .await?
            }
            None => Vec::new(),
        };
        let is_read = read.is_some_and(|row| row.document == sample);
        if !is_read || !found.iter().any(|row| row.document == sample) {
            lost.push(format!("{key:?} is not found"));
        }
    }
    Ok(Answer::unless(&lost, format!("{} keys", keys.len())))
}

/// Numbers are doubles (concepts-limits.md: IEEE 754 double precision), so the model refuses larger
/// integers.
pub(super) async fn large_integers(check: &Check) -> Outcome {
    let sent: u64 = (1 << 53) + 1;
    let item = json!({ "id": "large", "instanceId": "ids", "value": sent });
    check.upsert("ids", &item).await?;
    let read = check.send(&Raw::read("ids", "large")).await?;
    let stored = &read.body["value"];
    let is_exact = stored.as_u64() == Some(sent);
    Ok(Answer::when(
        stored.is_number() && !is_exact,
        format!("{sent} is stored as {stored}"),
    ))
}
