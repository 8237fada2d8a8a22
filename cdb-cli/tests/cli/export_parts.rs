//! Exports and imports that were interrupted: part of a container is not imported as the whole, and an import says
//! where to continue.

#[cfg(unix)]
use std::process::{Command, Stdio};

use cdb_cli::Exit;
use cdb_emulator::{Effect, Fault, OperationKind};

use crate::copy::{Interrupted, export, files, import};
use crate::fixture::fill;
use crate::harness::{Account, ends};

#[tokio::test]
async fn part_of_an_export_is_not_imported_as_the_whole() {
    let state = Interrupted::start().await;
    let other = Account::start().await;
    // Of an earlier version.
    let refused = ends(Exit::Usage, import(&other, &state.file(), &[])).await;
    refused.complains("--resume");
    std::fs::rename(state.file(), state.folder.path().join("lines.part")).expect("it is there");
    std::fs::remove_file(state.progress_file()).expect("it is there");
    // Also without the progress.
    for name in ["lines", "lines.part"] {
        let file = state.folder.path().join(name);
        let refused = ends(Exit::Usage, import(&other, &file, &[])).await;
        refused.complains("lines.part is part of an export that was interrupted: complete it with");
        refused.complains("lines.part --partial`");
    }
    state.write_progress(&state.progress);
    ends(Exit::Ok, state.export(&["--resume"])).await;
    assert_eq!(files(&state.folder), ["lines"]);
    ends(Exit::Ok, import(&other, &state.file(), &[])).await;
}

#[tokio::test]
async fn part_of_an_export_is_imported_on_request() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("all.jsonl");
    let account = Account::start().await;
    fill(&account).await;
    let fault = Fault::once(Effect::error(400, 0)).on(OperationKind::Feed);
    account.emulator.inject(fault.after(1));
    ends(Exit::Service, export(&account, &file, &[])).await;
    assert!(!file.exists());
    let part = folder.path().join("all.jsonl.part");
    let other = Account::start().await;
    ends(Exit::Ok, import(&other, &part, &["--partial"])).await;
}

#[cfg(unix)]
#[tokio::test(flavor = "multi_thread")]
async fn an_import_that_is_interrupted_at_the_keyboard_says_where_to_continue() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("lines");
    let lines = (0..2_500).map(|id| format!("{{\"id\":\"{id}\",\"instanceId\":\"a\"}}\n"));
    std::fs::write(&file, lines.collect::<String>()).expect("a file");
    let account = Account::start().await;
    let mut command = Command::new(env!("CARGO_BIN_EXE_cdb"));
    command.args(["import", file.to_str().expect("UTF-8"), "--max-rus", "1"]);
    command.args(["--endpoint", &account.emulator.endpoint()]);
    command.args(["--key", account.emulator.key()]);
    command.args(["--database", "duroxide", "--container", "duroxide"]);
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let child = child.spawn().expect("it starts");
    // After the first thousand, it waits for its budget.
    while account.cdb("export").await.out.lines().count() < 1_000 {
        tokio::task::yield_now().await;
    }
    let pid = child.id().to_string();
    let killed = Command::new("kill").args(["-INT", &pid]).status();
    assert!(killed.expect("it runs").success());
    let ended = tokio::task::spawn_blocking(|| child.wait_with_output());
    let output = ended.await.expect("no panic").expect("it ends");
    let err = String::from_utf8_lossy(&output.stderr);
    assert!(err.contains("; continue with --skip "), "{err}");
    assert!(err.contains("interrupted"), "{err}");
}
