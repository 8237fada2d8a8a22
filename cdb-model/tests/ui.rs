//! Diagnostics, a file per topic: the mistakes and their messages.
//!
//! The messages of `tests/ui/document`, `container`, `projection`, `scalar` and `sql` are our own text at one token, the
//! same for all compilers. In `tests/ui/rustc`, the compiler adds text around ours, so these
//! outputs are compared only with the compiler version that recorded them. `TRYBUILD=overwrite`
//! records all outputs; read them as prose.
//!
//! A case contains the mistakes. Imports and correct types come from the files directly in
//! `tests/ui`.
//!
//! A case mixes only mistakes that the compiler finds in the same pass: it stops after a pass with
//! errors, and would not report those of a later one.

use std::process::Command;

/// The compiler that recorded the outputs under `tests/ui/rustc`.
const RECORDED_WITH: &str = "rustc 1.95.";

#[test]
fn every_mistake_is_reported_at_its_place() {
    let cases = trybuild::TestCases::new();
    cases.compile_fail("tests/ui/document/*.rs");
    cases.compile_fail("tests/ui/container/*.rs");
    cases.compile_fail("tests/ui/projection/*.rs");
    cases.compile_fail("tests/ui/scalar/*.rs");
    cases.compile_fail("tests/ui/sql/*.rs");
    let version = compiler_version();
    if version.starts_with(RECORDED_WITH) {
        cases.compile_fail("tests/ui/rustc/*.rs");
    } else {
        eprintln!(
            "not compared: tests/ui/rustc was recorded with {RECORDED_WITH}x, this is {version}"
        );
    }
}

fn compiler_version() -> String {
    let compiler = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let output = Command::new(compiler)
        .arg("--version")
        .output()
        .expect("the compiler of this test prints its version");
    String::from_utf8_lossy(&output.stdout).into_owned()
}
