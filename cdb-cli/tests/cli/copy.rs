//! `cdb export` and `cdb import`.

use std::path::{Path, PathBuf};
use std::time::Duration;

use cdb_cli::Exit;
use cdb_client::ContainerClient;
use cdb_emulator::{Effect, Fault, OperationKind};
use cdb_provider::CosmosDBProviderConfig;
use cdb_provider::documents::Durable;
use duroxide::Client;
use serde_json::Value;
use tempfile::TempDir;

use crate::fixture::fill;
use crate::harness::{Account, Run, cdb, ends};
use crate::orchestration::start;

pub(crate) async fn export(account: &Account, file: &Path, more: &[&str]) -> Run {
    let file = file.to_str().expect("UTF-8");
    account
        .cdb(&[&["export", "--out", file], more].concat())
        .await
}

pub(crate) async fn import(account: &Account, file: &Path, more: &[&str]) -> Run {
    let file = file.to_str().expect("UTF-8");
    account.cdb(&[&["import", file], more].concat()).await
}

/// The lines of a file, in an order that does not depend on the partitions.
pub(crate) fn lines(file: &Path) -> Vec<String> {
    let text = std::fs::read_to_string(file).expect("an export");
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    lines.sort();
    lines
}

/// A document that the model does not know, with numbers and text in unusual spelling.
const FOREIGN: &str =
    r#"{"z":1.5,"instanceId":"other","id":"foreign","a":{"empty":{},"text":"\u00e9 \"quoted\""}}"#;

async fn add_foreign(container: &ContainerClient<Durable>) {
    let added = container.upsert_json(&"other".into(), FOREIGN).await;
    added.expect("a document of another program");
}

#[tokio::test]
async fn a_missing_file_is_reported_before_a_connection_is_needed() {
    let run = ends(Exit::Usage, cdb("import missing.jsonl")).await;
    run.complains("cannot read missing.jsonl");
}

#[tokio::test]
async fn a_container_is_the_same_after_export_import_and_export() {
    let folder = tempfile::tempdir().expect("a folder");
    let (first, second) = (folder.path().join("first"), folder.path().join("second"));
    let account = Account::start().await;
    add_foreign(&fill(&account).await).await;
    let exported = export(&account, &first, &[]).await;
    assert!(exported.out.starts_with("exported "), "{exported:?}");
    assert_eq!(exported.err, "", "the answer reports the only page");
    let other = Account::empty().await;
    let imported = ends(Exit::Ok, import(&other, &first, &["--create"])).await;
    assert_eq!(imported.err, "", "the answer reports the only chunk");
    export(&other, &second, &[]).await;
    let documents = lines(&first);
    assert_eq!(documents, lines(&second));
    assert!(documents.len() > 10, "{documents:?}");
    assert!(
        documents.iter().all(|line| !line.contains("_etag")),
        "{documents:?}"
    );
    let progress = folder.path().join("first.progress");
    assert!(!progress.exists(), "the export is complete");
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt as _;
        let mode = std::fs::metadata(&first).expect("it exists").permissions();
        assert_eq!(mode.mode() & 0o777, 0o600, "others read the export");
    }
    // Standard output has the same lines.
    let mut printed: Vec<String> = account
        .cdb("export")
        .await
        .out
        .lines()
        .map(str::to_owned)
        .collect();
    printed.sort();
    assert_eq!(printed, documents);
}

#[tokio::test]
async fn the_file_of_another_container_is_refused_before_a_container_is_created() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("lines");
    std::fs::write(&file, r#"{"id":"visit","clinic":"north"}"#).expect("a file");
    let account = Account::empty().await;
    let refused = ends(Exit::Usage, import(&account, &file, &["--create"])).await;
    refused.complains(
        "no document of the first 1 line has the container's partition key, /instanceId",
    );
    let checked = account.cdb("export").await;
    assert_eq!(
        checked.exit,
        Exit::Service,
        "nothing was created: {checked:?}"
    );
    let forced = import(&account, &file, &["--create", "--without-key"]).await;
    assert_eq!(forced.exit, Exit::Ok, "{forced:?}");
    account.cdb("export").await.prints("north");
}

