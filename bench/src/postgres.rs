//! A private PostgreSQL for the peer that needs one, and the round trip in front of it.
//!
//! The programs are searched on PATH and in Debian's folder. PostgreSQL refuses to run as root, so
//! for root it runs as the unprivileged user 65534. The proxy counts messages of the wire protocol
//! that are one round trip each: Sync and simple queries (PostgreSQL documentation, "Message
//! Flow").

use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tempfile::TempDir;
use tokio::net::{TcpListener, TcpStream};

use crate::proxy::{Counters, Proxy};
use crate::site::Traffic;

/// A server that is stopped, and its data removed, when this is dropped.
#[derive(Debug)]
pub struct Postgres {
    server: Child,
    port: u16,
    schemas: AtomicU64,
    _directory: TempDir,
}

impl Postgres {
    /// Starts a server. Fails with the reason.
    pub async fn start() -> Result<Self, String> {
        let directory = tempfile::tempdir().map_err(|error| error.to_string())?;
        let data = directory.path().join("data");
        if is_root() {
            // The unprivileged user creates its files here.
            let open = std::fs::Permissions::from_mode(0o777);
            std::fs::set_permissions(directory.path(), open).map_err(|error| error.to_string())?;
        }
        let made = command("initdb")?
            .args([
                "--auth=trust",
                "--username=bench",
                "--no-sync",
                "--encoding=UTF8",
                "--locale=C",
                "-D",
            ])
            .arg(&data)
            .stdout(Stdio::null())
            .status()
            .map_err(|error| format!("initdb: {error}"))?;
        if !made.success() {
            return Err("initdb failed; the reason is in its output above".to_owned());
        }
        let port = free_port().await?;
        let server = command("postgres")?
            .arg("-D")
            .arg(&data)
            .args([
                "-p",
                &port.to_string(),
                "-h",
                "127.0.0.1",
                "-k",
                "",
                "-c",
                "max_connections=200",
            ])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .map_err(|error| format!("postgres: {error}"))?;
        let postgres = Self {
            server,
            port,
            schemas: AtomicU64::new(0),
            _directory: directory,
        };
        postgres.wait().await?;
        Ok(postgres)
    }

    async fn wait(&self) -> Result<(), String> {
        for _ in 0..100 {
            if TcpStream::connect(("127.0.0.1", self.port)).await.is_ok() {
                return Ok(());
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        Err("PostgreSQL did not listen within ten seconds".to_owned())
    }

    /// A schema of its own behind a round trip of its own.
    pub async fn schema(&self, latency: Duration) -> Result<Schema<'_>, String> {
        let counters = Arc::new(Counters::default());
        counters.set_latency(latency);
        let proxy = Proxy::start(self.port, counters.clone()).await?;
        let number = self.schemas.fetch_add(1, Ordering::Relaxed);
        Ok(Schema {
            _server: self,
            proxy,
            counters,
            number,
        })
    }
}

impl Drop for Postgres {
    fn drop(&mut self) {
        // The server was started only for this benchmark. It may have ended already.
        let _killed = self.server.kill();
        let _waited = self.server.wait();
    }
}

/// A schema and its traffic.
#[derive(Debug)]
pub struct Schema<'a> {
    _server: &'a Postgres,
    proxy: Proxy,
    counters: Arc<Counters>,
    number: u64,
}

impl Schema<'_> {
    /// How the provider connects.
    pub fn url(&self) -> String {
        format!(
            "postgres://bench@127.0.0.1:{}/postgres?sslmode=disable",
            self.proxy.port()
        )
    }

    /// The schema's name.
    pub fn name(&self) -> String {
        format!("bench_{}", self.number)
    }

    /// Changes the round trip.
    pub fn set_latency(&self, latency: Duration) {
        self.counters.set_latency(latency);
    }

    /// Resets the counters.
    pub fn reset(&self) {
        self.counters.reset();
    }

    /// Returns the counters.
    pub fn traffic(&self) -> Traffic {
        let (syncs, bytes) = self.counters.read();
        Traffic {
            kinds: [("statement".to_owned(), syncs)].into(),
            charge: None,
            bytes,
            ..Traffic::default()
        }
    }
}

fn is_root() -> bool {
    Command::new("id")
        .arg("-u")
        .output()
        .is_ok_and(|output| output.stdout.trim_ascii() == b"0")
}

/// A program of PostgreSQL, as a user that it accepts.
fn command(program: &str) -> Result<Command, String> {
    let path = find(program).ok_or_else(|| format!("{program} is not on PATH"))?;
    if !is_root() {
        return Ok(Command::new(path));
    }
    let mut command = Command::new("setpriv");
    command
        .args([
            "--reuid=65534",
            "--regid=65534",
            "--clear-groups",
            "--pdeathsig=TERM",
        ])
        .arg(path);
    Ok(command)
}

fn find(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let debian = std::fs::read_dir("/usr/lib/postgresql")
        .into_iter()
        .flatten()
        .flatten();
    let debian = debian.map(|version| version.path().join("bin"));
    let mut candidates = std::env::split_paths(&path)
        .chain(debian)
        .map(|folder| folder.join(program));
    candidates.find(|candidate| Path::is_file(candidate))
}

async fn free_port() -> Result<u16, String> {
    let listener = TcpListener::bind(("127.0.0.1", 0))
        .await
        .map_err(|error| error.to_string())?;
    listener
        .local_addr()
        .map(|address| address.port())
        .map_err(|error| error.to_string())
}
