//! An activity that nobody can read: tried again for a while, then failed, so that its orchestration does not wait for
//! ever and no worker is kept from others.

use std::time::Duration;

use duroxide::ErrorDetails;
use duroxide::providers::WorkItem;

use super::abandon::abandon;
use super::ack::ack;
use crate::error::Result;
use crate::services::Services;

/// How often it is tried. Between two tries a runtime of a newer version may take it, which can read more.
const MAX_ATTEMPTS: u32 = 10;

/// How long it is left alone after a try.
const DELAY: Duration = Duration::from_secs(1);

/// Leaves a locked activity for later, or fails it when that has happened often enough.
pub(super) async fn set_aside(
    services: &Services,
    token: &str,
    attempts: u32,
    reason: String,
) -> Result<()> {
    tracing::error!(attempts, %reason, "activity is set aside");
    if attempts < MAX_ATTEMPTS {
        return abandon(services, token, Some(DELAY), false).await;
    }
    let shared = services.activities().local().running(token)?;
    let item = shared.lock().await.item.document.clone();
    // The document says which activity it is, even when its text does not.
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
