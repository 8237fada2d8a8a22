//! Reads the events of a stream, from the event store or from an archive.

use cdb_client::ContainerClient;
use cdb_model::Query;

use crate::error::WorkError;
use crate::streams::documents::{StreamEvent, Work};

/// Reads up to `most` events of a stream in a partition after version `after`, in order.
pub(crate) async fn read_events(
    container: &ContainerClient<Work>,
    partition: &str,
    stream: &str,
    after: u64,
    most: u32,
) -> Result<Vec<StreamEvent>, WorkError> {
    let query = Query::<StreamEvent>::in_partition(partition)
        .filter(StreamEvent::STREAM.eq(stream))
        .filter(StreamEvent::VERSION.gt(after))
        .order_by(StreamEvent::BY_VERSION)
        .limit(most);
    let rows = container.query(query).all().await?;
    let events: Vec<StreamEvent> = rows.into_iter().map(|row| row.document).collect();
    check_complete(&events, after)?;
    Ok(events)
}

/// Checks that no event after version `after` is missing. The newest event is never deleted, so a
/// deletion always shows as a gap: before the first event, or between two pages if it took place
/// between their reads.
fn check_complete(events: &[StreamEvent], after: u64) -> Result<(), WorkError> {
    match events
        .iter()
        .zip(after + 1..)
        .find(|(event, version)| event.version != *version)
    {
        Some((event, _)) => Err(WorkError::EventsDeleted {
            stream: event.stream.clone(),
            up_to: event.version - 1,
        }),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use cdb_model::Timestamp;

    use super::*;

    fn events(versions: &[u64]) -> Vec<StreamEvent> {
        let event = |version: &u64| StreamEvent {
            partition: "work-000".to_owned(),
            stream: "order".to_owned(),
            version: *version,
            kind: String::new(),
            context: Box::default(),
            body: String::new(),
            recorded_at: Timestamp::default(),
            message_id: None,
            token: String::new(),
        };
        versions.iter().map(event).collect()
    }

    #[test]
    fn a_missing_event_is_an_error_wherever_it_is() {
        let up_to = |versions: &[u64]| match check_complete(&events(versions), 2) {
            Err(WorkError::EventsDeleted { up_to, .. }) => Some(up_to),
            _ => None,
        };
        assert_eq!(up_to(&[]), None);
        assert_eq!(up_to(&[3, 4, 5]), None);
        assert_eq!(up_to(&[5, 6]), Some(4));
        // Events were deleted between the reads of two pages.
        assert_eq!(up_to(&[3, 4, 7, 8]), Some(6));
    }
}