#[tokio::test]
async fn an_interrupted_import_says_where_to_continue() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("lines");
    let document = |number: usize| format!(r#"{{"id":"{number}","instanceId":"a"}}"#);
    let mut lines: Vec<String> = (0..2_500).map(document).collect();
    lines[2_200] = r#"{"id":"x","instanceId":["a"]}"#.to_owned();
    std::fs::write(&file, lines.join("\n")).expect("a file");
    let account = Account::start().await;
    let failed = ends(Exit::Usage, import(&account, &file, &[])).await;
    for text in [
        "continue with --skip 2000",
        "line 2201: the document `x` has an object or an array at /instanceId",
    ] {
        assert!(failed.err.contains(text), "{text}: {failed:?}");
    }
    lines[2_200] = document(2_200);
    std::fs::write(&file, lines.join("\n")).expect("a file");
    let imported = import(&account, &file, &["--skip", "2000", "--max-rus", "1000000"]).await;
    assert!(
        imported.out.starts_with("imported 500 documents for "),
        "{imported:?}"
    );
    let printed = account.cdb("export").await;
    assert_eq!(printed.out.lines().count(), 2_500);
}

#[tokio::test]
async fn an_error_of_an_import_names_the_file_and_the_line() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("lines");
    let account = Account::start().await;
    let sound = r#"{"id":"1","instanceId":"a"}"#;
    for (third, expected) in [
        (
            br#"{"id":"2","instanceId":"a""#.as_slice(),
            "line 3, column 26: not a JSON document: EOF while parsing an object; write one document per line",
        ),
        (b"[", "line 3, column 1: not a JSON document: EOF"),
        (
            b"[1]",
            "line 3: the line is an array, and not a JSON object",
        ),
        (br#"{"instanceId":"a"}"#, "line 3: the document has no id"),
        (
            b"{\"id\":\"\xff\"}",
            "line 3, byte 8: not UTF-8; save the file as UTF-8",
        ),
    ] {
        let content = [format!("{sound}\n\r\n").as_bytes(), third, b"\n"].concat();
        std::fs::write(&file, content).expect("a file");
        let failed = ends(Exit::Usage, import(&account, &file, &[])).await;
        failed.complains(&format!("{}: {expected}", file.display()));
    }
    std::fs::write(&file, sound).expect("a file");
    let fault = Fault::once(Effect::error(400, 0)).on(OperationKind::Upsert);
    account.emulator.inject(fault);
    let failed = ends(Exit::Service, import(&account, &file, &[])).await;
    failed.complains(&format!("{}: line 1: document `1`: ", file.display()));
    let directory = ends(Exit::Usage, import(&account, folder.path(), &[])).await;
    directory.complains(&format!("cannot read {}: ", folder.path().display()));
}

/// Editors write one at the beginning of a file.
#[tokio::test]
async fn a_byte_order_mark_is_not_part_of_the_first_document() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("lines");
    std::fs::write(&file, "\u{feff}{\"id\":\"1\",\"instanceId\":\"a\"}\r\n").expect("a file");
    let account = Account::start().await;
    let imported = ends(Exit::Ok, import(&account, &file, &[])).await;
    assert!(
        imported.out.starts_with("imported 1 document "),
        "{imported:?}"
    );
}

#[tokio::test]
async fn skipping_more_lines_than_the_file_has_is_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("lines");
    std::fs::write(&file, "{\"id\":\"1\",\"instanceId\":\"a\"}\n").expect("a file");
    let account = Account::start().await;
    let refused = ends(Exit::Usage, import(&account, &file, &["--skip", "2"])).await;
    refused.complains(&format!(
        "{} has 1 line, so --skip 2 skips all; give the number that the interrupted import reported",
        file.display()
    ));
    // The interrupted import has written all lines.
    ends(Exit::Ok, import(&account, &file, &["--skip", "1"])).await;
}

/// The state of an export after one page, and half a line more.
pub(crate) struct Interrupted {
    pub(crate) folder: TempDir,
    account: Account,
    /// The output of a whole export.
    whole: String,
    pub(crate) progress: Value,
}

