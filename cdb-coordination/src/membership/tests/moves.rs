//! Joining and leaving of those who are well.

use super::crew::{Crew, PERIOD, eventually, sees, served};
use crate::{LeaseProvider, SlotSet, Standing};

#[tokio::test(start_paused = true)]
async fn who_joins_takes_its_share_and_who_leaves_gives_it_back() {
    let crew = Crew::new().await;
    let mut members = crew.joined(&["ann", "bob", "cid"]).await;
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

    members.push(crew.join("dan").await);
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
        assert_eq!(now.missing_in(share), 0, "nothing moved between the others");
        assert_eq!(
            share.missing_in(&now),
            share.len() - share.missing_in(&newest)
        );
    }

    members[3].leave().await;
    assert!(members[3].slots().await.is_empty());
    assert_eq!(members[3].view().standing(), Standing::Left);
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
async fn members_that_start_together_all_get_on_the_roster() {
    let crew = Crew::new().await;
    let names = ["a", "b", "c", "d", "e", "f", "g", "h"];
    let members = crew.joined(&names).await;
    let sum: u32 = members
        .iter()
        .map(|member| member.view().slots().len())
        .sum();
    assert_eq!(sum, 256);
}

#[tokio::test(start_paused = true)]
async fn who_drops_its_handle_has_left() {
    let crew = Crew::new().await;
    let mut members = crew.joined(&["ann", "bob"]).await;
    drop(members.pop());
    let took = eventually(async || sees(&members[0], &["ann"])).await;
    assert!(took <= PERIOD * 2, "nobody waits for silence: {took:?}");
    assert!(members[0].slots().await.is_all());
}

#[tokio::test(start_paused = true)]
async fn until_it_is_on_the_roster_a_member_serves_everything() {
    let crew = Crew::new().await;
    let member = crew.join("ann").await;
    assert_eq!(member.view().standing(), Standing::Joining);
    assert!(member.slots().await.is_all());
    assert_eq!(member.view().share(10), (0..10).collect::<Vec<_>>());
}

#[tokio::test(start_paused = true)]
async fn a_heartbeat_is_one_request() {
    const HEARTBEATS: u32 = 10;
    let crew = Crew::new().await;
    let members = crew.joined(&["ann", "bob", "cid"]).await;
    crew.emulator.reset_requests();
    tokio::time::sleep(PERIOD * HEARTBEATS).await;
    let sent = crew.emulator.requests().data_requests();
    // One more each, where the interval begins just before a heartbeat.
    assert!(
        sent <= u64::from(3 * (HEARTBEATS + 1)),
        "{sent} requests of three members"
    );
    assert!(
        sent >= u64::from(3 * (HEARTBEATS / 2)),
        "they do beat: {sent}"
    );
    drop(members);
}
