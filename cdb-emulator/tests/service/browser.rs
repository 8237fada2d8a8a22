//! A headless Chromium, driven over its DevTools protocol with a minimal WebSocket client.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, ChildStderr, Command, Stdio};
use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

/// The timeout of every step in the browser.
const PATIENCE: Duration = Duration::from_secs(600);

/// A browser with one page. It is killed on drop.
#[derive(Debug)]
pub(crate) struct Browser {
    child: Child,
    socket: TcpStream,
    calls: u64,
    /// Its error output. A closed pipe would stop the browser.
    _said: BufReader<ChildStderr>,
    _profile: tempfile::TempDir,
}

/// Returns the browser's program: `CHROME`, or a program with a usual name.
fn program() -> Option<String> {
    let given = std::env::var("CHROME").ok();
    let usual = ["chromium", "chromium-browser", "google-chrome"].map(str::to_owned);
    given.into_iter().chain(usual).find(|name| {
        let asked = Command::new(name)
            .arg("--version")
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status();
        asked.is_ok_and(|status| status.success())
    })
}

impl Browser {
    /// Opens a page; `None` if no browser is installed.
    pub(crate) fn open(url: &str) -> Option<Self> {
        let program = program()?;
        let profile = tempfile::tempdir().expect("a directory");
        let mut child = Command::new(program)
            .args(["--headless=new", "--no-sandbox", "--disable-gpu"])
            .args([
                "--disable-dev-shm-usage",
                "--no-first-run",
                "--window-size=1100,900",
            ])
            .args(["--remote-debugging-port=0", url])
            .arg(format!("--user-data-dir={}", profile.path().display()))
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the browser starts");
        let mut said = BufReader::new(child.stderr.take().expect("it is piped"));
        let line = said
            .by_ref()
            .lines()
            .map_while(Result::ok)
            .find(|line| line.contains("DevTools listening on"))
            .expect("it says where it listens");
        let (_, url) = line.split_once("ws://").expect("a URL");
        let (address, _) = url.split_once('/').expect("a path");
        let socket = connect(address, &page_of(address));
        Some(Self {
            child,
            socket,
            calls: 0,
            _said: said,
            _profile: profile,
        })
    }

    /// Calls a method of the protocol.
    pub(crate) fn call(&mut self, method: &str, parameters: &Value) -> Value {
        self.calls += 1;
        let call = json!({ "id": self.calls, "method": method, "params": parameters });
        self.send(&call.to_string());
        loop {
            let answer: Value = serde_json::from_slice(&self.receive()).expect("JSON");
            if answer["id"] == self.calls {
                assert!(answer["error"].is_null(), "{method}: {answer}");
                return answer["result"].clone();
            }
        }
    }

    /// Evaluates a JavaScript expression in the page.
    pub(crate) fn evaluate(&mut self, expression: &str) -> Value {
        let parameters = json!({ "expression": expression, "returnByValue": true });
        let result = self.call("Runtime.evaluate", &parameters);
        assert!(
            result["exceptionDetails"].is_null(),
            "{expression}: {result}"
        );
        result["result"]["value"].clone()
    }

    /// Waits until an expression is true.
    pub(crate) fn wait_for(&mut self, expression: &str) {
        let end = Instant::now() + PATIENCE;
        while self.evaluate(expression) != json!(true) {
            if Instant::now() > end {
                let page = self.evaluate("document.body.innerText");
                panic!("{expression} does not become true:\n{page}");
            }
            std::thread::sleep(Duration::from_millis(30));
        }
    }

    /// Presses a key, with Ctrl when `ctrl`.
    pub(crate) fn press(&mut self, key: &str, code: u32, ctrl: bool) {
        let text = if key == "Enter" { "\r" } else { "" };
        for kind in ["keyDown", "keyUp"] {
            let parameters = json!({ "type": kind, "key": key, "code": key, "windowsVirtualKeyCode": code,
                "modifiers": if ctrl { 2 } else { 0 }, "text": if kind == "keyDown" { text } else { "" } });
            self.call("Input.dispatchKeyEvent", &parameters);
        }
    }

