//! `cdb instances`, on the orchestrations of the fixture.

use cdb_cli::{Cli, Exit};
use cdb_provider::documents::Status;

use crate::fixture::{fill, instance};
use crate::harness::Account;
use crate::shop::Shop;

#[tokio::test]
async fn instances_are_listed_shown_and_told_as_history_and_tree() {
    let account = Account::start().await;
    fill(&account).await;
    account
        .cdb(&["instances", "list"])
        .await
        .is("instances-list");
    account
        .cdb(&["instances", "list", "--json", "--status", "failed"])
        .await
        .is("instances-list-json");
    account
        .cdb(&["instances", "show", "order-2"])
        .await
        .is("instances-show");
    account
        .cdb(&["instances", "history", "order-2"])
        .await
        .is("instances-history");
    account
        .cdb(&["instances", "tree", "order-2"])
        .await
        .is("instances-tree");
}

#[tokio::test]
async fn filters_narrow_the_list() {
    let account = Account::start().await;
    fill(&account).await;
    for (filter, found) in [
        (
            &["--status", "running"][..],
            &["order-2", "order-2::sub::4"][..],
        ),
        (
            &["--status", "completed", "--status", "failed"],
            &["order-1", "order-3"],
        ),
        (&["--parent", "order-2"], &["order-2::sub::4"]),
        (&["--match", "Ship"], &["order-2::sub::4"]),
        (&["--match", "order-3"], &["order-3"]),
        (&["--newer-than", "1s"], &[]),
        (&["--older-than", "1s", "--status", "failed"], &["order-3"]),
    ] {
        let run = account
            .cdb(&[&["instances", "list"], filter].concat())
            .await;
        assert_eq!(run.exit, Exit::Ok, "{run:?}");
        for id in ["order-1", "order-2", "order-3", "order-2::sub::4"] {
            let listed = run
                .out
                .lines()
                .any(|line| line.ends_with(&format!("  {id}")));
            assert_eq!(listed, found.contains(&id), "{filter:?} {id}: {}", run.out);
        }
    }
}

#[tokio::test]
async fn pages_follow_each_other_without_gap_or_repetition() {
    let account = Account::start().await;
    let container = fill(&account).await;
    for number in 0..20 {
        // Created at the same moment, so that only the continuation tells them apart.
        let same = instance(&format!("same-{number}"), "Same", Status::Completed, 500);
        container.create(&same).await.expect("an instance");
    }
    let (mut seen, mut from) = (Vec::new(), None::<String>);
    loop {
        let more = from.iter().flat_map(|from| ["--from", from]);
        let arguments: Vec<&str> = ["instances", "list", "--limit", "7"]
            .into_iter()
            .chain(more)
            .collect();
        let run = account.cdb(&arguments).await;
        assert_eq!(run.exit, Exit::Ok, "{run:?}");
        let rows = run.out.lines().filter(|line| line.starts_with("2026-"));
        seen.extend(
            rows.filter_map(|row| row.split_whitespace().next_back())
                .map(str::to_owned),
        );
        let next = run
            .out
            .lines()
            .find_map(|line| line.strip_prefix("more: --from "))
            .map(str::to_owned);
        if next.is_none() {
            break;
        }
        from = next;
    }
    assert_eq!(seen.len(), 24, "{seen:?}");
    seen.sort();
    seen.dedup();
    assert_eq!(seen.len(), 24, "some were listed twice");
}

#[tokio::test]
async fn an_instance_that_is_not_there_is_a_finding() {
    let account = Account::start().await;
    for command in ["show", "history", "tree"] {
        let run = account.cdb(&["instances", command, "nobody"]).await;
        assert_eq!(run.exit, Exit::Finding, "{run:?}");
        assert!(run.err.contains("there is no instance `nobody`"), "{run:?}");
    }
    let run = account
        .cdb(&["instances", "raise", "nobody", "Approved"])
        .await;
    assert_eq!(run.exit, Exit::Finding, "{run:?}");
}

#[tokio::test]
async fn what_cannot_be_undone_is_shown_first_and_done_with_yes() {
    let account = Account::start().await;
    let container = fill(&account).await;
    account
        .cdb(&["instances", "delete", "order-1", "order-3"])
        .await
        .is("instances-delete-without-yes");
    let looked = account
        .cdb(&["instances", "delete", "--ended-before", "1h", "--dry-run"])
        .await;
    looked.is("instances-delete-dry-run");
    assert!(
        container
            .read(&cdb_provider::documents::InstanceKey::new("order-1"))
            .await
            .unwrap()
            .is_some()
    );
    account
        .cdb(&["instances", "delete", "order-1", "--yes"])
        .await
        .is("instances-delete");
    let left = account
        .cdb(&["instances", "delete", "--ended-before", "1h", "--yes"])
        .await;
    assert_eq!(left.exit, Exit::Ok, "{left:?}");
    let listed = account.cdb(&["instances", "list"]).await;
    assert!(
        !listed.out.contains("order-1") && !listed.out.contains("order-3"),
        "{listed:?}"
    );
    account
        .cdb(&["instances", "prune", "order-2", "--yes"])
        .await
        .is("instances-prune");
}

#[tokio::test]
async fn a_running_instance_is_deleted_by_force_only() {
    let account = Account::start().await;
    fill(&account).await;
    let refused = account
        .cdb(&["instances", "delete", "order-2", "--yes"])
        .await;
    assert_ne!(refused.exit, Exit::Ok, "{refused:?}");
    let forced = account
        .cdb(&["instances", "delete", "order-2", "--yes", "--force"])
        .await;
    assert_eq!(forced.exit, Exit::Ok, "{forced:?}");
}

#[tokio::test]
async fn cancelling_and_raising_queue_a_message() {
    let account = Account::start().await;
    fill(&account).await;
    account
        .cdb(&["instances", "cancel", "order-2", "--dry-run"])
        .await
        .is("instances-cancel-dry-run");
    account
        .cdb(&[
            "instances",
            "cancel",
            "order-2",
            "--yes",
            "--reason",
            "no stock",
        ])
        .await
        .is("instances-cancel");
    account
        .cdb(&["instances", "raise", "order-2", "Approved", "yes"])
        .await
        .is("instances-raise");
    let shown = account.cdb(&["instances", "show", "order-2"]).await;
    assert!(
        shown.out.contains("message: CancelInstance: no stock, "),
        "{shown:?}"
    );
    assert_eq!(
        shown
            .out
            .matches("message: ExternalRaised Approved")
            .count(),
        2,
        "{shown:?}"
    );
}

#[tokio::test]
async fn a_container_without_orchestrations_says_how_it_could_hold_them() {
    let account = Account::empty().await;
    let run = account
        .run(&Cli::<Shop>::new(), &["instances", "list"])
        .await;
    assert_eq!(run.exit, Exit::Usage, "{run:?}");
    assert!(
        run.err.contains("`Shop` holds no orchestrations"),
        "{run:?}"
    );
}
