//! A client of the Model Context Protocol: JSON-RPC lines over the streams of a child process.

use std::process::Stdio;

use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};

use crate::harness::Account;

/// A session with the tools of `cdb`. Dropping it kills the process.
pub(crate) struct Client {
    input: Option<ChildStdin>,
    output: Lines<BufReader<ChildStdout>>,
    process: Child,
    last: u64,
    /// What the server said of itself.
    pub(crate) about: Value,
}

/// The answer to a call.
#[derive(Debug)]
pub(crate) struct Called {
    pub(crate) answer: Value,
    /// The texts of the answer, remarks included.
    pub(crate) text: String,
    pub(crate) is_error: bool,
}

impl Client {
    /// Starts `cdb mcp` with the account and the options, and opens a session.
    pub(crate) async fn start(account: &Account, options: &[&str]) -> Self {
        let mut process = Command::new(env!("CARGO_BIN_EXE_cdb"))
            .args(["--endpoint", &account.emulator.endpoint(), "mcp"])
            .args(["--key", account.emulator.key()])
            .args(["--database", "duroxide", "--container", "duroxide"])
            .args(options)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .expect("it runs");
        let output = process.stdout.take().expect("it is piped");
        let mut client = Self {
            input: process.stdin.take(),
            output: BufReader::new(output).lines(),
            process,
            last: 0,
            about: Value::Null,
        };
        let hello = json!({
            "protocolVersion": "2025-06-18",
            "capabilities": {},
            "clientInfo": { "name": "a test", "version": "1" },
        });
        client.about = client.request("initialize", hello).await;
        client
            .send(&json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }))
            .await;
        client
    }

    /// Starts `cdb mcp` with the tools that change something.
    pub(crate) async fn with_actions(account: &Account) -> Self {
        Self::start(account, &["--allow-actions"]).await
    }

    async fn send(&mut self, message: &Value) {
        let line = format!("{message}\n");
        let input = self.input.as_mut().expect("the input is open");
        input.write_all(line.as_bytes()).await.expect("it is read");
    }

    /// Sends a request and returns its result.
    pub(crate) async fn request(&mut self, method: &str, params: Value) -> Value {
        let mut answer = self.respond(method, params).await;
        assert!(answer["error"].is_null(), "{method}: {answer}");
        answer["result"].take()
    }

    /// Sends a call and does not wait for its answer. Returns the number of the request.
    pub(crate) async fn begin(&mut self, method: &str, params: Value) -> u64 {
        self.last += 1;
        let id = self.last;
        self.send(&json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params }))
            .await;
        id
    }

    /// Cancels a request, which is then not answered.
    pub(crate) async fn cancel(&mut self, id: u64) {
        let params = json!({ "requestId": id });
        let method = "notifications/cancelled";
        self.send(&json!({ "jsonrpc": "2.0", "method": method, "params": params }))
            .await;
    }

    /// Sends a request and returns the response, a result or an error.
    pub(crate) async fn respond(&mut self, method: &str, params: Value) -> Value {
        let id = self.begin(method, params).await;
        loop {
            let line = self.output.next_line().await.expect("it can be read");
            let line = line.expect("the server runs");
            let message: Value = serde_json::from_str(&line).expect("only JSON is on the stream");
            if message["id"] == id {
                return message;
            }
        }
    }

    pub(crate) async fn call(&mut self, tool: &str, arguments: Value) -> Called {
        let params = json!({ "name": tool, "arguments": arguments });
        let mut result = self.request("tools/call", params).await;
        let texts = result["content"].as_array().expect("a list").iter();
        let texts = texts.filter_map(|content| content["text"].as_str());
        Called {
            text: texts.collect::<Vec<_>>().join("\n"),
            is_error: result["isError"] == true,
            answer: result["structuredContent"].take(),
        }
    }

    /// Reads with a tool, which must not fail.
    pub(crate) async fn read(&mut self, tool: &str, arguments: Value) -> Called {
        let called = self.call(tool, arguments).await;
        assert!(!called.is_error, "{tool}: {called:?}");
        called
    }

    /// Makes a change: the dry run, then the same call with its `confirm`.
    pub(crate) async fn change(&mut self, tool: &str, mut arguments: Value) -> Called {
        let planned = self.read(tool, arguments.clone()).await;
        assert_eq!(planned.answer["changed"], false, "{planned:?}");
        arguments["confirm"] = planned.answer["confirm"].clone();
        self.read(tool, arguments).await
    }

    /// Calls a tool until its answer has a text. A runtime of the test works meanwhile.
    pub(crate) async fn until(&mut self, tool: &str, arguments: Value, text: &str) -> Called {
        loop {
            let called = self.call(tool, arguments.clone()).await;
            if called.text.contains(text) {
                return called;
            }
            tokio::task::yield_now().await;
        }
    }

    /// Returns the findings of the doctor that are not `ok`, one text each: check, problem, remedy.
    pub(crate) async fn findings(&mut self) -> Vec<String> {
        let called = self.read("doctor", json!({})).await;
        let findings = called.answer["findings"].as_array().expect("a list").iter();
        let bad = findings.filter(|finding| finding["level"] != "ok");
        let text = |finding: &Value| {
            let of = |name: &str| finding[name].as_str().unwrap_or_default().to_owned();
            format!("{}: {} → {}", of("check"), of("says"), of("remedy"))
        };
        bad.map(text).collect()
    }

    /// Closes the input, and returns whether the process ends well.
    pub(crate) async fn end(mut self) -> bool {
        drop(self.input.take());
        self.process.wait().await.expect("it ends").success()
    }
}
