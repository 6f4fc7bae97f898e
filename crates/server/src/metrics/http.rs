//! As much of HTTP/1.1 as a scrape needs: one request a connection, of at most [`REQUEST_MAX`] bytes, whole within [`PATIENCE`]
//! (decision 0846).

use super::text;
use crate::clients::{Client, Clients};
use crate::until::Until;
use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream, ToSocketAddrs};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

/// Longest head of a request, bytes; none has a body.
const REQUEST_MAX: usize = 8192;
/// What may follow on what is refused, bytes.
const REST_MAX: u64 = 1 << 16;
/// How an answer begins that refuses nothing.
const OK: &str = "HTTP/1.1 200 ";
/// How long a client may take to ask, and again to take the answer.
const PATIENCE: Duration = Duration::from_secs(5);
/// Clients at a time.
const CLIENTS_MAX: usize = 8;

/// A socket on which scrapes come.
pub struct Listening {
    listener: TcpListener,
    /// Where.
    pub address: SocketAddr,
}

impl Listening {
    /// Listens. A port alone is one of this machine only, and so is a missing address. Errors: those of the system.
    pub fn at(address: &str) -> io::Result<Listening> {
        let address = match address.strip_prefix(':').unwrap_or(address) {
            port if port.parse::<u16>().is_ok() => format!("127.0.0.1:{port}"),
            whole => whole.to_owned(),
        };
        let listener = TcpListener::bind(&*address.to_socket_addrs()?.collect::<Vec<_>>())?;
        let address = listener.local_addr()?;
        Ok(Listening { listener, address })
    }

    /// Answers until the process ends.
    pub fn serve(self, page: impl Fn() -> String + Send + Sync + 'static) -> ! {
        let desk = Arc::new(Desk { page: Box::new(page) });
        let clients = Clients::new(CLIENTS_MAX, "keepfs-scrape");
        loop {
            match self.listener.accept() {
                Ok((client, _)) => {
                    let desk = desk.clone();
                    clients.hear(client, move |client| {
                        if let Err(error) = desk.answer(client) {
                            tracing::debug!(%error, "a scrape went away");
                        }
                    });
                }
                // The client went away, or there are no descriptors until one does.
                Err(error) => {
                    tracing::warn!(%error, "a scrape was not heard");
                    thread::sleep(Duration::from_millis(100));
                }
            }
        }
    }
}

struct Desk {
    page: Box<dyn Fn() -> String + Send + Sync>,
}

impl Desk {
    fn answer(&self, client: &Client<TcpStream>) -> io::Result<()> {
        let stream = &*client.connection;
        let until = Instant::now() + PATIENCE;
        let reply = match head(Until { stream, until }) {
            Ok(head) => {
                client.is_answered(true);
                self.reply(&head)
            }
            Err(error) if error.kind() == io::ErrorKind::FileTooLarge => reply(
                "431 Request Header Fields Too Large",
                "",
                "the request is too long\n",
                true,
            ),
            Err(error) => return Err(error),
        };
        let until = Instant::now() + PATIENCE;
        Until { stream, until }.write_all(reply.as_bytes())?;
        stream.shutdown(Shutdown::Write)?;
        if !reply.starts_with(OK) {
            // What was not read would take the refusal away from its client (a reset).
            client.is_answered(false);
            io::copy(&mut Until { stream, until }.take(REST_MAX), &mut io::sink())?;
        }
        Ok(())
    }

    fn reply(&self, head: &str) -> String {
        let line = head.lines().next().unwrap_or_default();
        let words: Vec<&str> = line.split(' ').collect();
        let [method, target, version] = words[..] else {
            return reply("400 Bad Request", "", "this is no request of HTTP/1.1\n", true);
        };
        if !version.starts_with("HTTP/1.") {
            return reply("505 HTTP Version Not Supported", "", "HTTP/1.1 is spoken here\n", true);
        }
        let with_body = match method {
            "GET" => true,
            "HEAD" => false,
            _ => {
                return reply(
                    "405 Method Not Allowed",
                    "Allow: GET, HEAD\r\n",
                    "only GET is answered\n",
                    true,
                );
            }
        };
        match target.split('?').next() {
            Some("/metrics") => reply("200 OK", "", &(self.page)(), with_body),
            _ => reply("404 Not Found", "", "the metrics are at /metrics\n", with_body),
        }
    }
}

/// The request's line and fields. Errors: `FileTooLarge`, it is too long; those of the connection.
fn head(mut client: impl Read) -> io::Result<String> {
    let mut bytes = Vec::new();
    let mut part = [0; 1024];
    while !bytes.windows(4).any(|four| four == b"\r\n\r\n") {
        if bytes.len() >= REQUEST_MAX {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        match client.read(&mut part)? {
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            read => bytes.extend(part.iter().take(read)),
        }
    }
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

fn reply(status: &str, fields: &str, body: &str, with_body: bool) -> String {
    let (kind, length) = (text::TYPE, body.len());
    let body = if with_body { body } else { "" };
    format!(
        "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {length}\r\n{fields}Cache-Control: no-store\r\nConnection: close\r\n\r\n{body}"
    )
}

#[cfg(test)]
mod tests;
