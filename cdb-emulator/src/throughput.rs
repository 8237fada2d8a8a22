//! Provisioned throughput: each physical partition has an equal share of the request units per
//! second. A request beyond the budget gets 429.
//!
//! As on the service, a request is admitted while the budget is positive, and charged afterwards. A
//! large request leaves a debt that the following seconds pay. The limit is off by default:
//! `throughput` of the builder or the replacement of an offer enables it. The offer of a create
//! request is stored and returned, but not enforced. Clients often set one by default, and it would
//! throttle their tests.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use crate::clock::Clock;
use crate::error::ServiceError;
use crate::store::offers::{Offer, Origin};
use crate::store::ranges::PhysicalRange;
use crate::store::rid;
use crate::store::{Connection, Container};

/// The owner of a budget: a physical partition, or a database whose containers share its
/// throughput.
type Account = (i64, Option<(i64, String)>);

/// The budgets of all physical partitions.
#[derive(Debug)]
pub(crate) struct Throughput {
    clock: Clock,
    /// Request units per second of containers without an offer; also enables all offers.
    default: Option<u32>,
    /// Whether any offer was replaced, and is therefore enforced.
    some_limit: AtomicBool,
    budgets: Mutex<HashMap<Account, Budget>>,
}

/// The remaining request units of a second.
#[derive(Debug)]
struct Budget {
    left: f64,
    at: Duration,
}

/// An admitted request, to be charged.
#[derive(Debug, Default)]
#[must_use = "an admitted request has to be charged"]
pub(crate) struct Ticket {
    accounts: Vec<Account>,
}

impl Throughput {
    /// Creates the budgets; `default` is the throughput of containers without an offer.
    pub(crate) fn new(default: Option<u32>, clock: Clock) -> Self {
        Self {
            clock,
            default,
            some_limit: AtomicBool::default(),
            budgets: Mutex::default(),
        }
    }

    /// Enables the check of offers.
    pub(crate) fn limit_by_offers(&self) {
        self.some_limit.store(true, Ordering::Relaxed);
    }

    /// Admits a request to physical partitions. Fails with 429 and a delay if a budget is
    /// exhausted.
    pub(crate) fn admit<'a>(
        &self,
        connection: &Connection,
        container: &Container,
        ranges: impl IntoIterator<Item = &'a PhysicalRange>,
    ) -> Result<Ticket, ServiceError> {
        if self.default.is_none() && !self.some_limit.load(Ordering::Relaxed) {
            return Ok(Ticket::default());
        }
        let Some((shared, per_second)) = self.limit(connection, container)? else {
            return Ok(Ticket::default());
        };
        let accounts: Vec<Account> = if shared {
            vec![(container.database, None)]
        } else {
            let of = |range: &PhysicalRange| (container.number, range.id.clone());
            let ranges = ranges.into_iter();
            ranges
                .map(|range| (container.database, Some(of(range))))
                .collect()
        };
        let share = if shared {
            1
        } else {
            container.ranges.len().max(1)
        };
        let rate = per_second / u32::try_from(share).map_or(1.0, f64::from);
        self.take(accounts, rate, self.clock.monotonic())
    }

    /// Returns whether the database shares its throughput, and the request units per second; `None`
    /// for no limit.
    fn limit(
        &self,
        connection: &Connection,
        container: &Container,
    ) -> Result<Option<(bool, f64)>, ServiceError> {
        let own = Offer::of(connection, &container.self_link())?;
        let database = format!("dbs/{}/", rid::of_database(container.database));
        let (shared, offer) = match own {
            Some(offer) => (false, Some(offer)),
            None => (true, Offer::of(connection, &database)?),
        };
        let by_default = self.default.map(|units| (false, f64::from(units)));
        Ok(match offer {
            Some(offer) => match (offer.origin, self.default) {
                (Origin::Replacement, _) | (Origin::Creation, Some(_)) => {
                    Some((shared, f64::from(offer.per_second())))
                }
                (Origin::Creation, None) => None,
                (Origin::Default, _) => by_default,
            },
            None => by_default,
        })
    }

    fn take(
        &self,
        accounts: Vec<Account>,
        rate: f64,
        now: Duration,
    ) -> Result<Ticket, ServiceError> {
        let mut budgets = self.budgets();
        for account in &accounts {
            let budget = budgets.entry(account.clone()).or_insert(Budget {
                left: rate,
                at: now,
            });
            let gained = now.saturating_sub(budget.at).as_secs_f64() * rate;
            budget.left = (budget.left + gained).min(rate);
            budget.at = now;
            if budget.left <= 0.0 {
                let wait = Duration::from_secs_f64((-budget.left / rate).clamp(0.0, 3600.0));
                let wait = u64::try_from(wait.as_millis()).unwrap_or(u64::MAX);
                return Err(ServiceError::rate_too_large(wait.saturating_add(1)));
            }
        }
        Ok(Ticket { accounts })
    }

    /// Charges an admitted request, in equal parts to its physical partitions.
    pub(crate) fn charge(&self, ticket: &Ticket, units: f64) {
        if ticket.accounts.is_empty() {
            return;
        }
        let parts = u32::try_from(ticket.accounts.len()).map_or(1.0, f64::from);
        let mut budgets = self.budgets();
        for account in &ticket.accounts {
            if let Some(budget) = budgets.get_mut(account) {
                budget.left -= units / parts;
            }
        }
    }

    fn budgets(&self) -> std::sync::MutexGuard<'_, HashMap<Account, Budget>> {
        // The map is valid between any two statements.
        self.budgets.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_debt_is_paid_before_the_next_request_is_admitted() {
        let throughput = Throughput::new(Some(100), Clock::machine());
        let account = || vec![(1, Some((1, "0".to_owned())))];
        let start = throughput.clock.monotonic();
        let ticket = throughput.take(account(), 100.0, start).unwrap();
        throughput.charge(&ticket, 350.0);
        let refused = throughput.take(account(), 100.0, start).unwrap_err();
        assert_eq!((refused.status, refused.substatus), (429, 3200));
        assert_eq!(refused.retry_after_ms, Some(2501));
        let early = start + Duration::from_millis(2400);
        assert!(throughput.take(account(), 100.0, early).is_err());
        let paid = start + Duration::from_millis(2501);
        assert!(throughput.take(account(), 100.0, paid).is_ok());
    }

    #[test]
    fn a_budget_is_at_most_one_second_of_throughput() {
        let throughput = Throughput::new(Some(100), Clock::machine());
        let account = || vec![(1, None)];
        let start = throughput.clock.monotonic();
        let ticket = throughput.take(account(), 100.0, start).unwrap();
        throughput.charge(&ticket, 1.0);
        let later = start + Duration::from_secs(60);
        let ticket = throughput.take(account(), 100.0, later).unwrap();
        throughput.charge(&ticket, 100.0);
        assert!(throughput.take(account(), 100.0, later).is_err());
    }
}
