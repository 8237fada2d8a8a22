//! The files of the page, compiled into the program.

use axum::extract::Path;
use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::response::{Html, IntoResponse, Response};

const FILES: [(&str, &str); 13] = [
    ("style.css", include_str!("page/style.css")),
    ("app.js", include_str!("page/app.js")),
    ("ask.js", include_str!("page/ask.js")),
    ("dom.js", include_str!("page/dom.js")),
    ("deadletters.js", include_str!("page/deadletters.js")),
    ("instances.js", include_str!("page/instances.js")),
    ("instance.js", include_str!("page/instance.js")),
    ("live.js", include_str!("page/live.js")),
    ("overview.js", include_str!("page/overview.js")),
    ("selection.js", include_str!("page/selection.js")),
    ("timeline.js", include_str!("page/timeline.js")),
    ("retrying.js", include_str!("page/retrying.js")),
    ("queues.js", include_str!("page/queues.js")),
];

pub(super) async fn index() -> Html<&'static str> {
    Html(include_str!("page/index.html"))
}

pub(super) async fn file(Path(name): Path<String>) -> Response {
    let Some((name, text)) = FILES.iter().find(|(known, _)| *known == name) else {
        return (StatusCode::NOT_FOUND, "no such file").into_response();
    };
    let kind = match *name {
        "style.css" => "text/css",
        _ => "text/javascript",
    };
    ([(CONTENT_TYPE, format!("{kind}; charset=utf-8"))], *text).into_response()
}
