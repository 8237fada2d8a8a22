//! `cdb model`.

use std::path::{Path, PathBuf};

use cdb_cli::Exit;

use crate::harness::{Run, cdb, ends, run};
use crate::shop::shop;

#[tokio::test]
async fn the_model_is_printed_as_text_json_and_diagram() {
    run(&shop(), "model", &[]).await.is("model");
    run(&shop(), "model --diagram mermaid", &[])
        .await
        .is("model-mermaid");
    let run = cdb("model --json").await;
    run.prints("\"partitionKey\": [\n    \"/instanceId\"");
}

#[tokio::test]
async fn the_policy_of_the_model_serves_each_of_its_queries() {
    let run = cdb("model").await;
    assert!(
        !run.out.contains("scanned") && !run.out.contains("refused"),
        "{}",
        run.out
    );
}

/// The answer of `model --json` of the shop, after a change of its text.
async fn earlier(name: &str, changes: &[(&str, &str)]) -> PathBuf {
    let described = run(&shop(), "model --json", &[]).await;
    let mut text = described.out;
    for (now, then) in changes {
        assert!(text.contains(now), "{now} is in {text}");
        text = text.replacen(now, then, 1);
    }
    let file = std::env::temp_dir().join(format!("cdb-model-{name}-{}", std::process::id()));
    std::fs::write(&file, text).expect("a file");
    file
}

async fn diff(file: &Path) -> Run {
    let compared = run(
        &shop(),
        &["model", "diff", file.to_str().expect("UTF-8")],
        &[],
    )
    .await;
    std::fs::remove_file(file).expect("it exists");
    compared
}

#[tokio::test]
async fn safe_changes_since_an_earlier_build_are_listed() {
    let file = earlier("same", &[]).await;
    let same = ends(Exit::Ok, diff(&file)).await;
    assert_eq!(same.out, "0 changes, 0 of them breaking\n");
    let renamed = ("\"path\": \"/settledAt\"", "\"path\": \"/paidAt\"");
    let file = earlier("safe", &[renamed]).await;
    let changed = ends(Exit::Ok, diff(&file)).await;
    for line in [
        "ok      `payment`: optional field /settledAt is new: stored documents lack it",
        "ok      `payment`: /settledAt is indexed: `policy apply` adds the index",
        "ok      `payment`: field /paidAt is removed: its values are lost",
        "3 changes, 0 of them breaking",
    ] {
        assert!(changed.out.contains(line), "{line} is in {}", changed.out);
    }
}

/// Compares the shop with an earlier build, in whose description `then` stands instead of `now`.
async fn breaks(name: &str, now: &str, then: &str, line: &str) {
    let breaking = ends(Exit::Finding, diff(&earlier(name, &[(now, then)]).await)).await;
    breaking.prints(&format!("breaks  {line}"));
}

#[tokio::test]
async fn removed_indexes_and_changed_keys_since_an_earlier_build_fail() {
    for (name, now, then, line) in [
        (
            "unique",
            "\"/number\"\n",
            "\"/remark\"\n",
            "the set of unique keys changes from [(/remark)] to [(/number)]",
        ),
        (
            "composite",
            "\"/type\",",
            "\"/customer\",",
            "`order`: composite index (/customer, /totalCents) is removed",
        ),
        (
            "optional",
            "\"path\": \"/settledAt\",\n          \"indexing\": \"indexed\",\n          \"optional\": true",
            "\"path\": \"/settledAt\",\n          \"indexing\": \"indexed\",\n          \"optional\": false",
            "`payment`: field /settledAt is optional now",
        ),
    ] {
        breaks(name, now, then, line).await;
    }
    // The answer of a command that did not describe unique keys.
    let file = earlier("without", &[("\"uniqueKeys\"", "\"other\"")]).await;
    let same = diff(&file).await;
    assert_eq!(same.out, "0 changes, 0 of them breaking\n");
}

#[tokio::test]
async fn breaking_changes_since_an_earlier_build_fail() {
    for (name, now, then, line) in [
        (
            "key",
            "\"/customer\"\n  ]",
            "\"/tenant\"\n  ]",
            "the partition key changes from /tenant to /customer",
        ),
        (
            "id",
            "\"order:{number}\"",
            "\"{number}\"",
            "`order`: the id pattern changes from {number} to order:{number}",
        ),
        (
            "type",
            "\"discriminator\": \"payment\"",
            "\"discriminator\": \"pay\"",
            "type `pay` is removed or renamed",
        ),
        (
            "field",
            "\"path\": \"/remark\"",
            "\"path\": \"/note\"",
            "`order`: required field /remark is new",
        ),
        (
            "version",
            "\"expires\": false",
            "\"expires\": false, \"version\": 3",
            "`order`: version 3 is removed or reduced",
        ),
    ] {
        breaks(name, now, then, line).await;
    }
    let file = std::env::temp_dir().join(format!("cdb-model-none-{}", std::process::id()));
    std::fs::write(&file, "{}").expect("a file");
    let refused = diff(&file).await;
    refused.complains("is not an answer of `model --json`");
    let args = ["model", "diff", file.to_str().expect("UTF-8")];
    let missing = run(&shop(), &args, &[]).await;
    missing.complains(&format!("cannot read {}: ", file.display()));
}
