//! Who reads the dashboard and changes something with it.

use reqwest::Method;

use super::server::{get, http};
use super::serving::Serving;
use crate::fixture::fill;
use crate::harness::Account;

/// Cancels `order-2` with these headers.
async fn cancel(serving: &Serving, headers: &[(&str, &str)]) -> u16 {
    let url = format!("{}/api/instances/order-2/cancel", serving.parts().0);
    let mut request = http()
        .request(Method::POST, url)
        .header("content-type", "application/json");
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let answer = request.body(r#"{ "reason": "test" }"#).send().await;
    answer.expect("an answer").status().as_u16()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn other_host_names_are_rejected_and_the_page_loads_only_own_files() {
    let account = Account::start().await;
    let serving = Serving::start(&account, &[]);
    let url = format!("{}/api/about", serving.parts().0);
    for (host, status) in [
        ("evil.example", 421),
        ("localhost.evil.example", 421),
        ("localhost:1", 200),
    ] {
        let answer = http()
            .get(&url)
            .header("host", host)
            .header("x-cdb-token", serving.parts().1)
            .send()
            .await
            .expect("an answer");
        assert_eq!(answer.status(), status, "{host}");
    }
    let page = get(&serving, "").await;
    let policy = page.headers()["content-security-policy"]
        .to_str()
        .expect("text")
        .to_owned();
    for part in [
        "default-src 'none'; script-src 'self'",
        "frame-ancestors 'none'",
    ] {
        assert!(policy.contains(part), "{policy}");
    }
    assert!(!page.headers().contains_key("access-control-allow-origin"));
    let text = String::from_utf8(page.bytes().await.expect("a body").to_vec()).expect("UTF-8");
    for inline in ["<style", "onclick", "style=", "<script>"] {
        assert!(!text.contains(inline), "{inline} stands in the page");
    }
    for file in [
        "style.css",
        "app.js",
        "ask.js",
        "dom.js",
        "instances.js",
        "instance.js",
        "deadletters.js",
        "timeline.js",
        "queues.js",
    ] {
        assert_eq!(get(&serving, file).await.status(), 200, "{file}");
    }
    assert_eq!(get(&serving, "Cargo.toml").await.status(), 404);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_page_of_another_origin_reads_no_data() {
    let account = Account::start().await;
    let serving = Serving::start(&account, &[]);
    let (origin, token) = serving.parts();
    let fetched = async |path: &str, (name, value): (&str, &str)| {
        let request = http().get(format!("{origin}/{path}")).header(name, value);
        let request = request.header("x-cdb-token", token);
        let answer = request.send().await.expect("an answer");
        answer.status().as_u16()
    };
    for (name, value, status) in [
        ("sec-fetch-site", "cross-site", 403),
        ("sec-fetch-site", "same-site", 403),
        ("sec-fetch-site", "same-origin", 200),
        ("sec-fetch-site", "none", 200),
        ("origin", "https://evil.example", 403),
        ("origin", "null", 403),
        ("origin", "http://localhost:1", 403),
        ("origin", origin, 200),
    ] {
        let header = (name, value);
        assert_eq!(
            fetched("api/about", header).await,
            status,
            "{name}: {value}"
        );
        // A link on another page may open the dashboard.
        assert_eq!(fetched("", header).await, 200, "{name}: {value}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn data_is_read_with_the_token_alone_and_the_page_without_it() {
    let account = Account::start().await;
    fill(&account).await;
    let serving = Serving::start(&account, &[]);
    let (address, token) = serving.parts();
    let status = async |path: &str, token: Option<&str>| {
        let request = http().get(format!("{address}/{path}"));
        let request = match token {
            Some(token) => request.header("x-cdb-token", token),
            None => request,
        };
        request.send().await.expect("an answer").status().as_u16()
    };
    for path in [
        "api/about",
        "api/overview",
        "api/instances",
        "api/instances/order-1",
        "api/instances/order-1/history",
        "api/instances/order-1/tree",
        "api/instances/order-1/live",
        "api/queues",
        "api/messages",
    ] {
        for wrong in [None, Some(""), Some("0123"), Some(&*"0".repeat(32))] {
            assert_eq!(status(path, wrong).await, 403, "{path}: {wrong:?}");
        }
        assert_eq!(status(path, Some(token)).await, 200, "{path}");
        let wrong = format!("{path}?token=0123");
        assert_eq!(status(&wrong, None).await, 403, "{wrong}");
        let right = format!("{path}?since=1&token={token}");
        assert_eq!(status(&right, None).await, 200, "{path}");
    }
    for path in ["", "app.js", "style.css"] {
        assert_eq!(status(path, None).await, 200, "{path}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn changes_need_the_option_and_the_token() {
    let account = Account::start().await;
    fill(&account).await;
    let watching = Serving::start(&account, &[]);
    assert_eq!(cancel(&watching, &[("x-cdb-token", "")]).await, 403);
    let read_only = watching.parts().1;
    assert_eq!(cancel(&watching, &[("x-cdb-token", read_only)]).await, 403);
    let acting = Serving::start(&account, &["--allow-actions"]);
    let token = acting.parts().1;
    assert_eq!(token.len(), 32, "{}", acting.address);
    for wrong in ["", "0123", &"0".repeat(32)] {
        assert_eq!(
            cancel(&acting, &[("x-cdb-token", wrong)]).await,
            403,
            "{wrong}"
        );
    }
    assert_eq!(cancel(&acting, &[]).await, 403);
    assert_eq!(
        cancel(&acting, &[("x-cdb-token", token), ("host", "evil.example")]).await,
        421
    );
    let before = account.cdb("instances show order-2").await;
    assert!(!before.out.contains("CancelInstance"), "{before:?}");
    assert_eq!(cancel(&acting, &[("x-cdb-token", token)]).await, 200);
    let after = account.cdb("instances show order-2").await;
    after.prints("CancelInstance: test");
}
