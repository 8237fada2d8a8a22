//! Leases on a service that loses answers. Only the emulator does so on demand.

use std::time::Duration;

use cdb_client::ContainerClient;
use cdb_coordination::repository::RepositoryError;
use cdb_coordination::{LeaseError, Repository};
use cdb_emulator::{Effect, Emulator, Fault, OperationKind};
use cdb_model::{Batch, Document, Patch, Query};
use futures::future::join_all;

use crate::lease::account::{Account, Label, Order, Shop, leases, order, stored, with_order};

/// Of ten requests one answer is lost, one request is lost, and one fails after its effect.
fn faults() -> [Fault; 3] {
    [
        Effect::DropAnswer,
        Effect::DropRequest,
        Effect::StatusAfterEffect { status: 500 },
    ]
    .map(|effect| Fault::with_probability(effect, 0.1))
}

async fn failing() -> Option<(Account, ContainerClient<Shop>)> {
    let (account, shop) = Account::with_shop().await;
    for number in 0..40 {
        shop.run(order("ann", number).create()).await.unwrap();
    }
    let Some(emulator) = account.emulator() else {
        eprintln!("skipped: an account does not lose answers on demand");
        return None;
    };
    emulator.change(|settings| settings.seed(7)).unwrap();
    for fault in faults() {
        emulator.inject(fault);
    }
    Some((account, shop))
}

/// Repeats a call while its outcome is unknown; a lost lease fails the test.
async fn surely<T, F: Future<Output = Result<T, LeaseError>>>(mut act: impl FnMut() -> F) -> T {
    loop {
        match act().await {
            Ok(done) => return done,
            Err(LeaseError::Client(error)) => assert!(error.is_ambiguous(), "{error}"),
            Err(error) => panic!("{error}"),
        }
    }
}

#[tokio::test(start_paused = true)]
async fn every_write_under_a_lease_takes_place_exactly_once() {
    let (account, shop) = or_skip!(failing().await);
    let order = order("ann", 1);
    let (leases, key) = (leases(&shop, "holder"), order.key());
    let mut guard = surely(|| leases.acquire(&key)).await;
    let mut open = 0;
    for number in 0..60 {
        let label = Label {
            customer: "ann".to_owned(),
            number,
        };
        let mut labels = Batch::new("ann");
        labels.add(label.create()).unwrap();
        let parcel = || Patch::new().incr(Order::PARCELS, 1);
        for outcome in [
            guard.run((parcel(), labels)).await,
            guard.run(parcel()).await,
        ] {
            match outcome {
                Ok(()) => {}
                Err(LeaseError::Client(error)) if error.is_ambiguous() => open += 1,
                Err(error) => panic!("{error}"),
            }
        }
    }
    guard.release().await.unwrap();
    account.emulator().unwrap().clear_faults();
    let count = Query::<Label>::in_partition("ann").count();
    let labels = shop.query(count).first().await.unwrap().unwrap();
    let parcels = stored(&shop, &order).await.parcels;
    // After four lost answers in a row the error is ambiguous.
    assert!(
        parcels <= 120 && parcels + open >= 120,
        "{parcels} parcels, {open} open"
    );
    assert!(
        labels <= 60 && labels + open >= 60,
        "{labels} labels, {open} open"
    );
}

