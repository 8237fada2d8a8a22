//! Whether anything listens where an emulator on this machine should be. The client would ask again until its deadline, as
//! a service far away deserves; here a refusal means that nothing was started, and half a minute of silence says less.

use std::io::ErrorKind;
use std::net::{SocketAddr, TcpStream, ToSocketAddrs};
use std::time::Duration;

use cdb_client::http::Uri;

use crate::exit::{Exit, Failure};

/// How often a script that starts an emulator and goes on is given another chance.
const CHANCES: u32 = 10;

/// The time between two of them.
const BETWEEN: Duration = Duration::from_millis(150);

/// Waits for a listener at a loopback address, not for long.
///
/// # Errors
/// When every address refuses. What else can be wrong, the client says better.
pub(crate) fn wait(endpoint: &str) -> Result<(), Failure> {
    wait_with(endpoint, || std::thread::sleep(BETWEEN))
}

fn wait_with(endpoint: &str, mut pause: impl FnMut()) -> Result<(), Failure> {
    let addresses = addresses(endpoint);
    for chance in 0..CHANCES {
        if addresses.is_empty() || !addresses.iter().all(refuses) {
            return Ok(());
        }
        if chance + 1 < CHANCES {
            pause();
        }
    }
    Err(Failure {
        exit: Exit::Service,
        message: format!("nothing listens at {endpoint}"),
        remedy: Some("start an emulator there, `{cdb} emulator`, or name another --endpoint"),
    })
}

fn refuses(address: &SocketAddr) -> bool {
    TcpStream::connect_timeout(address, Duration::from_secs(1))
        .is_err_and(|error| error.kind() == ErrorKind::ConnectionRefused)
}

/// None where the endpoint has no form that we know.
fn addresses(endpoint: &str) -> Vec<SocketAddr> {
    let Ok(uri) = endpoint.parse::<Uri>() else {
        return Vec::new();
    };
    let (Some(scheme), Some(host)) = (uri.scheme_str(), uri.host()) else {
        return Vec::new();
    };
    let usual = if scheme == "https" { 443 } else { 80 };
    let host = host.trim_matches(['[', ']']);
    (host, uri.port_u16().unwrap_or(usual))
        .to_socket_addrs()
        .map(Iterator::collect)
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    #[test]
    fn what_listens_late_is_waited_for_and_what_never_does_is_named() {
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
    fn a_port_that_is_not_named_is_the_schemes() {
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
