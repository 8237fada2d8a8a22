//! The emulator's admin routes, by one request per connection: all that is needed of HTTP here.

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// Asks `method` of `path` with a JSON body, and returns the body of a successful answer.
pub(crate) async fn admin(
    port: u16,
    method: &str,
    path: &str,
    body: &str,
) -> Result<String, String> {
    let exchange = async {
        let mut stream = TcpStream::connect(("127.0.0.1", port)).await?;
        let length = body.len();
        let request = format!(
            "{method} {path} HTTP/1.1\r\nHost: localhost:{port}\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{body}"
        );
        stream.write_all(request.as_bytes()).await?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await?;
        Ok::<_, std::io::Error>(answer)
    };
    let answer = exchange.await.map_err(|error| error.to_string())?;
    let (head, body) = answer.split_once("\r\n\r\n").unwrap_or((&answer, ""));
    let status = head.split(' ').nth(1).unwrap_or_default();
    if status.starts_with('2') {
        Ok(body.to_owned())
    } else {
        Err(format!("{method} {path}: {head}\n{body}"))
    }
}