impl Interrupted {
    pub(crate) async fn start() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let account = Account::start().await;
        let container = fill(&account).await;
        let mut feed = container
            .change_feed(cdb_client::feed::FeedStart::Beginning)
            .page_size(5);
        let page = feed.next_documents().await.expect("a page");
        let whole = account.cdb("export").await.out;
        let kept: String = whole.split_inclusive('\n').take(page.len()).collect();
        let progress = serde_json::json!({
            "endpoint": account.emulator.endpoint(), "database": "duroxide", "container": "duroxide",
            "documents": page.len(), "bytes": kept.len(), "cursor": feed.cursor(),
        });
        let this = Self {
            folder,
            account,
            whole,
            progress,
        };
        std::fs::write(this.file(), format!("{kept}{{\"id\":")).expect("a file");
        this.write_progress(&this.progress);
        this
    }

    pub(crate) fn file(&self) -> PathBuf {
        self.folder.path().join("lines")
    }

    pub(crate) fn progress_file(&self) -> PathBuf {
        self.folder.path().join("lines.progress")
    }

    pub(crate) fn write_progress(&self, progress: &Value) {
        std::fs::write(self.progress_file(), progress.to_string()).expect("a file");
    }

    pub(crate) async fn export(&self, more: &[&str]) -> Run {
        export(&self.account, &self.file(), more).await
    }
}

#[tokio::test]
async fn an_export_does_not_continue_in_another_container_or_file() {
    let state = Interrupted::start().await;
    let half = std::fs::read(state.file()).expect("half an export");
    for (name, other) in [
        ("endpoint", "http://localhost:1/"),
        ("database", "shop"),
        ("container", "orders"),
    ] {
        let mut progress = state.progress.clone();
        progress[name] = other.into();
        state.write_progress(&progress);
        let refused = state.export(&["--resume"]).await;
        assert_eq!(refused.exit, Exit::Usage, "{name}: {refused:?}");
        refused.complains(other);
        assert_eq!(std::fs::read(state.file()).expect("half an export"), half);
    }
    state.write_progress(&state.progress);
    std::fs::write(state.file(), "{}\n").expect("a file");
    let refused = ends(Exit::Usage, state.export(&["--resume"])).await;
    refused.complains("has changed; delete both");
    assert_eq!(std::fs::read(state.file()).expect("a file"), b"{}\n");
}

#[tokio::test]
async fn a_new_export_removes_the_progress_of_an_older_one() {
    let state = Interrupted::start().await;
    let again = state.export(&[]).await;
    assert_eq!(again.exit, Exit::Usage, "a file is not overwritten");
    assert!(state.progress_file().exists(), "nothing has begun");
    std::fs::remove_file(state.file()).expect("it is there");
    // It ends before its first page.
    let fault = Effect::error(400, 0);
    state
        .account
        .emulator
        .inject(Fault::once(fault).on(OperationKind::Feed));
    let failed = ends(Exit::Service, state.export(&[])).await;
    assert!(!state.progress_file().exists(), "{failed:?}");
}

#[tokio::test]
async fn an_export_continues_at_its_cursor() {
    let state = Interrupted::start().await;
    let again = state.export(&[]).await;
    assert_eq!(
        again.exit,
        Exit::Usage,
        "a file is not overwritten: {again:?}"
    );
    ends(Exit::Ok, state.export(&["--resume"])).await;
    let text = std::fs::read_to_string(state.file()).expect("an export");
    assert_eq!(text, state.whole);
    let nothing = state.export(&["--resume"]).await;
    nothing.complains("there is no interrupted export");
}

#[tokio::test]
async fn an_export_that_fails_before_its_first_page_leaves_no_file() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("all.jsonl");
    let account = Account::start().await;
    let fault = Fault::once(Effect::error(400, 0)).on(OperationKind::Feed);
    account.emulator.inject(fault);
    ends(Exit::Service, export(&account, &file, &[])).await;
    assert!(!file.exists());
    ends(Exit::Ok, export(&account, &file, &[])).await;
    let again = export(&account, &file, &[]).await;
    again.complains("exists: continue its export with --resume, name another file, or delete it");
    // It fails after its only page.
    fill(&account).await;
    let other = folder.path().join("other.jsonl");
    let fault = Fault::once(Effect::error(400, 0)).on(OperationKind::Feed);
    account.emulator.inject(fault.after(1));
    let failed = ends(Exit::Service, export(&account, &other, &[])).await;
    failed.complains("; continue with --resume\n");
    ends(Exit::Ok, export(&account, &other, &["--resume"])).await;
}

/// Returns the names of the files in a folder.
pub(crate) fn files(folder: &TempDir) -> Vec<String> {
    let entries = std::fs::read_dir(folder.path()).expect("a folder");
    let name = |entry: std::fs::DirEntry| entry.file_name().into_string().expect("UTF-8");
    entries.map(|entry| name(entry.expect("a file"))).collect()
}

