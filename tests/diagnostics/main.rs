//! Mistakes with search attributes, one case each, as in `cdb-model/tests/ui`. A package of its own, because each case
//! is compiled with what the package depends on, apart from the other builds.
//!
//! The compiler adds text around our messages, so the outputs are compared only with the version that recorded them.
//! `TRYBUILD=overwrite` records them.

use std::process::Command;

/// The compiler that recorded the outputs.
const RECORDED_WITH: &str = "rustc 1.95.";

#[test]
fn every_mistake_with_search_attributes_is_reported_at_its_place() {
    let compiler = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let output = Command::new(compiler).arg("--version").output();
    let output = output.expect("the compiler of this test prints its version");
    let version = String::from_utf8_lossy(&output.stdout).into_owned();
    if version.starts_with(RECORDED_WITH) {
        trybuild::TestCases::new().compile_fail("cases/*.rs");
    } else {
        eprintln!("not compared: cases was recorded with {RECORDED_WITH}x, this is {version}");
    }
}
