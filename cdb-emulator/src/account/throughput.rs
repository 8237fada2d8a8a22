//! Provisioned throughput: each physical partition has an equal share of the request units per
//! second. A request beyond the budget gets 429.
//!
//! As on the service, a request is admitted while the budget is positive, and charged afterwards. A
//! large request leaves a debt that the following seconds pay. The limit is off by default:
//! `throughput` of the builder or the replacement of an offer enables it. The offer of a create
//! request is stored and returned, but not enforced. Clients often set one by default, and it would
//! throttle their tests.
//!
//! Priority-based execution is on by setting: a request of low priority is throttled while less than
//! a part of a second's budget is left, so that it waits before others, and uses all of the
//! throughput alone. Azure promises no more than this order ("Priority-based execution": best
//! effort, no reservation). A throughput bucket has a budget of its own, a percentage of the
//! throughput ("Throughput buckets in Azure Cosmos DB", and its FAQ).

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use http::HeaderMap;

use crate::protocol::{ServiceError, header, rid};
use crate::store::offers::{Offer, Origin};
use crate::store::{Connection, Container, PhysicalRange};
use crate::time::Clock;

/// The owner of a budget: a physical partition, or a database whose containers share its
/// throughput.
type Account = (i64, Option<(i64, String)>);

/// The part of a second's budget that requests of low priority leave to others.
const RESERVED: f64 = 0.2;

/// The ids of throughput buckets.
pub(crate) const BUCKETS: std::ops::RangeInclusive<u8> = 1..=5;

/// The throughput that a request may use, by its headers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct RequestClass {
    is_low: bool,
    bucket: Option<u8>,
}

/// The settings of an account that give classes of requests less throughput.
#[derive(Debug, Default)]
pub(crate) struct Classes {
    pub(crate) by_priority: bool,
    /// The most throughput of each bucket, in percent.
    pub(crate) buckets: BTreeMap<u8, u8>,
}

/// The budgets of all physical partitions.
#[derive(Debug)]
pub(crate) struct Throughput {
    clock: Clock,
    /// Request units per second of containers without an offer; also enables all offers.
    default: Option<u32>,
    /// Whether any offer was replaced, and is therefore enforced.
    some_limit: AtomicBool,
    classes: Classes,
    /// Those of buckets too.
    budgets: Mutex<HashMap<(Account, Option<u8>), Budget>>,
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
    bucket: Option<u8>,
}

impl RequestClass {
    /// Reads the headers. Fails for a bucket that cannot exist: with 429/3212 for a number, which is
    /// what the vendor's client expects (azure_data_cosmos_driver, throughput control spec).
    pub(crate) fn of(headers: &HeaderMap) -> Result<Self, ServiceError> {
        let bucket = header(headers, "x-ms-cosmos-throughput-bucket").map(bucket);
        let bucket = bucket.transpose()?;
        let priority = header(headers, "x-ms-cosmos-priority-level");
        Ok(Self {
            is_low: priority.is_some_and(|level| level.eq_ignore_ascii_case("Low")),
            bucket,
        })
    }
}

fn bucket(text: &str) -> Result<u8, ServiceError> {
    let id: i64 = text.trim().parse().map_err(|_| {
        ServiceError::bad_request(format!(
            "The value '{text}' specified for the header 'x-ms-cosmos-throughput-bucket' is invalid."
        ))
    })?;
    let valid = u8::try_from(id).ok().filter(|id| BUCKETS.contains(id));
    valid.ok_or_else(|| ServiceError::bucket_exhausted(id, 0))
}

impl Budget {
    /// Returns the request units left now.
    fn refill(&mut self, rate: f64, now: Duration) -> f64 {
        let gained = now.saturating_sub(self.at).as_secs_f64() * rate;
        self.left = (self.left + gained).min(rate);
        self.at = now;
        self.left
    }
}

/// Returns the milliseconds in which these request units are regained.
fn wait(units: f64, rate: f64) -> u64 {
    let wait = Duration::from_secs_f64((units / rate).clamp(0.0, 3600.0));
    u64::try_from(wait.as_millis())
        .unwrap_or(u64::MAX)
        .saturating_add(1)
}

