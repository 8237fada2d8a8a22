//! Programs that do not want it.

use cdb_provider::HandOver;

use super::stage::{SOON, Stage};

async fn stored_at_once(policy: HandOver) -> Option<bool> {
    let stage = Stage::with(1, |config| config.hand_over = policy).await?;
    let (acknowledged, turn) = stage.taken().await;
    let is_stored = !stage.messages().await.is_empty();
    stage.commit(&turn, None).await.expect("it is committed");
    let ended = tokio::time::timeout(SOON, acknowledged).await;
    ended
        .expect("soon")
        .expect("no panic")
        .expect("it has ended");
    stage.ends_with(0, 1).await;
    Some(is_stored)
}

#[tokio::test(start_paused = true)]
async fn a_program_names_activities_whose_results_are_stored_first_or_all() {
    for (policy, is_stored) in [
        (HandOver::WithSpareDispatchers, false),
        (HandOver::Except(vec!["Other".to_owned()]), false),
        (HandOver::Except(vec!["Work".to_owned()]), true),
        (HandOver::Never, true),
    ] {
        let shown = format!("{policy:?}");
        let at_once = or_skip!(stored_at_once(policy).await);
        assert_eq!(at_once, is_stored, "{shown}");
    }
}
