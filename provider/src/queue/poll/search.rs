//! The search of a physical partition for due rows, past those that cannot be used now.

use cdb_client::ContainerClient;
use cdb_client::partitions::PhysicalPartitionId;
use cdb_coordination::search::{Runs, Windows};
use cdb_model::query::QueriedIn;
use cdb_model::stored::Unreadable;
use cdb_model::{Document, Query, Stored, Timestamp};
use tokio::time::Instant;

use crate::error::Result;
use crate::stored::documents::Durable;

/// A search that reads due rows, oldest first, until enough of them can be used now. The next
/// search of the partition continues behind those that cannot.
pub(crate) struct DueSearch<'a> {
    pub(crate) container: &'a ContainerClient<Durable>,
    pub(crate) range: &'a PhysicalPartitionId,
    pub(crate) windows: &'a Windows<PhysicalPartitionId>,
    /// The rows that are enough, if they can be used.
    pub(crate) enough: u32,
}

impl DueSearch<'_> {
    /// Searches with the `query` for rows that are due from a time on. `note` gets each row with
    /// the time of its request, and returns its due time and whether it can be used now. Returns
    /// the number of rows that can be used.
    ///
    /// # Errors
    /// Fails when the partition does not answer before a usable row is found. The next search reads
    /// the others.
    pub(crate) async fn run<D: Document + QueriedIn<Durable>>(
        &self,
        query: impl FnOnce(Option<Timestamp>) -> Query<D>,
        mut note: impl FnMut(Result<Stored<D>, Unreadable>, Instant) -> (Option<Timestamp>, Runs),
    ) -> Result<usize> {
        let mut search = self.windows.search(self.range, self.enough);
        let read = self.container.query(query(search.from()));
        let read = read
            .in_physical_partition(self.range)
            .skip_unavailable()
            .page_size(search.page_size());
        let mut pages = read.row_by_row().pages();
        let mut usable = 0;
        while search.reads_on() {
            let sent_at = Instant::now();
            let rows = match pages.next_page().await {
                Ok(rows) => rows.unwrap_or_default(),
                Err(error) if usable == 0 => return Err(error.into()),
                Err(_) => break,
            };
            for row in rows {
                let (due, runs) = note(row, sent_at);
                search.note(due, runs);
                usable += usize::from(runs == Runs::Now);
            }
            if !pages.has_more() {
                search.complete();
            }
        }
        self.windows.finish(self.range, &search);
        Ok(usable)
    }
}

/// Returns the answers of those partitions that answered, and whether all did.
///
/// # Errors
/// Fails when every partition failed.
pub(crate) fn answered<T>(answers: Vec<Result<T>>) -> Result<(Vec<T>, bool)> {
    let count = answers.len();
    let (mut answered, mut failed) = (Vec::with_capacity(count), None);
    for answer in answers {
        match answer {
            Ok(answer) => answered.push(answer),
            Err(error) => failed = Some(error),
        }
    }
    match failed {
        Some(error) if answered.is_empty() => Err(error),
        _ => {
            let is_complete = answered.len() == count;
            Ok((answered, is_complete))
        }
    }
}
