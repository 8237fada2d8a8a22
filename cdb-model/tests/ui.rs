//! Refusals, one case per diagnostic: what is written, and what is said.
//!
//! `tests/ui/document` and `tests/ui/container` hold refusals in our own words at one token, which no compiler changes.
//! In `tests/ui/rustc` the compiler speaks around our text, so the whole is compared only on the version it was recorded
//! with. `TRYBUILD=overwrite` records anew; read what it writes as prose.

use std::process::Command;

/// The compiler that the outputs under `tests/ui/rustc` were recorded with.
const RECORDED_WITH: &str = "rustc 1.95.";

#[test]
fn every_mistake_is_explained_where_it_stands() {
    let cases = trybuild::TestCases::new();
    cases.compile_fail("tests/ui/document/*.rs");
    cases.compile_fail("tests/ui/container/*.rs");
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
        .expect("the compiler that built this test tells its version");
    String::from_utf8_lossy(&output.stdout).into_owned()
}
