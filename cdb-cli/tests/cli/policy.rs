//! `cdb policy`, on containers that match the model and on containers that differ.

use cdb_cli::{Cli, Exit};
use cdb_client::database::ContainerChange;
use cdb_model::container::ContainerDefinition;
use cdb_model::policy::{IncludedPath, IndexingPolicy};
use cdb_model::{Container, Document as _, Query};
use tokio::runtime::Handle;
use tokio::task::block_in_place;

use crate::harness::{Account, cdb, ends, run};
use crate::shop::{Order, Orders, Payment, Shop, shop};

/// The service's default policy.
const DEFAULT: &str = r#"{ "indexingMode": "consistent", "automatic": true, "includedPaths": [{ "path": "/*" }],
    "excludedPaths": [{ "path": "/\"_etag\"/?" }] }"#;

/// A policy with missing and superfluous indexes.
fn changed() -> IndexingPolicy {
    let mut policy = Shop::definition().indexing_policy;
    policy
        .included_paths
        .retain(|path| path.path != "/status/?");
    let superfluous = "/remark/text/?".to_owned();
    policy
        .included_paths
        .push(IncludedPath { path: superfluous });
    policy.composite_indexes.clear();
    policy
}

/// Starts an account with the shop's container.
async fn start() -> Account {
    let account = Account::empty().await;
    account.container::<Shop>().await;
    account
}

async fn set(account: &Account, policy: IndexingPolicy) {
    let change = ContainerChange::default().with_indexing_policy(policy);
    let changed = account
        .database()
        .change_container("duroxide", &change)
        .await;
    changed.expect("the policy is taken");
}

#[tokio::test]
async fn a_policy_is_printed_alone_and_with_the_definition_of_its_container() {
    let shop = Cli::<Shop>::new("duroxide");
    let printed = run(&shop, &["policy", "print"], &[]).await;
    printed.is("policy-print");
    let whole = run(&shop, &["policy", "print", "--definition"], &[]).await;
    whole.is("policy-print-definition");
    let read: ContainerDefinition = serde_json::from_str(&whole.out).expect("a definition");
    assert_eq!(read, Shop::definition());
}

#[tokio::test]
async fn the_printed_policy_equals_the_checked_in_policy() {
    let file = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../provider/indexing-policy.json"
    );
    let printed = cdb("policy print").await;
    assert_eq!(
        printed.out,
        std::fs::read_to_string(file).expect("it is there")
    );
    ends(Exit::Ok, cdb(&["policy", "check", "--file", file])).await;
}

#[tokio::test]
async fn a_container_that_matches_the_model_passes_the_check() {
    let account = start().await;
    account
        .run(&shop(), "policy check")
        .await
        .is("policy-check");
    account
        .run(&shop(), "policy diff")
        .await
        .is("policy-diff-none");
}

#[tokio::test]
async fn a_difference_is_shown_with_its_cost_and_fails_the_check() {
    let account = start().await;
    set(&account, changed()).await;
    account.run(&shop(), "policy diff").await.is("policy-diff");
    account
        .run(&shop(), "policy diff --json")
        .await
        .is("policy-diff-json");
    account
        .run(&shop(), "policy check")
        .await
        .is("policy-check-difference");
    account
        .run(&shop(), "policy apply --dry-run")
        .await
        .is("policy-apply-dry-run");
    let still = account.run(&shop(), "policy check").await;
    assert_eq!(
        still.exit,
        Exit::Finding,
        "a dry run has changed the policy"
    );
}

#[tokio::test]
async fn a_costly_difference_passes_with_breaking_only() {
    let account = start().await;
    let default = serde_json::from_str(DEFAULT).expect("a policy");
    set(&account, default).await;
    account
        .run(&shop(), "policy diff")
        .await
        .is("policy-diff-default");
    let mut costly = Shop::definition().indexing_policy;
    let more = costly.included_paths[0]
        .path
        .replace("settledAt", "createdAt");
    costly.included_paths.push(IncludedPath { path: more });
    set(&account, costly).await;
    assert_eq!(
        account.run(&shop(), "policy check").await.exit,
        Exit::Finding
    );
    let breaking = account.run(&shop(), "policy check --breaking-only").await;
    assert_eq!(breaking.exit, Exit::Ok, "{breaking:?}");
}

