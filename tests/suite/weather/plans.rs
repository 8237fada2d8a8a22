//! What may go wrong while queued events are sent and taken.

use super::events::{CALM, Plan, torture};

async fn torture_all(plans: impl IntoIterator<Item = Plan>) {
    let mut wrong = Vec::new();
    let only: Option<u64> = std::env::var("SEED")
        .ok()
        .map(|seed| seed.parse().expect("a number"));
    for plan in plans {
        if only.is_none_or(|seed| seed == plan.seed) {
            wrong.extend(torture(plan).await);
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

fn seeds(plan: Plan) -> impl Iterator<Item = Plan> {
    (1..=4).map(move |seed| Plan { seed, ..plan })
}

#[tokio::test(start_paused = true)]
async fn calm() {
    torture_all([CALM, Plan { own: true, ..CALM }]).await;
}

#[tokio::test(start_paused = true)]
#[ignore = "a search of minutes"]
async fn lost_answers() {
    torture_all(seeds(Plan { lost: 0.05, ..CALM })).await;
}

#[tokio::test(start_paused = true)]
#[ignore = "a search of minutes"]
async fn faults_and_kills() {
    torture_all(seeds(Plan {
        faults: 0.15,
        kills: true,
        ..CALM
    }))
    .await;
}

#[tokio::test(start_paused = true)]
#[ignore = "a search of minutes"]
async fn own_and_zombies() {
    torture_all(seeds(Plan {
        own: true,
        zombies: true,
        kills: true,
        ..CALM
    }))
    .await;
}

#[tokio::test(start_paused = true)]
#[ignore = "a search of minutes"]
async fn freezes() {
    torture_all(seeds(Plan {
        freezes: true,
        kills: true,
        ..CALM
    }))
    .await;
}

#[tokio::test(start_paused = true)]
#[ignore = "a search of minutes"]
async fn freezes_and_faults() {
    torture_all(seeds(Plan {
        freezes: true,
        faults: 0.1,
        own: true,
        ..CALM
    }))
    .await;
}

#[tokio::test(start_paused = true)]
#[ignore = "a search of minutes"]
async fn copies() {
    torture_all(seeds(Plan {
        copies: true,
        faults: 0.3,
        ..CALM
    }))
    .await;
}

#[tokio::test(start_paused = true)]
#[ignore = "a search of minutes"]
async fn pauses() {
    torture_all(seeds(Plan {
        pauses: true,
        lost: 0.03,
        kills: true,
        ..CALM
    }))
    .await;
}

#[tokio::test(start_paused = true)]
#[ignore = "a search of minutes"]
async fn late_starts() {
    torture_all(seeds(Plan {
        late_start: true,
        faults: 0.1,
        lost: 0.03,
        ..CALM
    }))
    .await;
}

#[tokio::test(start_paused = true)]
#[ignore = "a search of minutes"]
async fn large_events() {
    let plan = Plan {
        large: 1_400_000,
        events: 40,
        ..CALM
    };
    torture_all(
        seeds(Plan {
            kills: true,
            lost: 0.03,
            ..plan
        })
        .take(2),
    )
    .await;
    torture_all(
        seeds(Plan {
            own: true,
            zombies: true,
            ..plan
        })
        .take(2),
    )
    .await;
}

#[tokio::test(start_paused = true)]
#[ignore = "a search of minutes"]
async fn many_partitions() {
    let plan = Plan {
        partitions: 4,
        ..CALM
    };
    torture_all(seeds(Plan {
        own: true,
        faults: 0.1,
        kills: true,
        zombies: true,
        pauses: true,
        ..plan
    }))
    .await;
}

#[tokio::test(start_paused = true)]
#[ignore = "a search of minutes"]
async fn a_thousand_events() {
    let plan = Plan {
        events: 500,
        ..CALM
    };
    torture_all([
        plan,
        Plan {
            own: true,
            kills: true,
            faults: 0.05,
            seed: 2,
            ..plan
        },
    ])
    .await;
}

#[tokio::test(start_paused = true)]
#[ignore = "a search of minutes"]
async fn holds() {
    torture_all(seeds(Plan {
        holds: true,
        kills: true,
        lost: 0.02,
        ..CALM
    }))
    .await;
}
