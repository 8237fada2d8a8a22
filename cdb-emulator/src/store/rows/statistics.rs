//! The sizes of a container: quota, usage, and statistics of its physical partitions.

use rusqlite::{Connection, params};
use serde_json::{Value, json};

use crate::protocol::ServiceError;
use crate::store::container::Container;

/// The maximum size of a container in kilobytes that the service reports.
const MOST_KB: i64 = 10 * 1024 * 1024;

/// The documents of a range of effective partition keys.
struct Usage {
    documents: i64,
    kilobytes: i64,
    keys: i64,
}

impl Container {
    /// Returns `x-ms-resource-quota` and `x-ms-resource-usage`, which a read of the container can ask for.
    pub(crate) fn quota(
        &self,
        connection: &Connection,
        now: i64,
    ) -> Result<[String; 2], ServiceError> {
        // Effective partition keys are hexadecimal, so all are below `G`.
        let Usage {
            documents,
            kilobytes,
            ..
        } = self.usage(connection, "", "G", now)?;
        Ok([
            format!(
                "functions=25;storedProcedures=100;triggers=25;documentSize=10240;documentsSize={MOST_KB};\
                 documentsCount=-1;collectionSize={MOST_KB};"
            ),
            format!(
                "functions=0;storedProcedures=0;triggers=0;documentSize=0;documentsSize={kilobytes};\
                 documentsCount={documents};collectionSize={kilobytes};"
            ),
        ])
    }

    /// Returns the statistics of all physical partitions.
    pub(crate) fn statistics(
        &self,
        connection: &Connection,
        now: i64,
    ) -> Result<Vec<Value>, ServiceError> {
        let ranges = self.ranges.iter().map(|range| {
            let usage = self.usage(connection, &range.min, &range.max, now)?;
            Ok(json!({
                "id": range.id, "sizeInKB": usage.kilobytes, "documentCount": usage.documents,
                "sampledDistinctPartitionKeyCount": usage.keys, "partitionKeys": [],
            }))
        });
        ranges.collect()
    }

    fn usage(
        &self,
        connection: &Connection,
        min: &str,
        max: &str,
        now: i64,
    ) -> Result<Usage, ServiceError> {
        let sql = format!(
            "SELECT count(*), coalesce(sum(octet_length(body)), 0), count(DISTINCT pk) FROM document_{}
             WHERE epk >= ? AND epk < ? AND (expires IS NULL OR expires >= ?)",
            self.number
        );
        let mut statement = connection.prepare_cached(&sql)?;
        Ok(statement.query_row(params![min, max, now], |row| {
            let bytes: i64 = row.get(1)?;
            Ok(Usage {
                documents: row.get(0)?,
                kilobytes: (bytes + 1023) / 1024,
                keys: row.get(2)?,
            })
        })?)
    }
}
