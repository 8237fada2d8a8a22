//! The sockets of an emulator: one for the account, one per region.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use tokio::net::{TcpListener, TcpSocket};

use super::http::Endpoint;
use crate::account::{EmulatorError, Settings};

/// Connections that the operating system queues until the server accepts them; its own limit may be
/// lower. A client that finds the queue full retries after a second.
const BACKLOG: u32 = 4096;

impl Settings {
    /// Listens on the global endpoint and on those of the regions. Returns the listeners and their
    /// addresses.
    pub(crate) fn listen_all(&self) -> Result<(Vec<Endpoint>, Vec<String>), EmulatorError> {
        let (listener, address) = self.listen(self.port)?;
        let mut endpoints = vec![(listener, None)];
        let mut addresses = vec![address.to_string()];
        let mut port = self.port;
        for region in 0..self.regions.len() {
            // Port 0 stands for any free port.
            port = if port == 0 { 0 } else { port.saturating_add(1) };
            let (listener, address) = self.listen(port)?;
            endpoints.push((listener, Some(region)));
            addresses.push(address.to_string());
        }
        Ok((endpoints, addresses))
    }

    fn listen(&self, port: u16) -> Result<(TcpListener, SocketAddr), EmulatorError> {
        let refuse = |source: std::io::Error| match source.kind() {
            std::io::ErrorKind::AddrInUse => EmulatorError::PortInUse { port },
            _ => EmulatorError::Listen {
                address: SocketAddr::new(self.host, port),
                source,
            },
        };
        let socket = match self.host {
            IpAddr::V4(_) => TcpSocket::new_v4(),
            IpAddr::V6(_) => TcpSocket::new_v6(),
        };
        let socket = socket.map_err(refuse)?;
        // Like the standard library on Unix: a restart need not wait for the connections of the
        // last run.
        #[cfg(unix)]
        socket.set_reuseaddr(true).map_err(refuse)?;
        socket
            .bind(SocketAddr::new(self.host, port))
            .map_err(refuse)?;
        let listener = socket.listen(BACKLOG).map_err(refuse)?;
        let mut address = listener.local_addr().map_err(refuse)?;
        // No client can connect to 0.0.0.0; on this machine it reaches the listener so.
        if self.host.is_unspecified() {
            address.set_ip(Ipv4Addr::LOCALHOST.into());
        }
        Ok((listener, address))
    }
}
