//! An undecodable activity: retried for a while, then failed, so that its orchestration does not
//! wait endlessly and no worker is blocked.

use duroxide::ErrorDetails;
use duroxide::providers::WorkItem;

use super::abandon::abandon;
use super::ack::ack;
use crate::error::Result;
use crate::queue::Services;
use crate::timing::ACTIVITY_UNDECODABLE;

/// The most attempts. A runtime of a newer version, which may decode the activity, can take it in
/// between.
const MAX_ATTEMPTS: u32 = 10;

/// Abandons a locked activity with a delay, or fails it after the last attempt.
pub(super) async fn retry_or_fail(
    services: &Services,
    token: &str,
    attempts: u32,
    reason: String,
) -> Result<()> {
    tracing::error!(attempts, %reason, "an activity cannot be decoded");
    if attempts < MAX_ATTEMPTS {
        return abandon(services, token, Some(ACTIVITY_UNDECODABLE), false).await;
    }
    let shared = services.activities().local().running(token)?;
    let item = shared.lock().await.item.document.clone();
    // The document identifies the activity even when its text does not.
    let failed = WorkItem::ActivityFailed {
        instance: item.instance_id,
        execution_id: item.execution_id,
        id: item.activity_id,
        details: ErrorDetails::Infrastructure {
            operation: "fetch_work_item".to_owned(),
            message: reason,
            retryable: false,
        },
    };
    ack(services, token, Some(failed)).await
}
