//! A network that shifts the service's time by ten seconds, in simulated or in real time.

use std::time::Duration;

use async_trait::async_trait;
use cdb_client::transport::{
    Delivery, HttpRequest, HttpResponse, SimulatedTime, Transport, TransportError,
};
use http::header::DATE;

const APART: Duration = Duration::from_secs(10);

/// The network of one client.
#[derive(Debug)]
pub(crate) struct Skewed {
    /// The simulated network of a test with a paused clock.
    time: Option<SimulatedTime>,
    http: reqwest::Client,
    ahead: bool,
}

impl Skewed {
    pub(crate) fn new(time: Option<SimulatedTime>, ahead: bool) -> Self {
        // Installed once per process.
        let _installed = rustls::crypto::ring::default_provider().install_default();
        let http = reqwest::Client::builder()
            .no_proxy()
            .build()
            .expect("it is well-formed");
        Self { time, http, ahead }
    }

    async fn send_in_real_time(
        &self,
        request: HttpRequest,
    ) -> Result<HttpResponse, TransportError> {
        let sent = self
            .http
            .request(request.method, &request.url)
            .headers(request.headers)
            .body(request.body);
        let answer = sent.send().await.map_err(failed)?;
        let (status, headers) = (answer.status().as_u16(), answer.headers().clone());
        let body = answer.bytes().await.map_err(failed)?;
        Ok(HttpResponse {
            status,
            headers,
            body,
        })
    }

    fn shown(&self, date: &str) -> String {
        let date = httpdate::parse_http_date(date).expect("it is well-formed");
        httpdate::fmt_http_date(if self.ahead {
            date + APART
        } else {
            date - APART
        })
    }
}

fn failed(error: reqwest::Error) -> TransportError {
    TransportError {
        delivery: Delivery::Unknown,
        message: error.to_string(),
        source: Some(Box::new(error)),
    }
}

#[async_trait]
impl Transport for Skewed {
    async fn send(&self, request: HttpRequest) -> Result<HttpResponse, TransportError> {
        let mut answer = match &self.time {
            Some(time) => time.send(request).await?,
            None => self.send_in_real_time(request).await?,
        };
        if let Some(date) = answer.headers.get(DATE) {
            let shown = self.shown(date.to_str().expect("it is well-formed"));
            let shown = shown.parse().expect("it is well-formed");
            answer.headers.insert(DATE, shown);
        }
        Ok(answer)
    }
}
