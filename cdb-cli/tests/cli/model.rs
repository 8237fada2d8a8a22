//! `cdb model`.

use crate::harness::{cdb, run};
use crate::shop::shop;

#[tokio::test]
async fn the_model_is_shown_as_text_as_json_and_as_a_diagram() {
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
async fn every_query_of_the_model_is_served_by_its_policy() {
    let run = cdb(&["model"]).await;
    assert!(
        !run.out.contains("one by one") && !run.out.contains("refused"),
        "{}",
        run.out
    );
}
