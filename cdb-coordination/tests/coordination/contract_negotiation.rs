//! The guarantees of the store in the example `contract_negotiation`.

#[path = "../../examples/contract_negotiation/negotiation.rs"]
mod negotiation;
#[path = "../../examples/contract_negotiation/store.rs"]
mod store;

use std::time::Duration;

use crate::backend::Backend;
use cdb_client::transport::SimulatedTime;
use cdb_client::{Bootstrap, ContainerClient};
use cdb_coordination::LeaseError;
use cdb_coordination::repository::Criteria;
use cdb_model::query::{Criterion, Operator, SortCriterion};
use cdb_model::shape::Direction;

use negotiation::{ContractAgreementKey, ContractNegotiation, Dataspace, State};
use store::NegotiationStore;

const MINUTE: Duration = Duration::from_secs(60);

async fn container() -> (Backend, ContainerClient<Dataspace>) {
    let backend = Backend::start(2, Some(SimulatedTime::new())).await;
    let database = backend.database();
    let container = database.bootstrap("negotiations", Bootstrap::CreateIfMissing);
    (backend, container.await.unwrap())
}

async fn filled(count: usize) -> (Backend, ContainerClient<Dataspace>, NegotiationStore) {
    let (backend, container) = container().await;
    let store = NegotiationStore::new(&container, "connector-1", MINUTE);
    for number in 0..count {
        let id = format!("n{number:02}");
        let party = if number % 3 == 0 { "ann" } else { "bob" };
        let negotiation = ContractNegotiation::requested(&id, party, store.now());
        store.create(negotiation).await.unwrap();
    }
    (backend, container, store)
}

#[tokio::test(start_paused = true)]
async fn negotiations_are_leased_by_state_and_leave_it_with_the_lease() {
    let (_backend, container, store) = filled(7).await;
    let taken = store.next_for_state(State::Requested, 5).await.unwrap();
    assert_eq!(taken.len(), 5);
    let other = NegotiationStore::new(&container, "connector-2", MINUTE);
    let rest = other.next_for_state(State::Requested, 5).await.unwrap();
    assert_eq!(rest.len(), 2);
    for negotiation in taken {
        store.offer(negotiation).await.unwrap();
    }
    assert_eq!(store.count(State::Offered).await.unwrap(), 5);
    let counts = store.counts().await.unwrap();
    let counts: Vec<u64> = counts.into_iter().map(|(_, count)| count).collect();
    assert_eq!(counts, [2, 5, 0, 0]);
    assert_eq!(
        other.next_for_state(State::Offered, 9).await.unwrap().len(),
        5
    );
    drop(rest);
}

#[tokio::test(start_paused = true)]
async fn an_agreement_is_signed_once_by_the_holder_of_the_negotiation() {
    let (_backend, container, store) = filled(1).await;
    let hasty = NegotiationStore::new(&container, "hasty", Duration::from_millis(100));
    let late = hasty.lease("n00").await.unwrap();
    tokio::time::sleep(Duration::from_millis(150)).await;
    let held = store.lease("n00").await.unwrap();
    let token = held.token();
    assert!(hasty.agree(late).await.unwrap_err().is_lost());
    let key = ContractAgreementKey::new("n00");
    assert!(container.read(&key).await.unwrap().is_none());
    store.agree(held).await.unwrap();
    let agreement = container.read(&key).await.unwrap().unwrap();
    assert_eq!(agreement.document.signed_under, token);
    let again = store.agree(store.lease("n00").await.unwrap()).await;
    assert!(matches!(again, Err(LeaseError::Client(error)) if error.is_conflict()));
}

#[tokio::test(start_paused = true)]
async fn a_failed_attempt_is_counted_while_the_lease_is_kept() {
    let (_backend, _container, store) = filled(1).await;
    let mut held = store.lease("n00").await.unwrap();
    store.failed(&mut held, "no answer").await.unwrap();
    store.failed(&mut held, "refused").await.unwrap();
    let found = store.find("n00").await.unwrap().unwrap().document;
    assert_eq!(
        (found.state_count, found.error_detail.as_deref()),
        (3, Some("refused"))
    );
    assert_eq!(found.lease.holder(), Some("connector-1"));
    assert!(store.lease("n00").await.unwrap_err().is_held());
    assert_eq!(store.latest(State::Requested, 5).await.unwrap(), ["n00"]);
    store.terminate(held).await.unwrap();
    assert_eq!(store.count(State::Terminated).await.unwrap(), 1);
}

#[tokio::test(start_paused = true)]
async fn criteria_filter_sort_and_page() {
    let (_backend, _container, store) = filled(20).await;
    let json = r#"{
        "filter": [{"field": "counterParty", "value": "bob"}],
        "sort": {"field": "state_at", "direction": "ascending"},
        "limit": 4
    }"#;
    let mut criteria: Criteria = serde_json::from_str(json).unwrap();
    let (mut seen, mut pages) = (Vec::new(), 0);
    loop {
        let page = store.query(&criteria).await.unwrap();
        seen.extend(page.rows.into_iter().map(|row| row.document.negotiation));
        pages += 1;
        let Some(next) = page.next else { break };
        // As a browser would send it back.
        let next = Criteria::all().after(next);
        let text = serde_json::to_string(&next).unwrap();
        criteria.after = serde_json::from_str::<Criteria>(&text).unwrap().after;
    }
    let mut bobs: Vec<_> = (0..20)
        .filter(|n| n % 3 != 0)
        .map(|n| format!("n{n:02}"))
        .collect();
    seen.sort();
    bobs.sort();
    assert_eq!(seen, bobs);
    assert!(pages >= 4, "{pages} pages");
}

#[tokio::test(start_paused = true)]
async fn criteria_that_no_index_serves_are_refused_unsent() {
    let (_backend, _container, store) = filled(1).await;
    let by_detail = Criteria::all().with("error_detail", "no answer");
    let refused = store.query(&by_detail).await.unwrap_err();
    assert!(refused.is_bad_request(), "{refused}");
    let starts = Criteria::all().with_criterion(Criterion {
        field: "counter_party".to_owned(),
        operator: Operator::StartsWith,
        value: 7.into(),
    });
    assert!(store.query(&starts).await.unwrap_err().is_bad_request());
    let by_detail = Criteria::all().sorted_by(SortCriterion {
        field: "errorDetail".to_owned(),
        direction: Direction::Ascending,
    });
    assert!(store.query(&by_detail).await.unwrap_err().is_bad_request());
    assert!(serde_json::from_str::<Criteria>(r#"{"where": "1=1"}"#).is_err());
}