    /// Saves a picture of the page in `CDB_SCREENSHOTS` if the variable is set.
    pub(crate) fn screenshot(&mut self, name: &str) {
        let Some(directory) = std::env::var_os("CDB_SCREENSHOTS") else {
            return;
        };
        for scheme in ["light", "dark"] {
            let feature = json!([{ "name": "prefers-color-scheme", "value": scheme }]);
            self.call(
                "Emulation.setEmulatedMedia",
                &json!({ "features": feature }),
            );
            let image = self.call("Page.captureScreenshot", &json!({}));
            let image = STANDARD.decode(image["data"].as_str().expect("base64"));
            let file = std::path::Path::new(&directory).join(format!("{name}-{scheme}.png"));
            std::fs::write(file, image.expect("base64")).expect("it is written");
        }
    }

    /// Returns a text frame with a mask of zeros; the protocol requires a mask (RFC 6455, 5.2).
    fn send(&mut self, text: &str) {
        let mut frame = vec![0x81];
        match text.len() {
            length @ 0..126 => frame.push(0x80 | u8::try_from(length).expect("small")),
            length => {
                frame.push(0x80 | 0x7e);
                let length = u16::try_from(length).expect("a short message");
                frame.extend(length.to_be_bytes());
            }
        }
        frame.extend([0; 4]);
        frame.extend(text.as_bytes());
        self.socket.write_all(&frame).expect("it is sent");
    }

    /// Reads the payload of the next frame. Chromium does not fragment messages.
    fn receive(&mut self) -> Vec<u8> {
        let [_, length] = self.bytes();
        let length = match length & 0x7f {
            0x7e => u64::from(u16::from_be_bytes(self.bytes())),
            0x7f => u64::from_be_bytes(self.bytes()),
            short => u64::from(short),
        };
        let mut payload = vec![0; usize::try_from(length).expect("it fits")];
        self.socket.read_exact(&mut payload).expect("a frame");
        payload
    }

    fn bytes<const N: usize>(&mut self) -> [u8; N] {
        let mut bytes = [0; N];
        self.socket.read_exact(&mut bytes).expect("a frame");
        bytes
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        // If the browser has crashed, the test has failed before.
        let _ = self.child.kill();
        // Waiting prevents a zombie.
        let _ = self.child.wait();
    }
}

/// Returns the path of the debugger of the first page.
fn page_of(address: &str) -> String {
    let end = Instant::now() + PATIENCE;
    while Instant::now() < end {
        let (mut stream, head) = get(address, "/json/list", "");
        let mut headers = head.lines().filter_map(|line| line.split_once(':'));
        let length = headers.find(|(name, _)| name.eq_ignore_ascii_case("content-length"));
        let (_, length) = length.expect("a length");
        let mut body = vec![0; length.trim().parse().expect("a number")];
        stream.read_exact(&mut body).expect("a body");
        let targets: Value = serde_json::from_slice(&body).expect("JSON");
        let mut targets = targets.as_array().into_iter().flatten();
        if let Some(page) = targets.find(|target| target["type"] == "page") {
            let url = page["webSocketDebuggerUrl"].as_str().expect("a URL");
            let (_, path) = url.split_once(address).expect("the same address");
            return path.to_owned();
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    panic!("the browser opens no page");
}

/// Opens a WebSocket to a page.
fn connect(address: &str, path: &str) -> TcpStream {
    let upgrade = "upgrade: websocket\r\nconnection: upgrade\r\nsec-websocket-version: 13\r\n\
                   sec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n";
    let (stream, head) = get(address, path, upgrade);
    assert!(head.starts_with("HTTP/1.1 101"), "no WebSocket: {head}");
    stream
}

/// Sends a request to the debugger and reads the head of the response.
fn get(address: &str, path: &str, headers: &str) -> (TcpStream, String) {
    let mut stream = TcpStream::connect(address).expect("it listens");
    stream.set_read_timeout(Some(PATIENCE)).expect("a time-out");
    let request = format!("GET {path} HTTP/1.1\r\nhost: {address}\r\n{headers}\r\n");
    stream.write_all(request.as_bytes()).expect("it is sent");
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        stream.read_exact(&mut byte).expect("an answer");
        head.push(byte[0]);
    }
    (stream, String::from_utf8_lossy(&head).into_owned())
}
