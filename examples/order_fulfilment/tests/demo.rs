//! The output of `cargo demo`.

use std::process::{Command, Stdio};

/// Runs the demo on the embedded emulator. Its output goes into a pipe.
fn demo() -> String {
    let mut command = Command::new(env!("CARGO_BIN_EXE_order_fulfilment"));
    for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("COSMOS_")) {
        command.env_remove(name);
    }
    // A file `.env` of the developer is not found from there.
    let folder = std::env::temp_dir();
    let output = command.env_remove("RUST_LOG").current_dir(folder).output();
    let output = output.expect("the demo starts");
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{error}");
    assert_eq!(error, "");
    String::from_utf8(output.stdout).expect("text")
}

#[test]
fn the_second_runtime_continues_the_orders_of_the_killed_one() {
    let output = demo();
    let (before, after) = output
        .split_once("runtime 1 killed")
        .expect("runtime 1 is killed");
    assert!(before.contains("runtime 1: order-1001: reserves keyboard"));
    assert!(!before.contains("runtime 2") && !after.contains("runtime 1: "));
    assert!(after.contains("order-1001: shipped: parcel to Ada"));
    assert!(after.contains("order-1003: failed: unicorn is out of stock"));
    assert!(after.contains("order-1004: failed: not approved in time"));

    // Stored before the kill. What comes later may also be interrupted, on a slow machine.
    for activity in [
        "order-1001: reserves keyboard",
        "order-1001: charges 107.00 EUR",
        "order-1002: reserves screen",
        "order-1004: reserves laptop",
    ] {
        assert_eq!(output.matches(activity).count(), 1, "{activity}: {output}");
    }
}

#[tokio::test]
async fn a_runtime_ends_with_the_input_that_its_parent_holds() {
    let service = cdb_emulator::Emulator::start().await.expect("it starts");
    let mut command = tokio::process::Command::new(env!("CARGO_BIN_EXE_order_fulfilment"));
    for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("COSMOS_")) {
        command.env_remove(name);
    }
    command.env("ORDER_FULFILMENT_EMULATOR", service.connection_string());
    command.current_dir(std::env::temp_dir());
    let mut runtime = command
        .stdin(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .expect("it starts");
    drop(runtime.stdin.take());
    assert!(runtime.wait().await.expect("it ends").success());
}

#[test]
fn the_output_is_plain_text_and_ends_with_the_next_command() {
    let output = demo();
    assert!(!output.contains('\u{1b}'), "escape codes: {output:?}");
    assert!(
        !output.contains("WARN") && !output.contains("ERROR"),
        "{output}"
    );
    let last = output.lines().last().unwrap_or_default();
    assert!(last.starts_with("next: cargo run -p "), "{last}");
}
