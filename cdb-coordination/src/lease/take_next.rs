//! Lease and return: the next free documents that match a query, each taken by one conditional write.
//!
//! The query is a hint; each write is conditional on the version that the query saw, so a document that is returned still
//! matches, and no two competitors get the same. What competitors cost each other is refused writes: whoever meets them
//! asks one physical partition at a time, for more candidates than it needs, and picks among them, all at random; and comes
//! back to the oldest ones of all when it is alone again.

use std::sync::atomic::{AtomicUsize, Ordering};

use cdb_client::{Error, OperationResult, RangeId};
use cdb_model::{
    BulkBatch, Container, Fetch, Leasable, MemberOf, QueriedIn, Query, Queryable, Scope, Stored,
};
use futures::future::try_join_all;
use uuid::Uuid;

use super::error::LeaseError;
use super::explicit::{Leases, LockAttempt};
use super::guard::LeaseGuard;
use super::health::Event;
use super::lock::settle;
use crate::search::Found;

/// How often the candidates are asked for anew because others took them all.
const ASKS: u32 = 4;

/// How many times more candidates than needed are asked for at most.
const WIDEST: usize = 32;

/// Most candidates of one query, unless more leases are wanted.
const WINDOW: usize = 256;

/// What earlier queries have taught about the next one.
#[derive(Debug)]
pub(super) struct Contention {
    /// How many times more candidates than needed it asks for.
    width: AtomicUsize,
    /// How many of the first documents cannot be read, so that it looks behind them at once.
    unreadable: AtomicUsize,
}

impl Default for Contention {
    fn default() -> Self {
        Self {
            width: AtomicUsize::new(1),
            unreadable: AtomicUsize::new(0),
        }
    }
}

impl Contention {
    fn width(&self) -> usize {
        self.width.load(Ordering::Relaxed)
    }

    /// Takes note of how many of the wanted documents somebody else was faster with.
    fn met(&self, collided: usize, wanted: usize) {
        let width = self.width();
        let width = match collided {
            0 => (width - 1).max(1),
            few if few * 4 < wanted => width,
            _ => (width * 2).min(WIDEST),
        };
        // A value lost between two takes of one process makes the next one a little worse.
        self.width.store(width, Ordering::Relaxed);
    }
}

/// What a query found.
struct Candidates<D> {
    rows: Vec<Stored<D>>,
    /// Whether there are no more.
    are_all: bool,
    /// Whether there may be others elsewhere.
    are_of_one_range: bool,
}

impl<D> Candidates<D> {
    fn in_one_range(rows: Vec<Stored<D>>) -> Self {
        Self {
            rows,
            are_all: false,
            are_of_one_range: true,
        }
    }
}

/// A candidate and its place in the order of the query.
type Candidate<D> = (usize, Stored<D>);

