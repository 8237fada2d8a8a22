//! Faults, wrong clocks, and a roster that somebody has changed by hand.

use std::sync::Arc;
use std::time::Duration;

use cdb_emulator::{Effect, Fault, OperationKind};
use cdb_model::{Batch, Container, Document, Patch, Query, Timestamp};
use serde::{Deserialize, Serialize};
use tokio::time::Instant;

use super::crew::{Crew, CrewMember, PERIOD, Ship, eventually, sees, served};
use crate::{LeaseProvider, MemberDocument, MemberRecord, Membership, MembershipConfig, Standing};

#[tokio::test(start_paused = true)]
async fn one_request_in_twenty_may_fail_and_every_slot_stays_served() {
    let crew = Crew::new().await;
    crew.emulator.seed_faults(7);
    for fault in Fault::in_five_ways(0.05) {
        crew.emulator.inject(fault);
    }
    let names = ["ann", "bob", "cid", "dan"];
    let members = crew.joined(&names).await;
    let begun = Instant::now();
    let mut served_at = Instant::now();
    while begun.elapsed() < PERIOD * 15 {
        if served(&members).is_all() {
            served_at = Instant::now();
        }
        assert!(
            served_at.elapsed() <= PERIOD * 2,
            "a slot is served by nobody"
        );
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    crew.emulator.clear_faults();
    eventually(async || members.iter().all(|member| sees(member, &names))).await;
}

#[tokio::test(start_paused = true)]
async fn a_lost_answer_to_a_heartbeat_changes_nothing() {
    let crew = Crew::new().await;
    let members = crew.joined(&["ann", "bob"]).await;
    // Of every three batches one is carried out, and nobody hears of it.
    let lost = Fault::script([Effect::DropAnswer, Effect::Pass, Effect::Pass]);
    let lost = Fault {
        times: None,
        ..lost
    };
    crew.emulator.inject(lost.on(OperationKind::Batch));
    for _ in 0..50 {
        assert!(members.iter().all(|member| sees(member, &["ann", "bob"])));
        tokio::time::sleep(PERIOD / 10).await;
    }
}

#[tokio::test(start_paused = true)]
async fn who_cannot_reach_the_roster_serves_everything_until_it_can() {
    let crew = Crew::new().await;
    let members = crew.joined(&["ann", "bob"]).await;
    let share = members[0].slots().await;
    let refused = Effect::Status {
        status: 503,
        substatus: 0,
        retry_after_ms: None,
    };
    crew.emulator.inject(Fault::always(refused));
    tokio::time::sleep(PERIOD).await;
    assert_eq!(
        members[0].slots().await,
        share,
        "one heartbeat changes nothing"
    );
    eventually(async || members[0].view().standing() == Standing::Unheard).await;
    assert!(members[0].slots().await.is_all());
    crew.emulator.clear_faults();
    eventually(async || members.iter().all(|member| sees(member, &["ann", "bob"]))).await;
    assert_eq!(members[0].slots().await, share);
}

#[tokio::test(start_paused = true)]
async fn who_was_removed_by_mistake_joins_again() {
    let crew = Crew::new().await;
    let members = crew.joined(&["ann", "bob"]).await;
    let ship = crew.ship().await;
    // The whole group, as somebody who cleans up would delete it: roster and members.
    let group = MembershipConfig::default().group;
    let found = ship
        .query(Query::<CrewMember>::in_partition(&*group))
        .all()
        .await;
    let found = found.expect("the documents are there");
    assert_eq!(found.len(), 3);
    for stored in found {
        let mut batch = Batch::<Ship>::new(&*group);
        let key = stored.document.key();
        batch.delete(&key).expect("it fits");
        ship.execute(&batch).await.expect("it is deleted");
    }
    eventually(async || {
        let roster = ship
            .query(Query::<CrewMember>::in_partition(&*group))
            .all()
            .await;
        let whole = roster.is_ok_and(|found| found.len() == 3);
        whole && members.iter().all(|member| sees(member, &["ann", "bob"]))
    })
    .await;
}

/// A member whose clock is ten seconds ahead, and with it everything that it writes about time.
#[derive(Document, Serialize, Deserialize)]
#[document(type = "member", id = "{crew}:{name}")]
struct Ahead {
    #[document(partition_key)]
    crew: String,
    name: String,
    record: MemberRecord,
}

impl MemberDocument for Ahead {
    fn new(group: &str, name: &str, record: MemberRecord) -> Self {
        let record = match record {
            MemberRecord::Heartbeat {
                incarnation,
                period_ms,
                at,
            } => MemberRecord::Heartbeat {
                incarnation,
                period_ms,
                at: Timestamp::from_millis(at.as_millis() + 10_000),
            },
            roster @ MemberRecord::Roster { .. } => roster,
        };
        Self {
            crew: group.to_owned(),
            name: name.to_owned(),
            record,
        }
    }

    fn into_record(self) -> MemberRecord {
        self.record
    }
}

#[derive(Container)]
#[container(partition_key = "/crew")]
enum ShipAhead {
    Member(Ahead),
}

#[tokio::test(start_paused = true)]
async fn clocks_may_be_ten_seconds_apart() {
    let crew = Crew::new().await;
    let punctual = crew.join("ann").await;
    let ship = crew.open::<ShipAhead>(Arc::default()).await;
    let config = MembershipConfig {
        heartbeat: PERIOD,
        ..MembershipConfig::named("zoe")
    };
    let ahead = Membership::start::<Ahead, _>(ship, config);
    let both = ["ann", "zoe"];
    eventually(async || sees(&punctual, &both) && sees(&ahead, &both)).await;
    for _ in 0..60 {
        assert!(
            sees(&punctual, &both) && sees(&ahead, &both),
            "nobody is taken for dead"
        );
        tokio::time::sleep(PERIOD / 10).await;
    }
    drop(ahead);
    let took = eventually(async || sees(&punctual, &["ann"])).await;
    assert!(took <= PERIOD * 2, "{took:?}");
}

/// A member as a program writes it that knows it otherwise.
#[derive(Document, Serialize, Deserialize)]
#[document(type = "member", id = "{crew}:{name}")]
struct Torn {
    #[document(partition_key)]
    crew: String,
    name: String,
    record: serde_json::Value,
}

#[derive(Container)]
#[container(partition_key = "/crew")]
enum Wreck {
    Member(Torn),
}

#[tokio::test(start_paused = true)]
async fn a_member_whose_document_is_spoiled_joins_again_and_disturbs_nobody() {
    let crew = Crew::new().await;
    let names = ["ann", "bob"];
    let members = crew.joined(&names).await;
    let wreck = crew.open::<Wreck>(Arc::default()).await;
    let spoiled = eventually(async || {
        let query = Query::<Torn>::across_partitions();
        let found = wreck.query(query).all().await.expect("they are read");
        let bob = found.iter().find(|row| row.document.name == "member.bob");
        let torn = Patch::<Torn>::new().set(Torn::RECORD, "torn".into());
        // His next heartbeat may come before.
        let bob = bob.expect("Bob has a document");
        wreck.patch_stored(bob, &torn).await.is_ok()
    });
    spoiled.await;
    let ship = crew.ship().await;
    eventually(async || {
        assert_eq!(members[0].view().standing(), Standing::Member);
        let query = Query::<CrewMember>::across_partitions();
        let whole = ship.query(query).all().await.is_ok();
        whole && members.iter().all(|member| sees(member, &names))
    })
    .await;
}
