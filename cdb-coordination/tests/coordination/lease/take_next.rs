//! Leases of the next free documents.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use cdb_client::transport::{
    HttpRequest, HttpResponse, SimulatedTime, Transport, TransportError, async_trait,
};
use cdb_coordination::repository::Criteria;
use cdb_emulator::{Effect, Fault, OperationKind};
use cdb_model::operation::Lease;
use cdb_model::query::{CriteriaError, Criterion, Filter, Operator, SortCriterion};
use cdb_model::shape::Direction;
use cdb_model::{Container, Document, Query};
use futures::future::join_all;
use serde::{Deserialize, Serialize};

use crate::lease::account::{Account, Guard, Order, leases, order};
use crate::recorded::Recorded;

fn open() -> Filter<Order> {
    Order::STATE.eq("open")
}

fn numbers(guards: &[Guard]) -> Vec<u64> {
    guards.iter().map(|guard| guard.document().number).collect()
}

/// An account with `count` orders of 26 customers; the highest number was placed first.
async fn account_with(count: u64) -> Account {
    let (account, shop) = Account::with_shop().await;
    for number in 0..count {
        let letter = char::from(b'a' + u8::try_from(number % 26).unwrap());
        let order = Order {
            placed_at: 1000 - number,
            ..order(&letter.to_string(), number)
        };
        shop.run(order.create()).await.unwrap();
    }
    account
}

#[tokio::test(start_paused = true)]
async fn the_oldest_documents_of_all_partitions_come_first() {
    let account = account_with(40).await;
    let leases = leases(&account.shop().await, "worker");
    let query = Query::across_partitions()
        .filter(open())
        .order_by(Order::BY_AGE);
    let first = leases.take_next(query.clone(), 5).await.unwrap();
    assert_eq!(numbers(&first), [39, 38, 37, 36, 35]);
    let next = leases.take_next(query.clone(), 5).await.unwrap();
    assert_eq!(numbers(&next), [34, 33, 32, 31, 30]);
    for guard in first {
        guard.release().await.unwrap();
    }
    let again = leases.take_next(query, 2).await.unwrap();
    assert_eq!(numbers(&again), [39, 38]);
}

#[tokio::test(start_paused = true)]
async fn without_an_order_the_documents_that_were_free_for_longest_come_first() {
    let account = account_with(6).await;
    let leases = leases(&account.shop().await, "worker");
    let mut seen = Vec::new();
    for _ in 0..4 {
        let taken = leases
            .take_next(Query::across_partitions().filter(open()), 3)
            .await
            .unwrap();
        seen.push(BTreeSet::from_iter(numbers(&taken)));
        for guard in taken {
            guard.release().await.unwrap();
        }
    }
    assert!(seen[0].is_disjoint(&seen[1]), "{seen:?}");
    assert_eq!((&seen[0], &seen[1]), (&seen[2], &seen[3]));
}

#[tokio::test(start_paused = true)]
async fn a_query_of_one_partition_leases_its_documents_only() {
    let account = account_with(60).await;
    let leases = leases(&account.shop().await, "worker");
    let query = || Query::in_partition("c").filter(open());
    let taken = leases.take_next(query(), 10).await.unwrap();
    assert_eq!(
        BTreeSet::from_iter(numbers(&taken)),
        BTreeSet::from([2, 28, 54])
    );
    assert!(leases.take_next(query(), 10).await.unwrap().is_empty());
    assert!(leases.take_next(query(), 0).await.unwrap().is_empty());
}

#[tokio::test(start_paused = true)]
async fn documents_are_leased_by_criteria_that_an_index_serves() {
    let account = account_with(30).await;
    let leases = leases(&account.shop().await, "worker");
    let late = Criterion {
        field: "placedAt".to_owned(),
        operator: Operator::Gt,
        value: 973.into(),
    };
    let late = Criteria::all().with("state", "open").with_criterion(late);
    let late = late.sorted_by(SortCriterion {
        field: "placedAt".to_owned(),
        direction: Direction::Descending,
    });
    // A guard that is dropped releases its lease in a task of its own: `taken` is held for the second call.
    let everywhere = late.across_partitions().unwrap();
    let taken = leases.take_next(everywhere, 2).await.unwrap();
    assert_eq!(numbers(&taken), [0, 1]);
    let in_a = late.in_partition("a").unwrap();
    let of_a = leases.take_next(in_a, 5).await.unwrap();
    assert_eq!(numbers(&of_a), [26]);
    let unindexed = Criteria::all().with("parcels", 1);
    let refused = unindexed.across_partitions::<Order>().unwrap_err();
    assert!(
        matches!(refused, CriteriaError::NotIndexed { .. }),
        "{refused}"
    );
}

#[tokio::test(start_paused = true)]
async fn expired_leases_are_taken_over() {
    let account = account_with(5).await;
    let shop = account.shop().await;
    let short = leases(&shop, "crashed").with_duration(Duration::from_secs(2));
    let query = || Query::across_partitions().filter(open());
    let lost = short.take_next(query(), 5).await.unwrap();
    assert_eq!(lost.len(), 5);
    let next = leases(&shop, "next");
    assert!(next.take_next(query(), 5).await.unwrap().is_empty());
    tokio::time::sleep(Duration::from_millis(2100)).await;
    let taken = next.take_next(query(), 5).await.unwrap();
    assert!(taken.iter().all(|guard| guard.token() == 2));
    assert_eq!(taken.len(), 5);
    for mut guard in lost {
        assert!(guard.renew().await.unwrap_err().is_lost());
    }
}