/// The shop's container without its unique key.
#[derive(Container)]
enum Payments {
    Payment(Payment),
}

/// Unique keys cannot be changed (https://learn.microsoft.com/azure/cosmos-db/unique-keys).
#[tokio::test]
async fn other_unique_keys_are_a_breaking_difference_that_apply_refuses() {
    let account = Account::empty().await;
    account.container::<Payments>().await;
    for command in ["policy check --breaking-only", "policy check"] {
        let checked = ends(Exit::Finding, account.run(&shop(), command)).await;
        checked.prints("a container cannot be changed in all of these respects");
        checked.prints(r#"! its unique keys lack [["/number"]]"#);
    }
    let applied = ends(Exit::Finding, account.run(&shop(), "policy apply --yes")).await;
    applied.complains("unique keys cannot be changed, use another container");
    assert!(!applied.out.contains("100 %"), "{applied:?}");
}

#[tokio::test]
async fn apply_replaces_the_policy_and_waits_for_the_index() {
    let account = start().await;
    set(&account, changed()).await;
    let added = account.run(&shop(), "policy apply --add-only").await;
    added.prints("`/remark/text/?` is indexed and no query of the model needs it");
    assert!(!added.out.contains("missing"), "{added:?}");
    set(&account, changed()).await;
    let applied = ends(Exit::Ok, account.run(&shop(), "policy apply --yes")).await;
    applied.is("policy-apply");
    assert_eq!(account.run(&shop(), "policy check").await.exit, Exit::Ok);
}

#[tokio::test]
async fn a_missing_container_is_created_with_create() {
    let account = Account::empty().await;
    let missing = ends(Exit::Service, account.run(&shop(), "policy check")).await;
    missing.complains("does not exist");
    let planned = account
        .run(&shop(), "policy apply --create --dry-run")
        .await;
    assert_eq!(planned.exit, Exit::Finding, "{planned:?}");
    planned.prints("does not exist; would create it for Shop");
    let still = account.run(&shop(), "policy check").await;
    still.complains("does not exist");
    let created = ends(Exit::Ok, account.run(&shop(), "policy apply --create")).await;
    created.prints("was created for Shop");
    let again = account.run(&shop(), "policy apply --create").await;
    assert!(!again.out.contains("created"), "{again:?}");
}

#[tokio::test]
async fn remedies_name_the_program_that_was_called() {
    let account = Account::empty().await;
    let endpoint = account.emulator.endpoint();
    let (mut out, mut err) = (Vec::new(), Vec::new());
    let missing = ["/opt/bin/shop", "policy", "check", "--endpoint", &endpoint];
    let exit = shop().run_with(missing, &mut out, &mut err).await;
    let said = String::from_utf8(err).expect("text");
    assert_eq!(exit, Exit::Service, "{said}");
    assert!(
        said.starts_with("shop: ") && said.contains("create it: shop policy apply --create"),
        "{said}"
    );
    let (mut out, mut err) = (Vec::new(), Vec::new());
    let doctor = ["/opt/bin/shop", "doctor", "--endpoint", &endpoint];
    shop().run_with(doctor, &mut out, &mut err).await;
    let said = String::from_utf8(out).expect("text");
    assert!(
        said.contains("create it: shop policy apply --create"),
        "{said}"
    );
}

#[tokio::test]
async fn apply_changes_a_time_to_live_with_time_to_live_only() {
    let account = start().await;
    let change = ContainerChange::default().with_default_ttl(None);
    ok!(account.database().change_container("duroxide", &change));
    ends(Exit::Finding, account.run(&shop(), "policy apply")).await;
    let with = account.run(&shop(), "policy apply --time-to-live").await;
    assert_eq!(with.exit, Exit::Ok, "{with:?}");
}

#[tokio::test]
async fn a_different_partition_key_cannot_be_applied() {
    let account = start().await;
    let refused = ends(Exit::Finding, account.cdb("policy apply")).await;
    refused.complains("a partition key cannot be changed");
}

#[tokio::test]
async fn diff_lists_the_affected_queries_of_the_program() {
    let file = tempfile::NamedTempFile::new().expect("a file");
    let without_status = r#"{ "indexingMode": "consistent", "includedPaths": [], "excludedPaths": [{ "path": "/*" }] }"#;
    std::fs::write(&file, without_status).expect("it is written");
    let file = file.path().display().to_string();
    let cli = Cli::<Orders>::new("duroxide").query(
        "orders to send",
        Query::<Order>::across_partitions().filter(Order::STATUS.eq("paid")),
    );
    let run = run(&cli, &["policy", "diff", "--file", &file], &[]).await;
    assert_eq!(run.exit, Exit::Finding);
    run.prints(
        "indexed:\n  Order by status\n  Order by total_cents\n  Order by tags\n  orders to send\n",
    );
}

#[tokio::test]
async fn apply_does_not_remove_indexes_of_another_program_unasked() {
    let account = Account::empty().await;
    let container = account.container::<Shop>().await;
    ok!(container.run(Payment::example().create()));
    let before = container_policy(&account).await;
    let cli = Cli::<Orders>::new("duroxide");
    account
        .run(&cli, "policy apply --dry-run")
        .await
        .is("policy-apply-removal-dry-run");
    account
        .run(&cli, "policy apply")
        .await
        .is("policy-apply-removal");
    assert_eq!(container_policy(&account).await, before);
    account.run(&cli, "policy apply --yes").await;
    assert_ne!(container_policy(&account).await, before);
}

#[tokio::test]
async fn apply_removes_no_index_without_yes() {
    let account = start().await;
    let mut live = Shop::definition().indexing_policy;
    live.included_paths.push(IncludedPath {
        path: "/remark/?".to_owned(),
    });
    set(&account, live).await;
    let run = ends(Exit::Usage, account.run(&shop(), "policy apply")).await;
    run.prints("removes these indexes:\n  /remark/?\n");
    assert!(!run.out.contains("other programs, whose"), "{run:?}");
    let json = account.run(&shop(), "policy apply --dry-run --json").await;
    json.prints("\"removal\"");
}

/// Standard error of a command. Its first line lets another program add an index.
struct Meanwhile<'a>(Option<&'a Account>);