#[tokio::test(start_paused = true)]
async fn of_many_concurrent_leases_of_one_document_one_succeeds() {
    let (_account, shop) = or_skip!(failing().await);
    let leases = leases(&shop, "worker");
    for number in 0..10 {
        let key = order("ann", number).key();
        let attempts = join_all((0..8).map(|_| leases.acquire(&key))).await;
        let guards: Vec<_> = attempts.into_iter().filter_map(Result::ok).collect();
        assert!(guards.len() <= 1, "{guards:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_document_that_several_processes_want_is_leased_once() {
    let (_account, shop) = or_skip!(failing().await);
    let takers: Vec<_> = (0..4)
        .map(|n| leases(&shop, &format!("taker {n}")))
        .collect();
    let taken = join_all(takers.iter().map(|taker| async {
        let mut mine = Vec::new();
        for _ in 0..6 {
            let query = Query::<Order>::across_partitions().filter(Order::STATE.eq("open"));
            mine.extend(surely(|| taker.take_next(query.clone(), 5)).await);
        }
        mine
    }))
    .await;
    let mut numbers: Vec<_> = taken
        .iter()
        .flatten()
        .map(|guard| guard.document().number)
        .collect();
    let held = numbers.len();
    numbers.sort_unstable();
    numbers.dedup();
    assert_eq!(numbers.len(), held, "an order was taken twice");
    assert!(held > 20, "only {held} of 40 were taken");
}

/// Loses the answer to the next write of this kind, and refuses all reads.
fn lose_answer_and_refuse_reads(emulator: &Emulator, kind: OperationKind) {
    emulator.inject(Fault::once(Effect::DropAnswer).on(kind));
    emulator.inject(Fault::always(Effect::error(403, 1014)).on(OperationKind::Read));
}

#[tokio::test(start_paused = true)]
async fn a_lost_answer_is_ambiguous_when_the_document_cannot_be_read() {
    let (account, shop) = Account::with_shop().await;
    let emulator = or_skip!(account.emulator(), "needs the emulator");
    let (first, second) = (order("ann", 1), order("ann", 2));
    shop.run(first.create()).await.unwrap();
    let ambiguous = |error: LeaseError| {
        let is_ambiguous = matches!(&error, LeaseError::Client(error) if error.is_ambiguous());
        assert!(is_ambiguous, "{error}");
    };
    let leases = leases(&shop, "holder");
    let seen = shop.read(&first.key()).await.unwrap().unwrap();
    lose_answer_and_refuse_reads(emulator, OperationKind::Patch);
    ambiguous(leases.acquire_seen(seen).await.unwrap_err());
    emulator.clear_faults();
    leases.break_lease(&first.key()).await.unwrap();

    let mut guard = leases.acquire(&first.key()).await.unwrap();
    lose_answer_and_refuse_reads(emulator, OperationKind::Patch);
    let parcel = || Patch::new().incr(Order::PARCELS, 1);
    ambiguous(guard.run(parcel()).await.unwrap_err());
    emulator.clear_faults();
    assert_eq!(stored(&shop, &first).await.parcels, 1);

    let orders = Repository::<Shop, Order>::new(&shop);
    lose_answer_and_refuse_reads(emulator, OperationKind::Create);
    let refused = orders.run(second.create()).await.unwrap_err();
    assert!(
        matches!(refused, RepositoryError::Undecided { .. }),
        "{refused}"
    );
    emulator.clear_faults();
    assert_eq!(stored(&shop, &second).await, second);
}

#[tokio::test(start_paused = true)]
async fn a_guard_keeps_its_lease_after_a_write_with_an_unknown_outcome() {
    for number in 0..5 {
        let (account, shop, order) = with_order().await;
        let emulator = or_skip!(account.emulator(), "needs the emulator");
        let mut guard = leases(&shop, "holder").acquire(&order.key()).await.unwrap();
        let parcel = || Patch::new().incr(Order::PARCELS, 1);
        // The patch takes effect, and the caller stops waiting before it is known.
        emulator.inject(Fault::once(Effect::DropAnswer).on(OperationKind::Patch));
        emulator.inject(Fault::always(Effect::error(503, 0)).on(OperationKind::Read));
        let cancelled = tokio::time::timeout(Duration::from_millis(10), guard.run(parcel()));
        cancelled.await.unwrap_err();
        emulator.clear_faults();
        match number {
            0 => assert_eq!(guard.refresh().await.unwrap().parcels, 1),
            1 => {
                let refused = guard.run(order.replace()).await.unwrap_err();
                assert!(matches!(refused, LeaseError::Changed { .. }), "{refused}");
            }
            2 => guard.renew().await.unwrap(),
            3 => {
                drop(guard);
                tokio::time::sleep(Duration::from_secs(1)).await;
                assert_eq!(stored(&shop, &order).await.lease.holder(), None);
                continue;
            }
            _ => guard.run(parcel()).await.unwrap(),
        }
        let parcels = if number == 4 { 2 } else { 1 };
        guard.release().await.unwrap();
        let now = stored(&shop, &order).await;
        assert_eq!((now.parcels, now.lease.holder()), (parcels, None));
    }
}

#[tokio::test(start_paused = true)]
async fn a_lost_answer_does_not_hide_a_change_by_a_writer_without_a_lease() {
    let (account, shop, order) = with_order().await;
    let emulator = or_skip!(account.emulator(), "needs the emulator");
    let mut guard = leases(&shop, "holder").acquire(&order.key()).await.unwrap();
    emulator.inject(Fault::once(Effect::DropAnswer).on(OperationKind::Patch));
    emulator.inject(Fault::always(Effect::error(503, 0)).on(OperationKind::Read));
    let foreign = Patch::new().set(Order::STATE, "cancelled");
    let change = async {
        tokio::time::sleep(Duration::from_millis(10)).await;
        shop.run(foreign.at(&order.key())).await.unwrap();
        emulator.clear_faults();
    };
    let (renewed, ()) = tokio::join!(guard.renew(), change);
    renewed.unwrap();
    let refused = guard.run(order.replace()).await.unwrap_err();
    assert!(matches!(refused, LeaseError::Changed { .. }), "{refused}");
}