#[tokio::test]
async fn a_wrong_id_is_reported_before_any_instance_is_exported() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("orders");
    let account = Account::start().await;
    fill(&account).await;
    let wrong = ["order-1", "lost", "order-3", "gone"].map(|id| ["--instance", id]);
    let failed = ends(Exit::Finding, export(&account, &file, &wrong.concat())).await;
    failed.complains(
        "instance `lost` does not exist; instance `gone` does not exist; nothing was exported: correct or leave out these ids",
    );
    assert!(files(&folder).is_empty(), "{:?}", files(&folder));
    let printed = account
        .cdb("export --instance order-1 --instance lost")
        .await;
    assert_eq!(printed.out, "", "{printed:?}");
    let correct = ["order-1", "order-3"].map(|id| ["--instance", id]);
    ends(Exit::Ok, export(&account, &file, &correct.concat())).await;
    assert_eq!(lines(&file).len(), 2);
    let again = ends(Exit::Usage, export(&account, &file, &correct.concat())).await;
    again.complains("orders exists: name another file, or delete it\n");
}

#[tokio::test]
async fn an_interrupted_export_of_instances_leaves_no_file() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("orders");
    let account = Account::start().await;
    fill(&account).await;
    // A killed export has left it.
    std::fs::write(folder.path().join("orders.new"), "{}\n".repeat(100)).expect("a file");
    // The queries of both families and of the documents of order-1 succeed.
    let fault = Fault::once(Effect::error(400, 0)).on(OperationKind::Query);
    account.emulator.inject(fault.after(3));
    let both = ["--instance", "order-1", "--instance", "order-3"];
    ends(Exit::Service, export(&account, &file, &both)).await;
    assert!(files(&folder).is_empty(), "{:?}", files(&folder));
    let exported = export(&account, &file, &both).await;
    assert_eq!(exported.out, "exported 2 documents\n", "{exported:?}");
    assert_eq!(files(&folder), ["orders"]);
}

#[tokio::test]
async fn an_instance_that_is_named_twice_or_beside_its_parent_is_exported_once() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("orders");
    let account = Account::start().await;
    fill(&account).await;
    let ids = ["order-2::sub::4", "order-2", "order-2"].map(|id| ["--instance", id]);
    ends(Exit::Ok, export(&account, &file, &ids.concat())).await;
    let exported = lines(&file);
    let mut once = exported.clone();
    once.dedup();
    assert_eq!(exported, once);
    let parent = account.cdb("export --instance order-2").await;
    let mut parent: Vec<&str> = parent.out.lines().collect();
    parent.sort_unstable();
    assert_eq!(exported, parent);
}

#[tokio::test]
async fn an_export_of_an_instance_removes_the_progress_of_an_older_one() {
    let state = Interrupted::start().await;
    std::fs::remove_file(state.file()).expect("it is there");
    ends(Exit::Ok, state.export(&["--instance", "order-2"])).await;
    let whole = std::fs::read(state.file()).expect("an export");
    let resumed = state.export(&["--resume"]).await;
    resumed.complains("there is no interrupted export");
    assert_eq!(std::fs::read(state.file()).expect("an export"), whole);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_exported_instance_continues_on_another_account() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("family");
    let account = Account::start().await;
    let config = CosmosDBProviderConfig::default();
    let store = account.store(&config).await;
    let runtime = start(store.clone()).await;
    for id in ["family", "stranger"] {
        let started = Client::new(store.clone())
            .start_orchestration(id, "Family", "ada")
            .await;
        started.expect("it starts");
        while !account
            .cdb(&["instances", "show", id])
            .await
            .out
            .contains("waits for: event Approved")
        {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }
    runtime.shutdown(None).await;
    ends(Exit::Ok, export(&account, &file, &["--instance", "family"])).await;
    let exported = lines(&file);
    assert!(
        exported.iter().any(|line| line.contains("\"Child\"")),
        "{exported:?}"
    );
    assert!(
        !exported.iter().any(|line| line.contains("stranger")),
        "{exported:?}"
    );

    let laptop = Account::empty().await;
    import(&laptop, &file, &["--create"]).await;
    let store = laptop.store(&config).await;
    let runtime = start(store.clone()).await;
    laptop.cdb("instances raise family Approved yes").await;
    let waited = Client::new(store)
        .wait_for_orchestration("family", Duration::from_secs(1800))
        .await;
    let ended = format!("{:?}", waited.expect("it ends"));
    assert!(ended.contains("hello ada yes"), "{ended}");
    runtime.shutdown(None).await;
}
