//! A dashboard in a child process, on an emulator in this process.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

use crate::harness::Account;

/// A running dashboard. Dropping it kills the process.
pub(crate) struct Serving {
    child: Child,
    /// The address that the terminal shows, with its token.
    pub(crate) address: String,
}

impl Serving {
    pub(crate) fn start(account: &Account, options: &[&str]) -> Self {
        let mut child = Command::new(env!("CARGO_BIN_EXE_cdb"))
            .args([
                "dashboard",
                "--port",
                "0",
                "--endpoint",
                &account.emulator.endpoint(),
            ])
            .args([
                "--key",
                account.emulator.key(),
                "--database",
                "duroxide",
                "--container",
                "duroxide",
            ])
            .args(options)
            .stdout(Stdio::piped())
            .spawn()
            .expect("it runs");
        let mut line = String::new();
        let out = child.stdout.take().expect("it is piped");
        BufReader::new(out).read_line(&mut line).expect("a line");
        let address = line
            .split_whitespace()
            .find(|word| word.starts_with("http"));
        let address = address
            .unwrap_or_else(|| panic!("no address: {line}"))
            .to_owned();
        Self { child, address }
    }

    /// Returns the address without the token, and the token.
    pub(crate) fn parts(&self) -> (&str, &str) {
        self.address.split_once("/#token=").expect("a token")
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        // An error means that the process has already ended.
        let _ = self.child.kill();
        // Reaps the process.
        let _ = self.child.wait();
    }
}
