//! Instance ids of every kind of character: exact from end to end, or refused before any write.

use std::collections::BTreeMap;

use duroxide::providers::Provider as _;
use proptest::prelude::{Strategy, any};
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;

use super::{activities, impatient, orchestrations};
use crate::harness::TestEnv;

/// Characters of each class, pairs that fold or normalise to one another, and the separators of our
/// ids.
const ODD: [&str; 36] = [
    "",
    " ",
    " a",
    "a ",
    "\u{a0}a",
    "\u{3000}",
    ".",
    "..",
    "a.",
    "/",
    "\\",
    "?",
    "#",
    "a/b\\c?d#e",
    "%",
    "%2F",
    "%252F",
    "~",
    "~3A",
    ":",
    "::",
    "a:instance",
    "a:history:1:1",
    "|;,",
    "\u{0}",
    "\u{1}\u{1f}\u{7f}\u{85}",
    "\r\n\t",
    "e\u{301}",
    "\u{e9}",
    "\u{202e}abc\u{202c}",
    "\u{5d0}\u{5d1}\u{627}\u{628}",
    "\u{200d}\u{feff}\u{200b}",
    "\u{1f469}\u{200d}\u{1f680}",
    "\u{10ffff}\u{fffe}\u{e000}",
    "\u{df}",
    "'\"`${x}@p0;--",
];

async fn env() -> TestEnv {
    let mut env = TestEnv::without_runtime().await;
    env.join(activities(), orchestrations(), impatient()).await;
    env
}

/// Each id gets its own result, is listed exactly, and is deleted alone.
async fn check(env: &TestEnv, ids: &[String]) {
    let mut expected = BTreeMap::new();
    for id in ids {
        let input = format!("for {id}");
        if expected.insert(id.clone(), input.clone()).is_some() {
            continue;
        }
        let started = env
            .client
            .start_orchestration(&**id, "Session", input)
            .await;
        started.unwrap_or_else(|error| panic!("{id:?} does not start: {error}"));
    }
    for (id, input) in &expected {
        assert_eq!(env.end_of(id).await, Ok(input.clone()), "{id:?}");
    }
    let mut listed = env.client.list_all_instances().await.expect("a list");
    listed.sort();
    assert_eq!(listed, expected.keys().cloned().collect::<Vec<_>>());
    while let Some((id, _)) = expected.pop_first() {
        env.client
            .delete_instance(&id, false)
            .await
            .unwrap_or_else(|e| panic!("{id:?}: {e}"));
        let left = env.client.list_all_instances().await.expect("a list");
        assert_eq!(left.len(), expected.len(), "{id:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ids_of_every_class_of_characters_work_from_end_to_end() {
    let env = env().await;
    let mut ids: Vec<String> = ODD.map(str::to_owned).into();
    // Pairs that an inexact comparison confuses.
    ids.extend(
        [
            "Stra\u{df}e",
            "STRASSE",
            "strasse",
            "\u{130}",
            "i\u{307}",
            "\u{fb01}",
            "fi",
        ]
        .map(str::to_owned),
    );
    // The longest ids: of plain characters and of escaped ones.
    ids.push("x".repeat(891));
    ids.push("\u{1f600}".repeat(222));
    ids.push(":".repeat(297));
    check(&env, &ids).await;
    env.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn random_texts_work_as_ids_from_end_to_end() {
    let env = env().await;
    let text = proptest::collection::vec(any::<char>(), 0..60);
    let text = text.prop_map(String::from_iter);
    let mut runner = TestRunner::default();
    let tree = |runner: &mut TestRunner| text.new_tree(runner).expect("a text").current();
    let ids: Vec<String> = (0..40).map(|_| tree(&mut runner)).collect();
    check(&env, &ids).await;
    env.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_invalid_id_is_refused_before_any_write() {
    let env = env().await;
    for (id, words) in [
        ("x".repeat(892), "choose a shorter instance id"),
        (":".repeat(298), "choose a shorter instance id"),
        ("\u{1f600}".repeat(300), "1023"),
        ("cdb:schema".to_owned(), "reserved for the container"),
        ("cdb:members".to_owned(), "reserved for the container"),
    ] {
        let start = env.client.start_orchestration(&*id, "Echo", "").await;
        let cancel = env.client.cancel_instance(&*id, "").await;
        let event = env.client.raise_event(&*id, "Go", "").await;
        for refused in [start, cancel, event] {
            let error = refused.expect_err("it cannot work").to_string();
            assert!(error.contains(words), "no `{words}` in: {error}");
        }
        let deleted = env.client.delete_instance(&id, true).await;
        assert!(deleted.is_err() || !id.starts_with("cdb:"), "{id}");
    }
    // A child with such an id fails its parent at once, with the same error.
    let child = "x".repeat(2000);
    let error = env
        .run("parent", "Ask", &child)
        .await
        .expect_err("it cannot work");
    let error = error.display_message();
    assert!(error.contains("instance_id"), "{error}");
    env.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_session_whose_document_has_no_valid_id_is_refused() {
    let env = env().await;
    // `{instance}:session:{session}` has at most 1,023 bytes.
    let longest = "s".repeat(1023 - "i:session:".len());
    assert_eq!(env.run("i", "Bind", &longest).await, Ok("bound".to_owned()));
    for session in [format!("{longest}s"), ":".repeat(400), "s".repeat(50_000)] {
        let error = env.run("j", "Bind", &session).await;
        let error = error.expect_err("it cannot work").display_message();
        assert!(error.contains("`session_id`"), "{error}");
        assert!(error.contains("1023"), "{error}");
        assert!(error.len() < 1_000, "{error}");
        let activity = crate::work_items::activity_of("k", 2, Some(&session));
        let refused = env.provider.enqueue_for_worker(activity).await;
        let error = refused.expect_err("it cannot work").to_string();
        assert!(error.contains("`session_id`"), "{error}");
        ok!(env.client.delete_instance("j", false));
    }
    env.stop().await;
}
