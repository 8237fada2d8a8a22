//! `cdb model`.

use crate::harness::{cdb, run};
use crate::shop::shop;

#[tokio::test]
async fn the_model_is_printed_as_text_json_and_diagram() {
    run(&shop(), &["model"], &[]).await.is("model");
    run(&shop(), &["model", "--diagram", "mermaid"], &[])
        .await
        .is("model-mermaid");
    run(&shop(), &["model", "--diagram", "svg"], &[])
        .await
        .is("model-svg");
    let run = cdb(&["model", "--json"]).await;
    assert!(
        run.out.contains("\"partitionKey\": [\n    \"/instanceId\""),
        "{run:?}"
    );
}

#[tokio::test]
async fn the_policy_of_the_model_serves_each_of_its_queries() {
    let run = cdb(&["model"]).await;
    assert!(
        !run.out.contains("scanned") && !run.out.contains("refused"),
        "{}",
        run.out
    );
}
