//! Members that end without a word, and what comes in their place.

use super::crew::{Crew, PERIOD, eventually, sees, served};
use crate::{LeaseProvider, Standing};

/// The time of a few requests.
const SLACK: std::time::Duration = std::time::Duration::from_millis(50);

#[tokio::test(start_paused = true)]
async fn who_is_killed_is_removed_within_three_heartbeats_and_its_slots_are_served_with_the_next() {
    let crew = Crew::new().await;
    let mortal = crew.mortal("mortal").await;
    let others = [crew.join("ann").await, crew.join("bob").await];
    let all = ["ann", "bob", "mortal"];
    eventually(async || {
        others
            .iter()
            .chain([&mortal.member])
            .all(|member| sees(member, &all))
    })
    .await;
    assert!(!served(&others).is_all());

    let _ended = mortal.kill();
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

#[tokio::test(start_paused = true)]
async fn several_killed_at_once_are_all_removed() {
    let crew = Crew::new().await;
    let mut mortals = Vec::new();
    for name in ["m1", "m2", "m3"] {
        mortals.push(crew.mortal(name).await);
    }
    let survivors = [crew.join("ann").await, crew.join("bob").await];
    let all = ["ann", "bob", "m1", "m2", "m3"];
    eventually(async || survivors.iter().all(|member| sees(member, &all))).await;
    for mortal in mortals {
        let _ended = mortal.kill();
    }
    let took =
        eventually(async || survivors.iter().all(|member| sees(member, &["ann", "bob"]))).await;
    assert!(
        took <= PERIOD * 4 + SLACK,
        "removed and known after {took:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn who_restarts_under_its_name_keeps_its_slots() {
    let crew = Crew::new().await;
    let first = crew.mortal("phoenix").await;
    let other = crew.join("ann").await;
    let both = ["ann", "phoenix"];
    eventually(async || sees(&other, &both) && sees(&first.member, &both)).await;
    let (share, rest) = (first.member.slots().await, other.slots().await);
    let _ended = first.kill();
    let second = crew.join("phoenix").await;
    eventually(async || sees(&second, &both)).await;
    assert_eq!(second.slots().await, share);
    // Long enough that the first would have been removed.
    tokio::time::sleep(PERIOD * 5).await;
    assert!(sees(&other, &both) && sees(&second, &both));
    assert_eq!(other.slots().await, rest, "nothing moved");
}

#[tokio::test(start_paused = true)]
async fn of_two_with_one_name_the_later_one_counts() {
    let crew = Crew::new().await;
    let first = crew.join("twin").await;
    eventually(async || sees(&first, &["twin"])).await;
    let second = crew.join("twin").await;
    let took = eventually(async || first.view().standing() == Standing::Replaced).await;
    assert!(
        took <= PERIOD * 2 + SLACK,
        "known with the next heartbeat, not after {took:?}"
    );
    assert!(first.slots().await.is_empty() && first.view().share(10).is_empty());
    // It stays so: the first neither takes its name back, nor takes the second along when it leaves.
    first.leave().await;
    tokio::time::sleep(PERIOD * 4).await;
    assert!(sees(&second, &["twin"]));
    assert!(second.slots().await.is_all());
}
