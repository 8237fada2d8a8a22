//! `cdb dashboard`: the responses of its server, and the page in a browser.
//!
//! `cargo xtask test-dashboard` runs the slow tests that need a Chromium.

mod access;
#[path = "../../../../cdb-emulator/tests/service/browser.rs"]
pub(crate) mod browser;
mod costs;
pub(crate) mod layout;
mod live;
mod page;
pub(crate) mod server;
pub(crate) mod serving;
