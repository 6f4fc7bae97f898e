//! What a workload counts: operations, bytes, time, and how long each call took.

use hdrhistogram::Histogram;
use std::io;
use std::time::{Duration, Instant};

/// Longest time that is told apart, ns.
const LONGEST_NS: u64 = 60_000_000_000;

/// Times of calls, ns, to two digits.
#[derive(Clone, Debug)]
pub struct Times(Histogram<u64>);

impl Times {
    fn new() -> Times {
        // The bounds are constants that the crate accepts; without them nothing could be counted.
        let histogram = Histogram::new_with_bounds(1, LONGEST_NS, 2);
        Times(histogram.unwrap_or_else(|_| unreachable!("constant bounds")))
    }

    /// Counts one call.
    pub fn count(&mut self, time: Duration) {
        let ns = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        self.0.saturating_record(ns);
    }

    /// Below what time, in us, this part of all calls stayed; 0 if there were none.
    fn below_us(&self, part: f64) -> f64 {
        match self.0.is_empty() {
            true => 0.0,
            false => self.0.value_at_quantile(part) as f64 / 1e3,
        }
    }

    fn add(&mut self, other: &Times) {
        // Both have the same bounds.
        let _fits = self.0.add(&other.0);
    }
}

/// What a workload did.
#[derive(Clone, Debug)]
pub struct Done {
    /// Operations, as the workload counts them.
    pub operations: u64,
    /// Threads that did them.
    pub threads: u64,
    /// fsync calls among them.
    pub fsyncs: u64,
    /// Bytes of file data read and written.
    pub bytes: u64,
    /// How long the measured part took.
    pub seconds: f64,
    /// How long the sync at the end took; part of `seconds` where the workload is a job with an end.
    pub sync_seconds: f64,
    /// A job that is timed as a whole: its seconds are the figure, not its operations a second.
    pub whole: bool,
    /// Each operation.
    pub times: Times,
    /// Each fsync.
    pub fsync_times: Times,
}

impl Default for Done {
    fn default() -> Done {
        Done {
            operations: 0,
            threads: 1,
            fsyncs: 0,
            bytes: 0,
            seconds: 0.0,
            sync_seconds: 0.0,
            whole: false,
            times: Times::new(),
            fsync_times: Times::new(),
        }
    }
}

impl Done {
    /// Does one operation and counts it.
    pub fn timed<T>(&mut self, operation: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
        let start = Instant::now();
        let done = operation()?;
        self.times.count(start.elapsed());
        self.operations += 1;
        Ok(done)
    }

    /// Does an fsync; it is counted among fsyncs only.
    pub fn fsync(&mut self, sync: impl FnOnce() -> io::Result<()>) -> io::Result<()> {
        let start = Instant::now();
        sync()?;
        self.fsync_times.count(start.elapsed());
        self.fsyncs += 1;
        Ok(())
    }

    /// Takes what another thread did into this.
    pub fn join(&mut self, other: &Done) {
        self.operations += other.operations;
        self.fsyncs += other.fsyncs;
        self.bytes += other.bytes;
        self.times.add(&other.times);
        self.fsync_times.add(&other.fsync_times);
    }

    /// One line.
    pub fn json(&self) -> String {
        format!(
            r#"{{"operations":{},"threads":{},"fsyncs":{},"bytes":{},"seconds":{},"sync_seconds":{},"whole":{},"p50_us":{},"p99_us":{},"fsync_p50_us":{},"fsync_p99_us":{}}}"#,
            self.operations,
            self.threads,
            self.fsyncs,
            self.bytes,
            self.seconds,
            self.sync_seconds,
            self.whole,
            self.times.below_us(0.5),
            self.times.below_us(0.99),
            self.fsync_times.below_us(0.5),
            self.fsync_times.below_us(0.99),
        )
    }
}
