//! `cdb dashboard`: what its server answers and refuses, and what a browser makes of the page.
//!
//! `cargo test-dashboard` runs the part that needs a Chromium and takes a while.

#[path = "../../../../cdb-emulator/tests/service/browser.rs"]
mod browser;
mod page;
mod server;
mod serving;
