//! Faults, wrong clocks, and documents that another program has changed.

use std::sync::Arc;
use std::time::Duration;

use cdb_emulator::{Effect, Fault, OperationKind};
use cdb_model::{Batch, Container, Document, Patch, Query, Timestamp};
use serde::{Deserialize, Serialize};
use tokio::time::Instant;

use super::cluster::{Cluster, GroupMember, Members, PERIOD, eventually, sees, served};
use crate::Membership;
use crate::membership::{
    LeaseProvider, MemberDocument, MemberRecord, MemberState, MembershipConfig,
};

#[tokio::test(start_paused = true)]
async fn one_request_in_twenty_may_fail_and_every_slot_stays_served() {
    let cluster = Cluster::new().await;
    let seeded = cluster.emulator.change(|settings| settings.seed(7));
    seeded.unwrap();
    for fault in Fault::in_five_ways(0.05) {
        cluster.emulator.inject(fault);
    }
    let names = ["ann", "bob", "cid", "dan"];
    let members = cluster.joined(&names).await;
    let begun = Instant::now();
    let mut served_at = Instant::now();
    while begun.elapsed() < PERIOD * 15 {
        if served(&members).is_all() {
            served_at = Instant::now();
        }
        assert!(served_at.elapsed() <= PERIOD * 2, "a slot is not served");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    cluster.emulator.clear_faults();
    eventually(async || members.iter().all(|member| sees(member, &names))).await;
}

#[tokio::test(start_paused = true)]
async fn a_lost_answer_to_a_heartbeat_changes_nothing() {
    let cluster = Cluster::new().await;
    let members = cluster.joined(&["ann", "bob"]).await;
    // Of three batches one is carried out without an answer.
    let lost = Fault::script([Effect::DropAnswer, Effect::Pass, Effect::Pass]);
    let lost = Fault {
        times: None,
        ..lost
    };
    cluster.emulator.inject(lost.on(OperationKind::Batch));
    for _ in 0..50 {
        assert!(members.iter().all(|member| sees(member, &["ann", "bob"])));
        tokio::time::sleep(PERIOD / 10).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_member_without_the_roster_serves_every_slot_until_it_reaches_it() {
    let cluster = Cluster::new().await;
    let members = cluster.joined(&["ann", "bob"]).await;
    let share = members[0].slots().await;
    let refused = Effect::error(503, 0);
    cluster.emulator.inject(Fault::always(refused));
    tokio::time::sleep(PERIOD).await;
    assert_eq!(
        members[0].slots().await,
        share,
        "one failed heartbeat changes nothing"
    );
    eventually(async || members[0].view().state() == MemberState::Unheard).await;
    assert!(members[0].slots().await.is_all());
    cluster.emulator.clear_faults();
    eventually(async || members.iter().all(|member| sees(member, &["ann", "bob"]))).await;
    assert_eq!(members[0].slots().await, share);
}

#[tokio::test(start_paused = true)]
async fn a_member_removed_by_mistake_rejoins() {
    let cluster = Cluster::new().await;
    let members = cluster.joined(&["ann", "bob"]).await;
    let container = cluster.container().await;
    // All documents of the group, as an administrator would delete them.
    let group = MembershipConfig::default().group;
    let found = container
        .query(Query::<GroupMember>::in_partition(&*group))
        .all()
        .await;
    let found = found.expect("the documents are there");
    assert_eq!(found.len(), 3, "two members and the roster");
    for stored in found {
        let mut batch = Batch::<Members>::new(&*group);
        let key = stored.document.key();
        batch.add(key.delete()).expect("it fits");
        container.execute(&batch).await.expect("it is deleted");
    }
    eventually(async || {
        let roster = container
            .query(Query::<GroupMember>::in_partition(&*group))
            .all()
            .await;
        let whole = roster.is_ok_and(|found| found.len() == 3);
        whole && members.iter().all(|member| sees(member, &["ann", "bob"]))
    })
    .await;
}

/// A member whose clock is ten seconds ahead, also in its documents.
#[derive(Document, Serialize, Deserialize)]
#[document(type = "member", id = "{cluster}:{name}")]
struct Ahead {
    #[document(partition_key)]
    cluster: String,
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
            cluster: group.to_owned(),
            name: name.to_owned(),
            record,
        }
    }

    fn into_record(self) -> MemberRecord {
        self.record
    }
}

#[derive(Container)]
enum GroupAhead {
    Member(Ahead),
}

#[tokio::test(start_paused = true)]
async fn clocks_may_be_ten_seconds_apart() {
    let cluster = Cluster::new().await;
    let punctual = cluster.join("ann").await;
    let container = cluster.open::<GroupAhead>(Arc::default()).await;
    let config = MembershipConfig {
        heartbeat: PERIOD,
        ..MembershipConfig::named("zoe")
    };
    let ahead = Membership::start::<Ahead, _>(container, config);
    let both = ["ann", "zoe"];
    eventually(async || sees(&punctual, &both) && sees(&ahead, &both)).await;
    for _ in 0..60 {
        assert!(
            sees(&punctual, &both) && sees(&ahead, &both),
            "no member was removed"
        );
        tokio::time::sleep(PERIOD / 10).await;
    }
    drop(ahead);
    let took = eventually(async || sees(&punctual, &["ann"])).await;
    assert!(took <= PERIOD * 2, "{took:?}");
}

/// A member's document with a field that cannot be read.
#[derive(Document, Serialize, Deserialize)]
#[document(type = "member", id = "{cluster}:{name}")]
struct Torn {
    #[document(partition_key)]
    cluster: String,
    name: String,
    record: serde_json::Value,
}

#[derive(Container)]
enum RawGroup {
    Member(Torn),
}

#[tokio::test(start_paused = true)]
async fn a_member_with_an_unreadable_document_rejoins_and_does_not_disturb_the_others() {
    let cluster = Cluster::new().await;
    let names = ["ann", "bob"];
    let members = cluster.joined(&names).await;
    let raw = cluster.open::<RawGroup>(Arc::default()).await;
    let torn = eventually(async || {
        let query = Query::<Torn>::across_partitions();
        let found = raw.query(query).all().await.expect("they are read");
        let bob = found.iter().find(|row| row.document.name == "member.bob");
        let torn = Patch::<Torn>::new().set(Torn::RECORD, serde_json::Value::from("torn"));
        // Bob's next heartbeat may be faster.
        let bob = bob.expect("Bob has a document");
        raw.run(torn.at(bob)).await.is_ok()
    });
    torn.await;
    let container = cluster.container().await;
    eventually(async || {
        assert_eq!(members[0].view().state(), MemberState::Member);
        let query = Query::<GroupMember>::across_partitions();
        let whole = container.query(query).all().await.is_ok();
        whole && members.iter().all(|member| sees(member, &names))
    })
    .await;
}
