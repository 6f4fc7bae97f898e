//! A connection that ends at a time, however little is moved each time.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

/// `stream` until `until`.
pub struct Until<'c, S> {
    /// The connection.
    pub stream: &'c S,
    /// From then on nothing is moved any more.
    pub until: Instant,
}

/// A connection whose reads and writes may be bounded in time.
pub trait Timed {
    /// See [`UnixStream::set_read_timeout`].
    fn limit_reads(&self, limit: Duration) -> io::Result<()>;
    /// See [`UnixStream::set_write_timeout`].
    fn limit_writes(&self, limit: Duration) -> io::Result<()>;
}

impl Timed for UnixStream {
    fn limit_reads(&self, limit: Duration) -> io::Result<()> {
        self.set_read_timeout(Some(limit))
    }

    fn limit_writes(&self, limit: Duration) -> io::Result<()> {
        self.set_write_timeout(Some(limit))
    }
}

impl Timed for TcpStream {
    fn limit_reads(&self, limit: Duration) -> io::Result<()> {
        self.set_read_timeout(Some(limit))
    }

    fn limit_writes(&self, limit: Duration) -> io::Result<()> {
        self.set_write_timeout(Some(limit))
    }
}

impl<S> Until<'_, S> {
    fn left(&self) -> io::Result<Duration> {
        match self.until.saturating_duration_since(Instant::now()) {
            Duration::ZERO => Err(io::ErrorKind::TimedOut.into()),
            left => Ok(left),
        }
    }
}

impl<'c, S: Timed> Read for Until<'c, S>
where
    &'c S: Read,
{
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        self.stream.limit_reads(self.left()?)?;
        self.stream.read(buf)
    }
}

impl<'c, S: Timed> Write for Until<'c, S>
where
    &'c S: Write,
{
    fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        self.stream.limit_writes(self.left()?)?;
        self.stream.write(buf)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