impl Throughput {
    /// Creates the budgets; `default` is the throughput of containers without an offer.
    pub(crate) fn new(default: Option<u32>, classes: Classes, clock: Clock) -> Self {
        Self {
            clock,
            default,
            some_limit: AtomicBool::default(),
            classes,
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
        class: RequestClass,
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
        self.take(accounts, rate, class, self.clock.monotonic())
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
        class: RequestClass,
        now: Duration,
    ) -> Result<Ticket, ServiceError> {
        let mut budgets = self.budgets();
        let mut left = |account: &Account, bucket: Option<u8>, rate: f64| {
            let full = Budget {
                left: rate,
                at: now,
            };
            let budget = budgets.entry((account.clone(), bucket)).or_insert(full);
            budget.refill(rate, now)
        };
        let is_low = self.classes.by_priority && class.is_low;
        let reserved = if is_low { rate * RESERVED } else { 0.0 };
        // Requests of a bucket that is not configured use the container's budget alone.
        let bucket = class.bucket.and_then(|id| {
            let percent = self.classes.buckets.get(&id)?;
            Some((id, rate * f64::from(*percent) / 100.0))
        });
        for account in &accounts {
            let missing = reserved - left(account, None, rate);
            if missing >= 0.0 {
                return Err(ServiceError::rate_too_large(wait(missing, rate)));
            }
            if let Some((id, rate)) = bucket {
                let missing = -left(account, Some(id), rate);
                if missing >= 0.0 {
                    let wait = wait(missing, rate);
                    return Err(ServiceError::bucket_exhausted(id.into(), wait));
                }
            }
        }
        let bucket = bucket.map(|(id, _)| id);
        Ok(Ticket { accounts, bucket })
    }

    /// Charges an admitted request, in equal parts to its physical partitions.
    pub(crate) fn charge(&self, ticket: &Ticket, units: f64) {
        if ticket.accounts.is_empty() {
            return;
        }
        let parts = u32::try_from(ticket.accounts.len()).map_or(1.0, f64::from);
        let mut budgets = self.budgets();
        for account in &ticket.accounts {
            for bucket in [None].into_iter().chain(ticket.bucket.map(Some)) {
                if let Some(budget) = budgets.get_mut(&(account.clone(), bucket)) {
                    budget.left -= units / parts;
                }
            }
        }
    }

    fn budgets(&self) -> std::sync::MutexGuard<'_, HashMap<(Account, Option<u8>), Budget>> {
        // The map is valid between any two statements.
        self.budgets.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_debt_is_paid_before_the_next_request_is_admitted() {
        let throughput = Throughput::new(Some(100), Classes::default(), Clock::machine());
        let account = || vec![(1, Some((1, "0".to_owned())))];
        let start = throughput.clock.monotonic();
        let ticket = throughput
            .take(account(), 100.0, RequestClass::default(), start)
            .unwrap();
        throughput.charge(&ticket, 350.0);
        let refused = throughput
            .take(account(), 100.0, RequestClass::default(), start)
            .unwrap_err();
        assert_eq!((refused.status, refused.substatus), (429, 3200));
        assert_eq!(refused.retry_after_ms, Some(2501));
        let early = start + Duration::from_millis(2400);
        assert!(
            throughput
                .take(account(), 100.0, RequestClass::default(), early)
                .is_err()
        );
        let paid = start + Duration::from_millis(2501);
        assert!(
            throughput
                .take(account(), 100.0, RequestClass::default(), paid)
                .is_ok()
        );
    }

    #[test]
    fn a_budget_is_at_most_one_second_of_throughput() {
        let throughput = Throughput::new(Some(100), Classes::default(), Clock::machine());
        let account = || vec![(1, None)];
        let start = throughput.clock.monotonic();
        let ticket = throughput
            .take(account(), 100.0, RequestClass::default(), start)
            .unwrap();
        throughput.charge(&ticket, 1.0);
        let later = start + Duration::from_secs(60);
        let ticket = throughput
            .take(account(), 100.0, RequestClass::default(), later)
            .unwrap();
        throughput.charge(&ticket, 100.0);
        assert!(
            throughput
                .take(account(), 100.0, RequestClass::default(), later)
                .is_err()
        );
    }
}
