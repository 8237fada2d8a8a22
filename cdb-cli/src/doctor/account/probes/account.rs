//! The account and its gateway: regions, consistency, versions, clock.

use cdb_client::transport::http::Method;
use cdb_client::write::RawTarget;

use crate::doctor::account::answer::{Answer, Outcome};
use crate::doctor::account::check::Check;
use crate::doctor::account::raw::Raw;

/// Source: conflict-resolution-policies.md: with several write regions, conflicts are resolved later.
pub(super) async fn one_write_region(check: &Check) -> Outcome {
    let account = check.client().account().await?;
    let regions = account.write_regions.iter();
    let regions: Vec<&str> = regions.map(|region| &*region.name).collect();
    let regions = regions.join(", ");
    Ok(Answer::when(!account.has_several_write_regions, regions))
}

/// Source: azure_data_cosmos_driver, `ReadConsistencyStrategy::is_session_effective`.
pub(super) async fn consistency(check: &Check) -> Outcome {
    let account = check.client().account().await?;
    let level = account.consistency();
    let holds = matches!(level, "Session" | "BoundedStaleness" | "Strong");
    Ok(Answer::when(holds, level))
}

/// Source: consistency-levels.md: a read from a quorum costs twice as much.
pub(super) async fn latest_committed(check: &Check) -> Outcome {
    Ok(match check.container()?.honours_latest_committed().await? {
        Some(holds) => Answer::when(holds, format!("twice: {holds}")),
        None => Answer::No("the service reports no charges".to_owned()),
    })
}

/// Source: REST, "Common request headers": the header is required.
pub(super) async fn without_version(check: &Check) -> Outcome {
    let read = Raw::without_version(Method::GET, RawTarget::Container);
    let read = check.send(&read).await?;
    Ok(Answer::when(read.status == 200, read.outline()))
}

/// Source: REST, "Common request headers": supported versions.
pub(super) async fn unknown_version(check: &Check) -> Outcome {
    let read = Raw::without_version(Method::GET, RawTarget::Container);
    let read = check.send(&read.with("x-ms-version", "1999-01-01")).await?;
    Ok(Answer::when(read.status == 400, read.outline()))
}

pub(super) async fn clock(check: &Check) -> Outcome {
    check.container()?;
    let client = check.client();
    Ok(
        match (client.clock_offset_millis(), client.clock_uncertainty()) {
            (Some(offset), Some(uncertainty)) => {
                Answer::Yes(format!("{offset} ms, within {uncertainty:?}"))
            }
            _ => Answer::No("no answer had a date".to_owned()),
        },
    )
}
