//! Healthy members join and leave.

use super::cluster::{Cluster, PERIOD, eventually, sees, served};
use crate::membership::{LeaseProvider, MemberState, SlotSet};

#[tokio::test(start_paused = true)]
async fn a_member_takes_its_share_when_it_joins_and_returns_it_when_it_leaves() {
    let cluster = Cluster::new().await;
    let mut members = cluster.joined(&["ann", "bob", "cid"]).await;
    let shares: Vec<SlotSet> = members
        .iter()
        .map(|member| member.view().slots().clone())
        .collect();
    assert_eq!(
        shares.iter().map(SlotSet::len).sum::<u32>(),
        256,
        "each slot once"
    );
    assert!(served(&members).is_all());

    members.push(cluster.join("dan").await);
    let all = ["ann", "bob", "cid", "dan"];
    eventually(async || members.iter().all(|member| sees(member, &all))).await;
    let newest = members[3].slots().await;
    assert!(
        (1..=110).contains(&newest.len()),
        "about a quarter: {}",
        newest.len()
    );
    for (member, share) in members.iter().zip(&shares) {
        let now = member.slots().await;
        assert_eq!(
            now.missing_in(share),
            0,
            "no slot has moved between the others"
        );
        assert_eq!(
            share.missing_in(&now),
            share.len() - share.missing_in(&newest)
        );
    }

    members[3].leave().await;
    assert!(members[3].slots().await.is_empty());
    assert_eq!(members[3].view().state(), MemberState::Left);
    let took = eventually(async || served(&members[..3]).is_all()).await;
    assert!(
        took <= PERIOD * 3 / 2,
        "with the next heartbeat, not after {took:?}"
    );
    let again: Vec<SlotSet> = members
        .iter()
        .take(3)
        .map(|member| member.view().slots().clone())
        .collect();
    assert_eq!(again, shares);
}

#[tokio::test(start_paused = true)]
async fn members_that_start_together_all_join() {
    let cluster = Cluster::new().await;
    let names = ["a", "b", "c", "d", "e", "f", "g", "h"];
    let members = cluster.joined(&names).await;
    let sum: u32 = members
        .iter()
        .map(|member| member.view().slots().len())
        .sum();
    assert_eq!(sum, 256);
}

#[tokio::test(start_paused = true)]
async fn dropping_the_handle_leaves_the_group() {
    let cluster = Cluster::new().await;
    let mut members = cluster.joined(&["ann", "bob"]).await;
    drop(members.pop());
    let took = eventually(async || sees(&members[0], &["ann"])).await;
    assert!(
        took <= PERIOD * 2,
        "the others do not wait for the failure detector: {took:?}"
    );
    assert!(members[0].slots().await.is_all());
}

#[tokio::test(start_paused = true)]
async fn a_process_serves_every_slot_until_it_has_joined() {
    let cluster = Cluster::new().await;
    let member = cluster.join("ann").await;
    assert_eq!(member.view().state(), MemberState::Joining);
    assert!(member.slots().await.is_all());
    assert_eq!(member.view().share(10), (0..10).collect::<Vec<_>>());
}

#[tokio::test(start_paused = true)]
async fn a_heartbeat_is_one_request() {
    const HEARTBEATS: u32 = 10;
    let cluster = Cluster::new().await;
    let members = cluster.joined(&["ann", "bob", "cid"]).await;
    cluster.emulator.reset_requests();
    tokio::time::sleep(PERIOD * HEARTBEATS).await;
    let sent = cluster.emulator.requests().data_requests();
    // One heartbeat more for each member, if the measurement begins just before a heartbeat.
    assert!(
        sent <= u64::from(3 * (HEARTBEATS + 1)),
        "{sent} requests of three members"
    );
    assert!(
        sent >= u64::from(3 * (HEARTBEATS / 2)),
        "heartbeats are sent: {sent}"
    );
    drop(members);
}
