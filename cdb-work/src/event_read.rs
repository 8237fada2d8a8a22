//! Reads the events of a stream, from the event store or from an archive.

use cdb_client::ContainerClient;
use cdb_model::Query;

use super::documents::{StreamEvent, Work};
use super::error::WorkError;

/// Reads up to `most` events of a stream in a partition after version `after`, in order.
pub(super) async fn read_events(
    container: &ContainerClient<Work>,
    (partition, stream): (&str, &str),
    after: u64,
    most: u32,
) -> Result<Vec<StreamEvent>, WorkError> {
    let query = Query::<StreamEvent>::in_partition(partition)
        .filter(StreamEvent::STREAM.eq(stream))
        .filter(StreamEvent::VERSION.gt(after))
        .order_by(StreamEvent::BY_VERSION)
        .limit(most);
    let rows = container.query(query).all().await?;
    match rows.first() {
        // The newest event is never deleted, so a deletion always shows as a gap.
        Some(first) if first.document.version != after + 1 => Err(WorkError::EventsDeleted {
            stream: stream.to_owned(),
            up_to: first.document.version - 1,
        }),
        _ => Ok(rows.into_iter().map(|row| row.document).collect()),
    }
}
