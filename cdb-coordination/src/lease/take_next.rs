//! Leases the next free documents that match a query, each by one conditional write.
//!
//! The query is a hint. Each write is conditional on the version that the query returned, so a
//! leased document still matches, and no two competitors lease the same one. Competitors cost each
//! other refused writes. After a collision a process queries one random physical partition, asks
//! for more candidates than it needs, and picks among them at random. Without collisions it returns
//! to the oldest documents step by step.

use cdb_client::Error;
use cdb_client::partitions::PhysicalPartitionId;
use cdb_client::retry::{time_left, within_deadline};
use cdb_client::write::OperationResult;
use cdb_model::container::MemberOf;
use cdb_model::operation::{BulkBatch, Leasable};
use cdb_model::query::QueriedIn;
use cdb_model::query::statement::{Fetch, Scope};
use cdb_model::{Container, Query, Stored};
use futures::future::join_all;
use uuid::Uuid;

use super::error::LeaseError;
use super::explicit::{Leases, LockAttempt};
use super::guard::LeaseGuard;
use super::health::Event;
use super::lock::confirm_lock;
use crate::search::Rows;
use crate::timing::least_send;

/// How often candidates are queried again after competitors leased all of them.
const ASKS: u32 = 4;

/// The most candidates of one query, unless more leases are wanted.
const WINDOW: usize = 256;

/// The result of a query.
struct Candidates<D> {
    rows: Vec<Stored<D>>,
    /// Whether the query returned all matching documents.
    are_all: bool,
    /// Whether other physical partitions may have more.
    are_of_one_range: bool,
}

/// A candidate with its position in the query's order.
type Candidate<D> = (usize, Stored<D>);

