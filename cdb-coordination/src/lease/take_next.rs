//! Lease and return: the next free documents that match a query, each taken by one conditional write.
//!
//! The query is a hint; each write is conditional on the version that the query saw, so a document that is returned still
//! matches, and no two competitors get the same. What competitors cost each other is refused writes: whoever meets one
//! asks for more candidates than it needs and picks at random among them, twice as many each time, and comes back to the
//! oldest ones when it is alone again.

use std::sync::atomic::{AtomicUsize, Ordering};

use cdb_client::OperationResult;
use cdb_model::{BulkBatch, Container, Leasable, MemberOf, QueriedIn, Query, Stored};
use futures::future::try_join_all;
use uuid::Uuid;

use super::error::LeaseError;
use super::explicit::{Bid, Leases};
use super::guard::LeaseGuard;
use super::health::Event;
use super::lock::settle;

/// How often the candidates are asked for anew because others took them all.
const ASKS: u32 = 4;

/// How many times more candidates than needed are asked for at most.
const WIDEST: usize = 32;

/// Most candidates of one query, unless more leases are wanted.
const WINDOW: usize = 256;

/// How many times more candidates than needed the next query asks for.
#[derive(Debug)]
pub(super) struct Crowd(AtomicUsize);

impl Default for Crowd {
    fn default() -> Self {
        Self(AtomicUsize::new(1))
    }
}

impl Crowd {
    fn window(&self, wanted: usize) -> usize {
        let wide = wanted.saturating_mul(self.0.load(Ordering::Relaxed));
        wide.min(WINDOW.max(wanted))
    }

    fn met(&self, somebody: bool) {
        let wide = self.0.load(Ordering::Relaxed);
        let wide = if somebody {
            (wide * 2).min(WIDEST)
        } else {
            (wide - 1).max(1)
        };
        // A value lost between two takes of one process makes the next one a little worse.
        self.0.store(wide, Ordering::Relaxed);
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
    /// Returns fewer, or none, when there are no more free ones at the moment. A document that waits beside them for more
    /// than a lease's duration is one whose holder keeps renewing.
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
            let wanted = count - taken.len();
            if wanted == 0 {
                break;
            }
            let window = self.crowd.window(wanted);
            let found = self.candidates(query.clone(), window).await?;
            let is_all = found.len() < window;
            let before = taken.len();
            let first = ask as usize * window;
            let candidates = found.into_iter().enumerate();
            let candidates = candidates.map(|(at, seen)| (first + at, seen)).collect();
            let collided = self
                .take(picked(candidates, wanted), wanted, &mut taken)
                .await?;
            self.crowd.met(collided > 0);
            if is_all || (collided == 0 && taken.len() == before) {
                break;
            }
        }
        taken.sort_by_key(|(at, _)| *at);
        Ok(taken.into_iter().map(|(_, guard)| guard).collect())
    }

    async fn candidates(
        &self,
        query: Query<D>,
        window: usize,
    ) -> Result<Vec<Stored<D>>, LeaseError> {
        let paths = D::LEASE_PATHS;
        let query = query
            .filter(paths.free(self.container.now()))
            .or_order_by(paths.until().asc())
            .top(u32::try_from(window).unwrap_or(u32::MAX));
        Ok(self.container.query(query).all().await?)
    }

    /// Tries candidates until enough are taken or none are left. How many somebody else had taken.
    async fn take(
        &self,
        mut candidates: Vec<Candidate<D>>,
        wanted: usize,
        taken: &mut Vec<(usize, LeaseGuard<C, D>)>,
    ) -> Result<usize, LeaseError> {
        let (goal, mut collided) = (taken.len() + wanted, 0);
        while taken.len() < goal && !candidates.is_empty() {
            let rest = candidates.split_off(candidates.len().min(goal - taken.len()));
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
        let bids: Vec<(usize, Bid<D>)> = candidates
            .into_iter()
            .map(|(at, seen)| (at, self.bid(seen)))
            .collect();
        let mut bulk = BulkBatch::<C>::new();
        for (_, bid) in &bids {
            bulk.patch_stored(&bid.seen, &bid.patch())?;
        }
        let results = self.container.execute_bulk(&bulk).await;
        let settled = bids
            .into_iter()
            .zip(results)
            .map(|((at, bid), result)| async move {
                let guard = self.settled(bid, result).await?;
                Ok::<_, LeaseError>(guard.map(|guard| (at, guard)))
            });
        Ok(try_join_all(settled).await?.into_iter().flatten().collect())
    }

    async fn settled(
        &self,
        bid: Bid<D>,
        result: Result<OperationResult, cdb_client::Error>,
    ) -> Result<Option<LeaseGuard<C, D>>, LeaseError> {
        let written = match result {
            Ok(result) => match result.etag() {
                Some(etag) => Ok(etag.clone()),
                None => return Ok(None),
            },
            Err(error) => Err(error),
        };
        let now = self.container.latest_committed();
        let etag = settle(written, &bid.mark, now.read_stored(&bid.seen)).await?;
        Ok(etag.map(|etag| self.won(bid, etag)))
    }
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
    fn a_crowd_widens_the_window_and_solitude_narrows_it() {
        let crowd = Crowd::default();
        assert_eq!(crowd.window(10), 10);
        (0..3).for_each(|_| crowd.met(true));
        assert_eq!((crowd.window(10), crowd.window(1000)), (80, 1000));
        (0..20).for_each(|_| crowd.met(true));
        assert_eq!(crowd.window(10), WINDOW);
        (0..40).for_each(|_| crowd.met(false));
        assert_eq!(crowd.window(10), 10);
    }
}
