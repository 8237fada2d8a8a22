//! The emulator's promises, kept to Microsoft's client for Python (`azure-cosmos`).
//!
//! The promises are functions of `python/promises.py`, each a test here under the same name. The
//! client is installed into a virtual environment below the target directory, once. Where that
//! cannot be done, the tests say so and pass: a machine without Python or without a network must be
//! able to run the rest.

use std::collections::BTreeSet;
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use cdb_emulator::{Emulator, Settings};

macro_rules! promises {
    ($($name:ident,)*) => {
        const NAMES: &[&str] = &[$(stringify!($name)),*];
        $(
            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $name() {
                hold(stringify!($name)).await;
            }
        )*
    };
}

promises! {
    databases_are_created_listed_and_deleted,
    a_container_keeps_its_definition,
    a_policy_is_replaced,
    throughput_is_changed,
    a_document_is_created_read_replaced_and_deleted,
    a_conditional_write_applies_only_to_the_version_read,
    a_patch_changes_what_it_names_when_its_condition_holds,
    a_batch_is_atomic,
    one_partition_answers_the_whole_dialect,
    sorts_of_all_partitions_are_merged,
    aggregates_of_all_partitions_add_up,
    the_rest_of_the_dialect_works_over_all_partitions,
    queries_the_client_cannot_merge_are_refused_with_the_service_s_message,
    pages_have_the_size_that_is_asked_for,
    many_documents_are_read_at_once,
    the_change_feed_resumes_from_its_token,
    the_physical_partitions_share_the_documents,
    keys_of_several_levels_name_documents_and_prefixes,
    a_query_tells_what_it_cost,
}

fn script() -> PathBuf {
    cdb_sdk_tests::source("python/promises.py")
}

#[test]
fn every_promise_of_the_script_is_a_test() {
    let text = fs::read_to_string(script()).expect("the script can be read");
    let after = text.split("@promise\ndef ").skip(1);
    let written: BTreeSet<&str> = after.filter_map(|rest| rest.split('(').next()).collect();
    assert_eq!(written, NAMES.iter().copied().collect());
}

/// Runs a promise against an emulator of its own.
async fn hold(name: &str) {
    run(Emulator::builder(), name).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_client_accepts_the_emulator_s_certificate() {
    run(
        Emulator::builder().tls(true),
        "sorts_of_all_partitions_are_merged",
    )
    .await;
}

async fn run(emulator: Settings, name: &str) {
    static PYTHON: OnceLock<Result<PathBuf, String>> = OnceLock::new();
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let install = || cdb_sdk_tests::python(folder, "azure-cosmos", "python/requirements.txt");
    let python = match PYTHON.get_or_init(|| install().inspect_err(|reason| skipped(reason))) {
        Ok(python) => python.clone(),
        Err(_) => return,
    };
    let emulator = emulator
        .physical_partitions(3)
        .start()
        .await
        .expect("it starts");
    let mut command = Command::new(python);
    command
        .arg(script())
        .args([&emulator.endpoint(), emulator.key(), name]);
    if let Some(certificate) = emulator.certificate_pem() {
        let file = Path::new(env!("CARGO_TARGET_TMPDIR")).join("emulator.pem");
        fs::write(&file, certificate).expect("the target directory can be written");
        command.env("REQUESTS_CA_BUNDLE", file);
    }
    let ran = tokio::task::spawn_blocking(move || command.output())
        .await
        .expect("no panic");
    let ran = ran.expect("Python starts");
    assert!(ran.status.success(), "{}", text(&ran.stderr));
    assert_eq!(text(&ran.stdout).trim(), name);
}

/// Past the capture of a test that passes, which would hide it.
fn skipped(reason: &str) {
    let message = format!("\nSKIPPED: Microsoft's client for Python was not tested: {reason}\n\n");
    std::io::stderr()
        .write_all(message.as_bytes())
        .expect("stderr is open");
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}