impl std::io::Write for Meanwhile<'_> {
    fn write(&mut self, text: &[u8]) -> std::io::Result<usize> {
        if let Some(account) = self.0.take() {
            let change = async {
                let mut policy = container_policy(account).await;
                policy.included_paths.push(IncludedPath {
                    path: "/other/?".to_owned(),
                });
                set(account, policy).await;
            };
            block_in_place(|| Handle::current().block_on(change));
        }
        Ok(text.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn apply_keeps_an_index_that_another_program_adds_meanwhile() {
    let account = start().await;
    let (endpoint, key) = (account.emulator.endpoint(), account.emulator.key());
    for (option, expected) in [("--add-only", Exit::Ok), ("--yes", Exit::Finding)] {
        set(&account, changed()).await;
        let apply = ["cdb", "policy", "apply", option];
        let account_of = ["--endpoint", &endpoint, "--key", key];
        let container = ["--database", "duroxide", "--container", "duroxide"];
        let arguments = [apply, account_of, container].concat();
        let (mut out, mut meanwhile) = (Vec::new(), Meanwhile(Some(&account)));
        let exit = shop().run_with(arguments, &mut out, &mut meanwhile).await;
        assert!(meanwhile.0.is_none(), "it has shown the change");
        let policy = container_policy(&account).await;
        let has = |path: &str| policy.included_paths.iter().any(|known| known.path == path);
        assert!(has("/other/?"), "{option}: {policy:?}");
        assert_eq!(has("/status/?"), option == "--add-only", "{policy:?}");
        assert_eq!(exit, expected, "{option}");
    }
}

/// Returns the live policy.
async fn container_policy(account: &Account) -> IndexingPolicy {
    let definition = account.database().definition::<Shop>("duroxide").await;
    definition.expect("it is read").indexing_policy
}