impl<C, D> Leases<C, D>
where
    C: Container,
    D: MemberOf<C> + QueriedIn<C> + Leasable,
{
    /// Leases up to `count` free documents that match `query` and returns them in the order of the
    /// query. Without an order, documents that have been free for longest come first. The query may
    /// cover one partition or all; its `limit` is ignored. Competitors share the oldest documents in
    /// no particular order. [`Criteria::across_partitions`](crate::repository::Criteria::across_partitions) makes
    /// a query of conditions that are known only at run time. An index serves every query: a path
    /// without one has no filter, and a criterion without one is an error.
    ///
    /// ```
    /// use cdb_coordination::Leases;
    /// use cdb_coordination::repository::Criteria;
    /// use cdb_model::{Document as _, Query};
    /// # mod shop { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/shop.rs")); }
    /// # use shop::{Order, Shop, order};
    /// # shop::with_shop(async |shop| {
    ///
    /// # for number in 1..=2 { shop.run(order(number).create()).await?; }
    /// let leases = Leases::<Shop, Order>::new(&shop, "packer-1");
    /// let open = Query::across_partitions().filter(Order::STATE.eq("open"));
    /// let first = leases.take_next(open, 1).await?;
    /// let open: Criteria = serde_json::from_str(r#"{"filter": [{"field": "state", "value": "open"}]}"#)?;
    /// let second = leases.take_next(open.across_partitions()?, 1).await?;
    /// assert_ne!(first[0].document().number, second[0].document().number);
    /// # Ok(()) }).unwrap();
    /// ```
    ///
    /// Returns fewer documents, or none, when no more are free or competitors were faster. Call
    /// again later.
    ///
    /// # Errors
    /// When the query or a write fails. Leases that were already taken are released.
    pub async fn take_next(
        &self,
        query: Query<D>,
        count: usize,
    ) -> Result<Vec<LeaseGuard<C, D>>, LeaseError> {
        let asks = self.ask_and_take(query, count);
        within_deadline(self.container.deadline(), asks).await
    }

    async fn ask_and_take(
        &self,
        query: Query<D>,
        count: usize,
    ) -> Result<Vec<LeaseGuard<C, D>>, LeaseError> {
        let mut taken: Vec<(usize, LeaseGuard<C, D>)> = Vec::new();
        for ask in 0..ASKS {
            // Stop once any lease is held, so it does not age during another query.
            if count == 0
                || !taken.is_empty()
                || time_left() < least_send(self.container.deadline())
            {
                break;
            }
            let found = self.candidates(&query, count, ask == 0).await?;
            let mut candidates: Vec<_> = found.rows.into_iter().enumerate().collect();
            if candidates.len() > count {
                // Competitors want the same ones.
                candidates.sort_by_cached_key(|_| Uuid::new_v4());
            }
            let collided = self.take(candidates, count, &mut taken).await?;
            self.contention.adapt(collided, count);
            if found.are_all || (collided == 0 && !found.are_of_one_range) {
                break;
            }
        }
        taken.sort_by_key(|(at, _)| *at);
        Ok(taken.into_iter().map(|(_, guard)| guard).collect())
    }

    /// Queries free documents that match, more than wanted while there are competitors.
    async fn candidates(
        &self,
        query: &Query<D>,
        wanted: usize,
        may_choose: bool,
    ) -> Result<Candidates<D>, LeaseError> {
        let (paths, width) = (D::LEASE_PATHS, self.contention.width());
        let query = query
            .clone()
            .filter(paths.free(self.container.now()))
            .or_order_by(paths.until().asc());
        let everywhere = Fetch::<C>::statement(&query)
            .is_ok_and(|statement| statement.scope == Scope::AllPartitions);
        if may_choose && everywhere && width > 1 {
            let ranges = self.container.physical_partitions().await?;
            let at_random = ranges.iter().min_by_key(|_| Uuid::new_v4());
            if let Some(range) = at_random.filter(|_| ranges.len() > 1) {
                let window = window(wanted, width.div_ceil(ranges.len()));
                let rows = match self.read(&query, window, Some(range)).await {
                    Ok((rows, _)) => rows,
                    // The range was split. The next query covers all ranges.
                    Err(error) if error.is_partition_split() => Vec::new(),
                    Err(error) => return Err(error.into()),
                };
                return Ok(Candidates {
                    rows,
                    are_all: false,
                    are_of_one_range: true,
                });
            }
        }
        let (rows, are_all) = self.read(&query, window(wanted, width), None).await?;
        Ok(Candidates {
            rows,
            are_all,
            are_of_one_range: false,
        })
    }

    /// Returns the first readable documents of a query, as many as the window holds, and whether
    /// there are no more. An unreadable document is skipped, so it does not hide the documents
    /// after it.
    async fn read(
        &self,
        query: &Query<D>,
        window: usize,
        range: Option<&PhysicalPartitionId>,
    ) -> Result<(Vec<Stored<D>>, bool), Error> {
        loop {
            let expected = self.contention.unreadable();
            let asked = window.saturating_add(expected);
            let limit = u32::try_from(asked).unwrap_or(u32::MAX);
            let query = query.clone().limit(limit);
            let run = self.container.query(query).row_by_row();
            let found = match range {
                Some(range) => run.in_physical_partition(range).all().await?,
                None => run.all().await?,
            };
            let are_all = found.len() < asked;
            let Rows { rows, unreadable } = Rows::apart(found);
            for unreadable in &unreadable {
                tracing::error!(%unreadable, "skipped a document that cannot be read");
                Event::UNREADABLE.count::<D>();
            }
            let count = unreadable.len();
            self.contention.set_unreadable(count);
            if are_all || count <= expected {
                return Ok((rows, are_all));
            }
        }
    }

    /// Tries candidates until half of the wanted documents are leased or no candidates are left.
    /// Returns the number of collisions.
    async fn take(
        &self,
        mut candidates: Vec<Candidate<D>>,
        wanted: usize,
        taken: &mut Vec<(usize, LeaseGuard<C, D>)>,
    ) -> Result<usize, LeaseError> {
        let mut collided = 0;
        while taken.len() * 2 < wanted && !candidates.is_empty() {
            let rest = candidates.split_off(candidates.len().min(wanted - taken.len()));
            let tried = std::mem::replace(&mut candidates, rest);
            let sent = tried.len();
            let won = self.send(tried).await?;
            let lost = sent - won.len();
            collided += lost;
            (0..lost).for_each(|_| Event::COLLISION.count::<D>());
            // After an answer that took the whole duration, another holder may have the lease.
            taken.extend(
                won.into_iter()
                    .filter(|(_, guard)| !guard.remaining().is_zero()),
            );
        }
        Ok(collided)
    }

    /// Sends one conditional write per candidate, in one request per physical partition. Returns
    /// the candidates that were leased.
    async fn send(
        &self,
        candidates: Vec<Candidate<D>>,
    ) -> Result<Vec<(usize, LeaseGuard<C, D>)>, LeaseError> {
        let attempts: Vec<(usize, LockAttempt<D>)> = candidates
            .into_iter()
            .map(|(at, seen)| (at, self.attempt(seen)))
            .collect();
        let mut bulk = BulkBatch::<C>::new();
        for (_, attempt) in &attempts {
            bulk.add(attempt.patch().at(&attempt.seen))?;
        }
        let results = self.container.execute_bulk(&bulk).await;
        let guards = attempts
            .into_iter()
            .zip(results)
            .map(|((at, attempt), result)| async move {
                let guard = self.guard_of(attempt, result).await?;
                Ok::<_, LeaseError>(guard.map(|guard| (at, guard)))
            });
        // All outcomes are awaited: a lease that is won is released when another outcome is an error.
        let guards = join_all(guards).await.into_iter();
        let guards: Vec<_> = guards.collect::<Result<_, _>>()?;
        Ok(guards.into_iter().flatten().collect())
    }

    async fn guard_of(
        &self,
        attempt: LockAttempt<D>,
        result: Result<OperationResult, Error>,
    ) -> Result<Option<LeaseGuard<C, D>>, LeaseError> {
        let written = match result {
            Ok(result) => match result.etag() {
                Some(etag) => Ok(etag.clone()),
                None => return Ok(None),
            },
            Err(error) => Err(error),
        };
        let now = self.container.latest_committed();
        let etag = confirm_lock(written, &attempt.mark, now.read(&attempt.seen)).await?;
        Ok(etag.map(|etag| self.won(attempt, etag)))
    }
}

fn window(wanted: usize, width: usize) -> usize {
    wanted.saturating_mul(width).min(WINDOW.max(wanted))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_window_grows_with_the_width_and_holds_at_least_the_wanted_documents() {
        assert_eq!([window(10, 8), window(1000, 8)], [80, 1000]);
    }
}
