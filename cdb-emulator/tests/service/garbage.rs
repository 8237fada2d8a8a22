//! Invalid signatures and invalid HTTP are rejected and do not stop the server.

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use reqwest::Method;
use serde_json::{Value, json};

use crate::account::{Account, Request};

const DOCS: (&str, &str) = ("docs", "dbs/db/colls/c");

/// Sends bytes and returns the response, until the server closes the connection or waits for more.
fn exchange(address: &str, bytes: &[u8]) -> String {
    let mut stream = TcpStream::connect(address).expect("it listens");
    let pause = Some(Duration::from_millis(500));
    stream.set_read_timeout(pause).expect("a time-out");
    // The server can close the connection before all bytes are sent.
    let _ = stream.write_all(bytes);
    let mut answer = Vec::new();
    let mut chunk = [0; 4096];
    let mut silent = 0;
    // On a slow machine, half a second without a response is not sufficient. If the server responds
    // to a later request, it waits for more bytes of this one.
    while silent < 3 {
        match stream.read(&mut chunk) {
            Ok(0) => break,
            Ok(count) => answer.extend(&chunk[..count]),
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                await_another_response(address);
                silent += 1;
            }
            Err(_) => break,
        }
    }
    String::from_utf8_lossy(&answer).into_owned()
}

/// Sends another request and waits for its response.
fn await_another_response(address: &str) {
    let mut stream = TcpStream::connect(address).expect("it listens");
    let sent = stream.write_all(b"GET / HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n");
    sent.expect("it is sent");
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).expect("an answer");
}

/// Runs [`exchange`] on a thread that may block.
async fn answer(account: &Account, bytes: impl Into<Vec<u8>>) -> String {
    let address = account.emulator.endpoint().replace("http://", "");
    let (address, bytes) = (address.replace('/', ""), bytes.into());
    let asked = tokio::task::spawn_blocking(move || exchange(&address, &bytes));
    asked.await.expect("no panic")
}

/// Returns a request for a document with these headers instead of a valid signature.
fn unsigned(headers: &str) -> String {
    format!("GET /dbs/db/colls/c HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n{headers}\r\n")
}

async fn is_alive(account: &Account) {
    let created = account.create(&json!({ "id": "alive", "pk": "p" })).await;
    assert!(matches!(created.status, 201 | 409), "{}", created.body);
}

const MISSING: &str = "Required Header authorization is missing";
const FORM: &str = "doesn't confirm to the required format";
const DATE: &str = "The input date header is invalid format";
const WRONG: &str = "The input authorization token can't serve the request";
const CLOCK: &str = "The authorization token is not valid at the current time";

/// `authorization`, `x-ms-date` and the expected error. `GOOD` and `NOW` stand for a valid
/// signature and its date, `-` for a missing header.
const SIGNATURES: [(&str, &str, u16, &str); 16] = [
    ("-", "-", 401, MISSING),
    ("", "NOW", 401, MISSING),
    ("\u{e9}", "NOW", 401, MISSING),
    ("Bearer abc", "NOW", 401, FORM),
    ("type%3Dmaster", "NOW", 401, FORM),
    ("type%3Dmaster%26ver%3D2.0%26sig%3DAAAA", "NOW", 401, FORM),
    ("type%3Daad%26ver%3D1.0%26sig%3DAAAA", "NOW", 401, FORM),
    ("type%3Dmaster%26ver%3D1.0%26sig%3D%00%FF", "NOW", 401, FORM),
    ("type%3Dmaster%26ver%3D1.0%26sig%3DA", "NOW", 401, FORM),
    ("type%3Dmaster%26ver%3D1.0%26sig%3D", "NOW", 401, WRONG),
    ("type=master&ver=1.0&sig=AAAA", "NOW", 401, WRONG),
    ("GOOD", "-", 401, DATE),
    ("GOOD", "yesterday", 401, DATE),
    ("GOOD", "2026-11-21T08:00:00Z", 401, DATE),
    ("GOOD", "Thu, 27 Apr 2017 00:51:12 GMT", 403, CLOCK),
    ("GOOD", "Fri, 31 Dec 9999 23:59:59 GMT", 403, CLOCK),
];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn invalid_signatures_are_rejected_with_the_service_s_errors() {
    let account = Account::start().await;
    let (good, now) = account.authorization(&Method::GET, ("colls", "dbs/db/colls/c"));
    for (authorization, date, status, says) in SIGNATURES {
        let mut headers = String::new();
        for (name, value) in [("authorization", authorization), ("x-ms-date", date)] {
            let value = value.replace("GOOD", &good).replace("NOW", &now);
            if value != "-" {
                headers.extend([name, ": ", &value, "\r\n"]);
            }
        }
        let answer = answer(&account, unsigned(&headers)).await;
        let (head, body) = answer.split_once("\r\n\r\n").expect("an answer");
        let wanted = format!("HTTP/1.1 {status} ");
        assert!(head.starts_with(&wanted), "{headers}{answer}");
        assert!(head.contains("x-ms-activity-id: "), "{answer}");
        let body: Value = serde_json::from_str(body).expect("JSON");
        let code = match status {
            401 => "Unauthorized",
            _ => "Forbidden",
        };
        assert_eq!(body["code"], code, "{headers}{body}");
        let message = body["message"].as_str().unwrap_or_default();
        assert!(message.contains(says), "{headers}{body}");
    }
    let signed = format!("authorization: {good}\r\nx-ms-date: {now}\r\n");
    let answer = answer(&account, unsigned(&signed)).await;
    assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
}