#[tokio::test(start_paused = true)]
async fn competitors_share_the_documents_without_overlap() {
    let account = account_with(200).await;
    let takers = join_all((0..8).map(|n| {
        let account = &account;
        async move { leases(&account.shop().await, &format!("taker {n}")) }
    }))
    .await;
    let taken = join_all(takers.iter().map(|taker| async {
        let mut mine = Vec::new();
        loop {
            let query = Query::across_partitions().filter(open());
            let taken = taker.take_next(query, 7).await.unwrap();
            if taken.is_empty() {
                return mine;
            }
            mine.extend(taken);
        }
    }))
    .await;
    let mut all: Vec<_> = taken.iter().flat_map(|mine| numbers(mine)).collect();
    all.sort_unstable();
    assert_eq!(all, (0..200).collect::<Vec<_>>());
}

#[tokio::test(start_paused = true)]
async fn a_partition_that_splits_hides_no_document() {
    let account = account_with(120).await;
    let emulator = or_skip!(account.emulator(), "needs the emulator");
    let mut takers = Vec::new();
    for taker in 0..6 {
        let shop = account.shop().await;
        takers.push((leases(&shop, &format!("taker {taker}")), shop));
    }
    let mut taken: Vec<Guard> = Vec::new();
    for round in 0..40 {
        let query = || Query::across_partitions().filter(open());
        let found = takers.iter().map(|(taker, _)| taker.take_next(query(), 4));
        for guards in join_all(found).await {
            taken.extend(guards.unwrap());
        }
        // After collisions the takers query one physical partition at a time, and some of these
        // were split.
        if round < 3 {
            // The takers may have outdated ranges cached; a new client lists the current ones.
            let range = account.shop().await.physical_partitions().await.unwrap()[0].to_string();
            let split = emulator.split(account.database(), "shop", &range);
            split.unwrap();
        }
    }
    let mut all = numbers(&taken);
    all.sort_unstable();
    assert_eq!(all, (0..120).collect::<Vec<_>>());
}

/// An order as another program writes it.
#[derive(Document, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[document(type = "order", id = "{customer}:{number}")]
struct RawOrder {
    #[document(partition_key)]
    customer: String,
    number: u64,
    state: String,
    placed_at: u64,
    parcels: String,
    lease: Lease,
}

#[derive(Container)]
enum Spoiler {
    Order(RawOrder),
}

#[tokio::test(start_paused = true)]
async fn unreadable_documents_are_skipped() {
    let recorded = Recorded::default();
    let _recording = metrics::set_default_local_recorder(&recorded);
    let (account, shop) = Account::with_shop().await;
    let spoiler = account.container::<Spoiler>();
    for number in 0..7 {
        let torn = RawOrder {
            customer: format!("torn-{number}"),
            number,
            state: "open".to_owned(),
            placed_at: 0,
            parcels: "torn".to_owned(),
            lease: Lease::free(),
        };
        spoiler.run(torn.create()).await.unwrap();
    }
    for number in 1..=5 {
        shop.run(order(&format!("ann-{number}"), number).create())
            .await
            .unwrap();
    }
    let leases = leases(&shop, "holder");
    let mut taken = Vec::new();
    for _ in 0..3 {
        let open = Query::<Order>::across_partitions()
            .filter(Order::STATE.eq("open"))
            .order_by(Order::BY_AGE);
        taken.extend(leases.take_next(open, 2).await.unwrap());
    }
    let numbers: Vec<u64> = taken.iter().map(|order| order.document().number).collect();
    assert_eq!(numbers, [1, 2, 3, 4, 5]);
    let metrics = recorded.under("cdb.lease.unreadable");
    assert!(metrics[" order"][0] >= 7.0, "{metrics:?}");
}

/// A network whose queries take 5.3 s and whose other requests take 6.2 s, once it is slow.
#[derive(Debug)]
struct Slow(SimulatedTime, Arc<AtomicBool>);

#[async_trait]
impl Transport for Slow {
    async fn send(&self, request: HttpRequest) -> Result<HttpResponse, TransportError> {
        if self.1.load(Ordering::Relaxed) {
            let is_query = request.headers.contains_key("x-ms-documentdb-isquery");
            let time = if is_query { 5_300 } else { 6_200 };
            tokio::time::sleep(Duration::from_millis(time)).await;
        }
        self.0.send(request).await
    }
}

/// All requests of a call share a deadline. After the first refused leases too little of it is left for
/// another query, which would fail.
#[tokio::test(start_paused = true)]
async fn a_call_with_slow_requests_and_refused_leases_ends_within_a_deadline() {
    let account = account_with(80).await;
    let emulator = or_skip!(account.emulator(), "needs the emulator");
    let is_slow = Arc::new(AtomicBool::new(false));
    let shop = account.shop_through(|time| Slow(time.unwrap(), is_slow.clone()));
    let leases = leases(&shop.await, "worker");
    let query = || Query::in_partition("a").filter(open());
    let first = leases.take_next(query(), 1).await.unwrap();
    first.into_iter().next().unwrap().release().await.unwrap();
    emulator.inject(Fault::always(Effect::error(412, 0)).on(OperationKind::Bulk));
    // Two queries and three refused leases take 29.2 of 30 s.
    is_slow.store(true, Ordering::Relaxed);
    let begun = tokio::time::Instant::now();
    let taken = leases.take_next(query(), 1).await.unwrap();
    assert!(taken.is_empty());
    let took = begun.elapsed();
    assert!(took >= Duration::from_secs(29), "{took:?}");
    assert!(took < Duration::from_secs(30), "{took:?}");
}
