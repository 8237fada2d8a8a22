//! Atomic batches. Source: transactional-batch.md.

use cdb_client::measure_charge;
use cdb_model::document::Read;
use cdb_model::limits::{MAX_BATCH_OPERATIONS, MAX_REQUEST_BYTES};
use cdb_model::{Batch, Document as _, Patch};
use serde_json::json;

use crate::doctor::account::answer::{Answer, Outcome};
use crate::doctor::account::check::Check;
use crate::doctor::account::raw::Raw;
use crate::doctor::account::samples::{Checked, Sample, SampleKey};

/// The bytes around the text of a sample in a batch, and some reserve.
const FRAME: usize = 1_024;

pub(super) async fn full_batch(check: &Check) -> Outcome {
    let container = check.container()?;
    let sample = |number: usize| Sample::new("batch", &format!("full-{number}"));
    let mut batch = Batch::<Checked>::new("batch");
    for number in 0..MAX_BATCH_OPERATIONS {
        batch.add(sample(number).create())?;
    }
    container.execute(&batch).await?;
    // The last operation of the second batch conflicts, so the first one must not remain.
    let mut second = Batch::<Checked>::new("batch");
    second.add(sample(MAX_BATCH_OPERATIONS).create())?;
    let conflicting = second.add(sample(0).create())?;
    let Err(error) = container.execute(&second).await else {
        return Ok(Answer::No("a conflicting batch was committed".to_owned()));
    };
    let is_named = error.operation_index() == Some(conflicting.get());
    let remains = container.read(&sample(MAX_BATCH_OPERATIONS).key()).await?;
    Ok(match (error.is_conflict() && is_named, remains) {
        (true, None) => Answer::Yes(format!(
            "{MAX_BATCH_OPERATIONS} operations; the conflict names operation 1"
        )),
        (_, Some(_)) => Answer::No("an operation of a failed batch remains".to_owned()),
        (false, None) => Answer::No(format!("the error is: {error}")),
    })
}

/// Source: partial-document-update.md, "Conditional update": in a batch, too.
pub(super) async fn false_condition(check: &Check) -> Outcome {
    let container = check.container()?;
    let patched = Sample::new("batch", "patched");
    let beside = Sample::new("batch", "beside");
    container.run(patched.create()).await?;
    let mut batch = Batch::<Checked>::new("batch");
    batch.add(beside.create())?;
    let patch = Patch::<Sample>::new().set(Sample::GROUP, "changed");
    let patch = patch.when(Sample::AMOUNT.gt(7_u32));
    let conditional = batch.add(patch.at(&patched.key()))?;
    let outcome = container.execute(&batch).await;
    let written = container.read(&beside.key()).await?.is_some();
    let changed = container.read(&patched.key()).await?;
    let changed = changed.is_none_or(|row| row.document != patched);
    Ok(match outcome {
        Ok(_) => Answer::No("the batch was committed".to_owned()),
        Err(_) if written || changed => {
            Answer::No("an operation of a failed batch remains".to_owned())
        }
        Err(error) => Answer::when(
            error.is_precondition_failed() && error.operation_index() == Some(conditional.get()),
            format!(
                "{}, operation {:?}",
                error.status().map_or(0, |status| status.code),
                error.operation_index()
            ),
        ),
    })
}

pub(super) async fn read(check: &Check) -> Outcome {
    let container = check.container()?;
    let known = Sample::new("batch", "known");
    container.run(known.create()).await?;
    let batch = |name: &str, beside: &str| {
        let mut batch = Batch::<Checked>::new("batch");
        let at = batch.add(Read::new(&SampleKey::new("batch", name)))?;
        batch.add(Sample::new("batch", beside).create())?;
        Ok::<_, cdb_model::operation::BatchError>((batch, at))
    };
    let (found, at) = batch("known", "with-read")?;
    let outcome = container.execute(&found).await?;
    let document = outcome.document::<Sample>(at)?;
    let is_returned = document.is_some_and(|row| row.document == known);
    let (missing, at) = batch("unknown", "without-read")?;
    let refused = container.execute(&missing).await;
    let beside = SampleKey::new("batch", "without-read");
    let remains = container.read(&beside).await?.is_some();
    let fails = matches!(&refused, Err(error)
        if error.is_not_found() && error.operation_index() == Some(at.get()));
    Ok(Answer::when(
        is_returned && fails && !remains,
        format!("returned: {is_returned}; a missing one fails the batch: {fails}"),
    ))
}

/// Source: concepts-limits.md, "Per-request limits": 2 MB.
pub(super) async fn size(check: &Check) -> Outcome {
    let container = check.container()?;
    let half = |name: &str, bytes: usize| Sample {
        padding: "x".repeat(bytes),
        ..Sample::new("large", name)
    };
    let largest = MAX_REQUEST_BYTES / 2 - FRAME;
    let mut below = Batch::<Checked>::new("large");
    below.add(half("one", largest).create())?;
    below.add(half("two", largest).create())?;
    let bytes = below.size_bytes();
    let (written, charge) = measure_charge(container.execute(&below)).await;
    let create = |name: &str| {
        let body = json!({
            "id": format!("sample:{name}"), "instanceId": "large", "padding": "x".repeat(largest + 2 * FRAME),
        });
        json!({ "operationType": "Create", "resourceBody": body })
    };
    let above = Raw::batch("large", json!([create("three"), create("four")]));
    let refused = check.send(&above).await?;
    let mut remain = 0;
    for name in ["three", "four"] {
        let read = check
            .send(&Raw::read("large", &format!("sample:{name}")))
            .await?;
        remain += usize::from(read.status == 200);
    }
    Ok(Answer::when(
        written.is_ok() && refused.status == 413 && remain == 0,
        match written {
            Ok(_) => format!(
                "{bytes} bytes for {charge:.0} RU; above: {}",
                refused.outline()
            ),
            Err(error) => format!("{bytes} bytes: {error}"),
        },
    ))
}