#[tokio::test]
async fn a_signature_is_invalid_for_another_request() {
    let account = Account::start().await;
    let (token, date) = account.authorization(&Method::GET, DOCS);
    for (method, resource, path) in [
        (Method::POST, DOCS, "dbs/db/colls/c/docs"),
        (Method::GET, DOCS, "dbs/db/colls/d/docs"),
        (Method::GET, DOCS, "dbs/db/colls/c"),
        (Method::DELETE, DOCS, "dbs/db"),
    ] {
        let request = Request::new(method, resource, path);
        let refused = account.send_as(&token, &date, &request).await;
        let refused = refused.expect("an answer");
        assert_eq!(
            (refused.status, &refused.body["code"]),
            (401, &json!("Unauthorized")),
            "{path}"
        );
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn invalid_http_is_rejected_or_the_connection_closed() {
    let account = Account::start().await;
    let long = "x".repeat(300_000);
    let many = "another: x\r\n".repeat(500);
    let get = "GET / HTTP/1.1\r\nhost: localhost\r\n";
    let post = "POST /dbs HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n";
    for (bytes, statuses) in [
        ("\0\0\0\0\r\n\r\n".to_owned(), &["400"][..]),
        ("hello\r\n\r\n".to_owned(), &["400"]),
        ("GET\r\n\r\n".to_owned(), &["400"]),
        ("GET / HTTP/7.0\r\n\r\n".to_owned(), &["400", "505"]),
        ("GET  /  HTTP/1.1\r\n\r\n".to_owned(), &["400"]),
        ("G\u{e9}T / HTTP/1.1\r\n\r\n".to_owned(), &["400"]),
        (format!("{get}no colon\r\n\r\n"), &["400"]),
        (format!("{get}: no name\r\n\r\n"), &["400"]),
        (format!("{get}a: \0\r\n\r\n"), &["400"]),
        (format!("{get}content-length: -1\r\n\r\n"), &["400"]),
        (
            format!("{get}content-length: 1\r\ncontent-length: 2\r\n\r\nab"),
            &["400"],
        ),
        (format!("{get}a: {long}\r\n\r\n"), &["431"]),
        (format!("{get}{many}\r\n"), &["431"]),
        (
            format!("GET /{long} HTTP/1.1\r\nhost: localhost\r\n\r\n"),
            &["414", "431"],
        ),
        // The server reads these, and finds no signature.
        (format!("{post}content-length: 3\r\n\r\n{{}}}}"), &["401"]),
        (
            format!("{post}transfer-encoding: chunked\r\n\r\n2\r\n{{}}\r\n0\r\n\r\n"),
            &["401"],
        ),
        // A truncated body is not a request.
        (
            format!("{post}transfer-encoding: chunked\r\n\r\nzz\r\n"),
            &["", "400"],
        ),
        // TLS on a plain connection, and invalid HTTP/2.
        (
            "\u{16}\u{3}\u{1}\u{2}\0\u{1}\0\u{1}\r\n\r\n".to_owned(),
            &["400"],
        ),
        (
            "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\nnonsense nonsense nonsense".to_owned(),
            &[""],
        ),
    ] {
        let answer = answer(&account, bytes.clone()).await;
        let status = answer
            .strip_prefix("HTTP/1.1 ")
            .and_then(|rest| rest.get(..3));
        let status = status.unwrap_or_default();
        let shown: String = bytes.chars().take(90).collect();
        assert!(
            statuses.contains(&status),
            "{shown:?}: {status} {answer:.200}"
        );
        is_alive(&account).await;
    }
}

/// Counts the panics of all threads, in addition to the default hook.
fn count_panics() -> &'static AtomicUsize {
    static PANICS: AtomicUsize = AtomicUsize::new(0);
    let usual = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        PANICS.fetch_add(1, Ordering::Relaxed);
        usual(info);
    }));
    &PANICS
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn requests_with_flipped_bytes_do_not_panic() {
    let account = Account::start().await;
    let panics = count_panics();
    let before = panics.load(Ordering::Relaxed);
    let (token, date) = account.authorization(&Method::POST, DOCS);
    let body = r#"{"query":"SELECT TOP 5 * FROM c WHERE c.pk = @p ORDER BY c.n","parameters":[{"name":"@p","value":"p"}]}"#;
    let request = format!(
        "POST /dbs/db/colls/c/docs HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\nauthorization: {token}\r\n\
         x-ms-date: {date}\r\nx-ms-version: 2020-07-15\r\nx-ms-documentdb-isquery: True\r\n\
         content-type: application/query+json\r\nx-ms-documentdb-partitionkey: [\"p\"]\r\n\
         x-ms-max-item-count: 10\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    );
    let whole = answer(&account, request.clone()).await;
    assert!(whole.starts_with("HTTP/1.1 200 "), "{whole}");
    let address = account
        .emulator
        .endpoint()
        .replace("http://", "")
        .replace('/', "");
    let mangled = tokio::task::spawn_blocking(move || {
        let mut seed = 7_u32;
        let mut answered = 0;
        for _ in 0..400 {
            let mut bytes = request.clone().into_bytes();
            for _ in 0..3 {
                // The constants of Numerical Recipes; the low bits are not random enough and not
                // used.
                seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                let at = usize::try_from(seed >> 8).expect("small") % bytes.len();
                bytes[at] = seed.to_be_bytes()[0];
            }
            answered += usize::from(exchange(&address, &bytes).starts_with("HTTP/1.1 "));
        }
        answered
    });
    let answered = mangled.await.expect("no panic");
    assert!(answered > 300, "{answered} of 400");
    assert_eq!(panics.load(Ordering::Relaxed), before);
    is_alive(&account).await;
}
