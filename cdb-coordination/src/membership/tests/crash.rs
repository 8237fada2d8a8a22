//! Members that crash, and members that take their place.

use super::cluster::{Cluster, PERIOD, eventually, sees, served};
use crate::Membership;
use crate::membership::{FailedMember, LeaseProvider, MemberState};

/// The time of a few requests.
const SLACK: std::time::Duration = std::time::Duration::from_millis(50);

#[tokio::test(start_paused = true)]
async fn a_killed_member_is_removed_within_three_heartbeats_and_its_slots_are_served_with_the_next()
{
    let cluster = Cluster::new().await;
    let killable = cluster.killable("killable").await;
    let others = [cluster.join("ann").await, cluster.join("bob").await];
    let all = ["ann", "bob", "killable"];
    eventually(async || {
        others
            .iter()
            .chain([&killable.member])
            .all(|member| sees(member, &all))
    })
    .await;
    assert!(!served(&others).is_all());

    let _ended = killable.kill();
    let is_gone = |member| sees(member, &["ann", "bob"]);
    let detected = eventually(async || others.iter().any(is_gone)).await;
    assert!(
        detected <= PERIOD * 3 + SLACK,
        "detected after {detected:?}"
    );
    let known = eventually(async || others.iter().all(is_gone)).await;
    assert!(known <= PERIOD + SLACK, "known {known:?} later");
    assert!(served(&others).is_all());
}

/// The failed members that these members have reported since the last call.
fn reported(receivers: &mut [tokio::sync::broadcast::Receiver<FailedMember>]) -> Vec<FailedMember> {
    let unread = |failed: &mut tokio::sync::broadcast::Receiver<FailedMember>| {
        std::iter::from_fn(|| failed.try_recv().ok()).collect::<Vec<_>>()
    };
    receivers.iter_mut().flat_map(unread).collect()
}

#[tokio::test(start_paused = true)]
async fn one_survivor_reports_a_killed_member_and_none_reports_one_that_left_or_was_replaced() {
    let cluster = Cluster::new().await;
    let others = cluster.joined(&["ann", "bob", "leaving", "twin"]).await;
    let killable = cluster.killable("killable").await;
    let [ann, bob, leaving, _replaced] = &others[..] else {
        panic!("four joined");
    };
    let twin = cluster.join("twin").await;
    leaving.leave().await;
    let remaining = ["ann", "bob", "killable", "twin"];
    eventually(async || {
        [ann, bob, &twin]
            .iter()
            .all(|member| sees(member, &remaining))
    })
    .await;
    let mut receivers = [ann, bob, &twin].map(Membership::failed);
    tokio::time::sleep(PERIOD * 4).await;
    assert_eq!(reported(&mut receivers), []);

    let incarnation = killable.member.incarnation().to_string();
    let _ended = killable.kill();
    tokio::time::sleep(PERIOD * 6).await;
    let [failed] = &reported(&mut receivers)[..] else {
        panic!("one survivor reports it once");
    };
    assert_eq!(
        (&*failed.name, &failed.incarnation),
        ("killable", &incarnation)
    );
}

#[tokio::test(start_paused = true)]
async fn several_members_killed_at_once_are_all_removed() {
    let cluster = Cluster::new().await;
    let mut killables = Vec::new();
    for name in ["m1", "m2", "m3"] {
        killables.push(cluster.killable(name).await);
    }
    let survivors = [cluster.join("ann").await, cluster.join("bob").await];
    let all = ["ann", "bob", "m1", "m2", "m3"];
    eventually(async || survivors.iter().all(|member| sees(member, &all))).await;
    for killable in killables {
        let _ended = killable.kill();
    }
    let took =
        eventually(async || survivors.iter().all(|member| sees(member, &["ann", "bob"]))).await;
    assert!(
        took <= PERIOD * 4 + SLACK,
        "removed and known after {took:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_member_that_restarts_under_its_name_keeps_its_slots() {
    let cluster = Cluster::new().await;
    let first = cluster.killable("phoenix").await;
    let other = cluster.join("ann").await;
    let both = ["ann", "phoenix"];
    eventually(async || sees(&other, &both) && sees(&first.member, &both)).await;
    let (share, rest) = (first.member.slots().await, other.slots().await);
    let _ended = first.kill();
    let second = cluster.join("phoenix").await;
    eventually(async || sees(&second, &both)).await;
    assert_eq!(second.slots().await, share);
    // By now a failure detector would have removed the first member.
    tokio::time::sleep(PERIOD * 5).await;
    assert!(sees(&other, &both) && sees(&second, &both));
    assert_eq!(other.slots().await, rest, "no slot has moved");
}

#[tokio::test(start_paused = true)]
async fn of_two_processes_with_one_name_the_later_one_is_the_member() {
    let cluster = Cluster::new().await;
    let first = cluster.join("twin").await;
    eventually(async || sees(&first, &["twin"])).await;
    let second = cluster.join("twin").await;
    let took = eventually(async || first.view().state() == MemberState::Replaced).await;
    assert!(
        took <= PERIOD * 2 + SLACK,
        "known with the next heartbeat, not after {took:?}"
    );
    assert!(first.slots().await.is_empty() && first.view().share(10).is_empty());
    // The first member neither takes its name back nor removes the second member when it leaves.
    first.leave().await;
    tokio::time::sleep(PERIOD * 4).await;
    assert!(sees(&second, &["twin"]));
    assert!(second.slots().await.is_all());
}