impl<C, D> Leases<C, D>
where
    C: Container,
    D: MemberOf<C> + QueriedIn<C> + Leasable,
{
    /// Leases up to `count` free documents that match `query` and returns them in its order; those that have been free for
    /// longest come first where it names none. The query may ask one partition or all of them; its own `top` is of no
    /// matter. Several competitors share the oldest documents between them, in no order among each other.
    ///
    /// Returns fewer, or none, when there are no more free ones at the moment or others were faster: ask again after a
    /// while.
    ///
    /// # Errors
    /// When the documents cannot be asked for. Leases that were taken until then are given back.
    pub async fn take_next(
        &self,
        query: Query<D>,
        count: usize,
    ) -> Result<Vec<LeaseGuard<C, D>>, LeaseError> {
        let mut taken: Vec<(usize, LeaseGuard<C, D>)> = Vec::new();
        for ask in 0..ASKS {
            // Who holds some already does not let them grow old while he looks for more.
            if count == 0 || !taken.is_empty() {
                break;
            }
            let found = self.candidates(&query, count, ask == 0).await?;
            let candidates = found.rows.into_iter().enumerate().collect();
            let collided = self
                .take(picked(candidates, count), count, &mut taken)
                .await?;
            self.contention.met(collided, count);
            if found.are_all || (collided == 0 && !found.are_of_one_range) {
                break;
            }
        }
        taken.sort_by_key(|(at, _)| *at);
        Ok(taken.into_iter().map(|(_, guard)| guard).collect())
    }

    /// Free documents that match, more than wanted where others want them too.
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
            let ranges = self.container.ranges().await?;
            if let Some(range) = anyone(&ranges).filter(|_| ranges.len() > 1) {
                let window = window(wanted, width.div_ceil(ranges.len()));
                return match self.read(&query, window, Some(range)).await {
                    Ok((rows, _)) => Ok(Candidates::in_one_range(rows)),
                    // The range is gone; its children are asked with all the others.
                    Err(error) if error.is_partition_split() => {
                        Ok(Candidates::in_one_range(Vec::new()))
                    }
                    Err(error) => Err(error.into()),
                };
            }
        }
        let (rows, are_all) = self.read(&query, window(wanted, width), None).await?;
        Ok(Candidates {
            rows,
            are_all,
            are_of_one_range: false,
        })
    }

    /// The first documents of a query that can be read, as many as the window holds, and whether there are no more. What
    /// cannot be read is passed by: it keeps nobody from what is behind it.
    async fn read(
        &self,
        query: &Query<D>,
        window: usize,
        range: Option<&RangeId>,
    ) -> Result<(Vec<Stored<D>>, bool), Error> {
        loop {
            let expected = self.contention.unreadable.load(Ordering::Relaxed);
            let asked = window.saturating_add(expected);
            let run = self.container.query(top(query.clone(), asked)).row_by_row();
            let found = match range {
                Some(range) => run.in_range(range).all().await?,
                None => run.all().await?,
            };
            let are_all = found.len() < asked;
            let Found { rows, unreadable } = Found::apart(found);
            for unreadable in &unreadable {
                tracing::error!(%unreadable, "a document that cannot be read is passed by");
                Event::Unreadable.count::<D>();
            }
            let count = unreadable.len();
            self.contention.unreadable.store(count, Ordering::Relaxed);
            if are_all || count <= expected {
                return Ok((rows, are_all));
            }
        }
    }

    /// Tries candidates until half of the wanted ones are taken or none are left. How many somebody else was faster with.
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
            (0..lost).for_each(|_| Event::Collision.count::<D>());
            // One whose answer took the whole duration may be somebody else's by now.
            taken.extend(
                won.into_iter()
                    .filter(|(_, guard)| !guard.remaining().is_zero()),
            );
        }
        Ok(collided)
    }

    /// One conditional write per candidate, in one request per physical partition. Those that took place.
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
            bulk.patch_stored(&attempt.seen, &attempt.patch())?;
        }
        let results = self.container.execute_bulk(&bulk).await;
        let settled = attempts
            .into_iter()
            .zip(results)
            .map(|((at, attempt), result)| async move {
                let guard = self.settled(attempt, result).await?;
                Ok::<_, LeaseError>(guard.map(|guard| (at, guard)))
            });
        Ok(try_join_all(settled).await?.into_iter().flatten().collect())
    }

    async fn settled(
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
        let etag = settle(written, &attempt.mark, now.read_stored(&attempt.seen)).await?;
        Ok(etag.map(|etag| self.won(attempt, etag)))
    }
}

fn window(wanted: usize, width: usize) -> usize {
    wanted.saturating_mul(width).min(WINDOW.max(wanted))
}

fn top<D: Queryable>(query: Query<D>, rows: usize) -> Query<D> {
    query.top(u32::try_from(rows).unwrap_or(u32::MAX))
}

/// One of them, at random.
fn anyone<T>(all: &[T]) -> Option<&T> {
    all.iter().min_by_key(|_| Uuid::new_v4())
}

/// The candidates in the order in which they are tried: as they came where no more were asked for than are wanted, at
/// random where competitors want the same ones.
fn picked<D>(mut candidates: Vec<Candidate<D>>, wanted: usize) -> Vec<Candidate<D>> {
    if candidates.len() > wanted {
        candidates.sort_by_cached_key(|_| Uuid::new_v4());
    }
    candidates
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_crowd_widens_the_search_and_solitude_narrows_it() {
        let contention = Contention::default();
        let width = |collided| {
            contention.met(collided, 20);
            contention.width()
        };
        assert_eq!(
            [width(0), width(4), width(5), width(20), width(2)],
            [1, 1, 2, 4, 4]
        );
        (0..20).for_each(|_| contention.met(20, 20));
        assert_eq!(contention.width(), WIDEST);
        (0..40).for_each(|_| contention.met(0, 20));
        assert_eq!(contention.width(), 1);
        assert_eq!([window(10, 8), window(1000, 8)], [80, 1000]);
    }
}
