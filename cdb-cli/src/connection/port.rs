//! Waits until the port of a local emulator is open.
//!
//! On loopback a refused connection means that no emulator is running. The client would retry until
//! its deadline of half a minute; this check fails after 1.5 seconds.

use std::io::ErrorKind;
use std::net::{SocketAddr, TcpStream, ToSocketAddrs};
use std::time::Duration;

use cdb_client::transport::http::Uri;

use crate::exit::remedy::NO_EMULATOR;
use crate::exit::{Exit, Failure};

/// The number of attempts: a script may have started the emulator just before.
const ATTEMPTS: u32 = 10;

/// The pause between two attempts.
const PAUSE: Duration = Duration::from_millis(150);

/// Waits for a listener at a loopback address.
///
/// # Errors
/// When every address refuses connections. The client reports any other error.
pub(crate) fn wait(endpoint: &str) -> Result<(), Failure> {
    wait_with(endpoint, || std::thread::sleep(PAUSE))
}

fn wait_with(endpoint: &str, mut pause: impl FnMut()) -> Result<(), Failure> {
    let addresses = addresses(endpoint);
    for attempt in 1..=ATTEMPTS {
        if addresses.is_empty() || !addresses.iter().all(refuses) {
            return Ok(());
        }
        if attempt < ATTEMPTS {
            pause();
        }
    }
    Err(Failure {
        exit: Exit::Service,
        message: format!("nothing listens at {endpoint}"),
        remedy: Some(NO_EMULATOR),
    })
}

fn refuses(address: &SocketAddr) -> bool {
    TcpStream::connect_timeout(address, Duration::from_secs(1))
        .is_err_and(|error| error.kind() == ErrorKind::ConnectionRefused)
}

/// Resolves the host of an endpoint. Returns no address when the endpoint is not a URL.
fn addresses(endpoint: &str) -> Vec<SocketAddr> {
    let Ok(uri) = endpoint.parse::<Uri>() else {
        return Vec::new();
    };
    let (Some(scheme), Some(host)) = (uri.scheme_str(), uri.host()) else {
        return Vec::new();
    };
    let default_port = if scheme == "https" { 443 } else { 80 };
    let host = host.trim_matches(['[', ']']);
    (host, uri.port_u16().unwrap_or(default_port))
        .to_socket_addrs()
        .map(Iterator::collect)
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    #[test]
    fn a_late_listener_is_awaited_and_a_missing_one_is_an_error() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let endpoint = format!("http://{address}/");
        assert!(wait(&endpoint).is_ok());
        drop(listener);
        let failure = wait(&endpoint).unwrap_err();
        assert_eq!(failure.exit, Exit::Service);
        assert!(
            failure.text("shop").contains("`shop emulator`"),
            "{failure}"
        );
        let mut late = None;
        let found = wait_with(&endpoint, || {
            late.get_or_insert_with(|| TcpListener::bind(address).unwrap());
        });
        assert!(found.is_ok());
        assert!(late.is_some(), "nothing listened at first");
    }

    #[test]
    fn an_endpoint_without_a_port_uses_the_port_of_its_scheme() {
        for (endpoint, port) in [
            ("https://127.0.0.1", 443),
            ("http://127.0.0.1/", 80),
            ("http://[::1]:8081/", 8081),
        ] {
            let ports: Vec<u16> = addresses(endpoint).iter().map(SocketAddr::port).collect();
            assert_eq!(ports, [port], "{endpoint}");
        }
        assert!(addresses("localhost:1").is_empty());
    }
}
