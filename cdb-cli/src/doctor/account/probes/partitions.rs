//! Queries and bulks over several physical partitions.

use std::collections::{BTreeMap, BTreeSet};

use cdb_model::operation::BulkBatch;
use cdb_model::query::aggregate::Aggregate;
use cdb_model::{Document as _, DocumentKey as _, Query};

use crate::doctor::account::answer::{Answer, Outcome};
use crate::doctor::account::check::{Check, GROUPS, SPREAD};
use crate::doctor::account::samples::{Checked, Sample, SampleKey};

/// The samples of [`Check::spread`], and no others.
fn spread() -> Query<Sample> {
    Query::across_partitions().filter(Sample::GROUP.ge("group-"))
}

/// Source: partitioning-overview.md, "Physical partitions".
pub(super) async fn several_partitions(check: &Check) -> Outcome {
    let count = check.container()?.physical_partitions().await?.len();
    Ok(Answer::when(count > 1, format!("{count}")))
}

/// Finds each sample by a query of the physical partition that the client computes. Source:
/// azure-cosmos-dotnet-v3 `PartitionKeyHash.cs`.
pub(super) async fn hashing(check: &Check) -> Outcome {
    check.spread().await?;
    let container = check.container()?;
    let (mut found, mut elsewhere, mut used) = (0, 0, 0);
    for range in &container.physical_partitions().await? {
        let rows = container
            .query(spread())
            .in_physical_partition(range)
            .all()
            .await?;
        used += u32::from(!rows.is_empty());
        for row in rows {
            let key = row.document.key().partition();
            found += 1;
            elsewhere +=
                u32::from(container.physical_partition_of(&key).await?.as_ref() != Some(range));
        }
    }
    let holds = found == SPREAD && elsewhere == 0 && used > 1;
    Ok(Answer::when(
        holds,
        format!("{found} of {SPREAD} documents in {used} partitions, {elsewhere} elsewhere"),
    ))
}

/// Source: azure-cosmos-dotnet-v3 `BatchAsyncBatcher.cs`, `BulkExecutionRetryPolicy.cs`.
pub(super) async fn bulk(check: &Check) -> Outcome {
    let container = check.container()?;
    let new = |number: usize| Sample::new(&format!("bulk-{number}"), "bulk");
    let existing = new(3);
    container.run(existing.create()).await?;
    let mut bulk = BulkBatch::<Checked>::new();
    for number in 0..8 {
        bulk.add(new(number).create())?;
    }
    let results = container.execute_bulk(&bulk).await;
    let failed: Vec<usize> = (0..results.len())
        .filter(|&at| results[at].is_err())
        .collect();
    let is_conflict = matches!(&results[3], Err(error) if error.is_conflict());
    let mut written = 0;
    for number in 0..8 {
        written += usize::from(container.read(&new(number).key()).await?.is_some());
    }
    let holds = failed == [3] && is_conflict && written == 8;
    Ok(Answer::when(
        holds,
        format!("{written} of 8 are there, failed operations: {failed:?}"),
    ))
}

pub(super) async fn aggregates(check: &Check) -> Outcome {
    let samples = check.spread().await?;
    let all = spread().aggregate((
        Aggregate::count(),
        Sample::AMOUNT.sum(),
        Sample::AMOUNT.min(),
        Sample::AMOUNT.max(),
        Sample::AMOUNT.avg(),
    ));
    let found = check.container()?.query(all).one().await?;
    let amounts = || samples.iter().map(|sample| sample.amount);
    let sum = amounts().map(u64::from).sum::<u64>();
    let average = f64::from(u32::try_from(sum)?) / f64::from(SPREAD);
    let expected = (
        u64::from(SPREAD),
        sum,
        amounts().min(),
        amounts().max(),
        Some(average),
    );
    Ok(Answer::when(found == expected, format!("{found:?}")))
}

pub(super) async fn group_by(check: &Check) -> Outcome {
    let samples = check.spread().await?;
    let groups = spread().group_by(Sample::GROUP).sum(Sample::AMOUNT);
    let found = check.container()?.query(groups).all().await?;
    let mut expected = BTreeMap::<String, u64>::new();
    for sample in samples {
        *expected.entry(sample.group.clone()).or_default() += u64::from(sample.amount);
    }
    let holds =
        found.len() == expected.len() && found.into_iter().collect::<BTreeMap<_, _>>() == expected;
    Ok(Answer::when(holds, format!("{GROUPS} groups")))
}

pub(super) async fn distinct(check: &Check) -> Outcome {
    check.spread().await?;
    let found = check.container()?.query(spread().distinct(Sample::GROUP));
    let found: Vec<String> = found.all().await?;
    let expected: BTreeSet<String> = (0..GROUPS).map(|group| format!("group-{group}")).collect();
    let holds =
        found.len() == expected.len() && found.iter().cloned().collect::<BTreeSet<_>>() == expected;
    Ok(Answer::when(holds, format!("{} values", found.len())))
}

pub(super) async fn read_many(check: &Check) -> Outcome {
    let samples = check.spread().await?;
    let missing = SampleKey::new("spread-0", "missing");
    let mut keys: Vec<SampleKey> = samples.iter().map(Sample::key).collect();
    keys.insert(1, missing);
    let found = check.container()?.read_many(&keys).await?;
    let mut expected: Vec<Option<&Sample>> = samples.iter().map(Some).collect();
    expected.insert(1, None);
    let found: Vec<Option<&Sample>> = found
        .iter()
        .map(|row| row.as_ref().map(|row| &row.document))
        .collect();
    Ok(Answer::when(
        found == expected,
        format!("{} keys, one of them missing", keys.len()),
    ))
}

/// Source: index-policy.md, "Composite indexes".
pub(super) async fn order(check: &Check) -> Outcome {
    check.spread().await?;
    let container = check.container()?;
    let before = check.client().usage().total();
    let (mut rows, mut is_sorted) = (0, true);
    let ranges = container.physical_partitions().await?;
    for range in &ranges {
        let query = spread().order_by(Sample::BY_AMOUNT.reversed());
        let found = container
            .query(query)
            .in_physical_partition(range)
            .all()
            .await?;
        is_sorted &= found.is_sorted_by(|one, next| one.document.amount > next.document.amount);
        rows += found.len();
    }
    let (requests, charge) = check.spent(before);
    Ok(Answer::when(
        is_sorted && rows == usize::try_from(SPREAD)?,
        format!(
            "{rows} rows in {requests} requests, {charge:.1} RU for {} partitions",
            ranges.len()
        ),
    ))
}
