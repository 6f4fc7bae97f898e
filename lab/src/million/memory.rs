//! Resident memory as the kernel tells it, each page once.
//!
//! `VmRSS` counts a page of the arena twice, because it is mapped twice (read-only and as the door's window); the
//! proportional set size counts it once. Swapped pages are counted, too.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

/// How often the memory is looked at. A look costs milliseconds, in which no page can be mapped.
const EVERY: Duration = Duration::from_millis(400);

/// Pages of this process, each once, in KiB: all, and those of memfds called `keepfs-arena`.
pub fn resident_kib() -> (u64, u64) {
    let maps = std::fs::read_to_string("/proc/self/smaps").unwrap_or_default();
    let (mut all, mut arena, mut in_arena) = (0, 0, false);
    for line in maps.lines() {
        let mut words = line.split_whitespace();
        match words.next() {
            Some("Pss:" | "SwapPss:") => {
                let kib: u64 = words.next().and_then(|n| n.parse().ok()).unwrap_or(0);
                all += kib;
                arena += if in_arena { kib } else { 0 };
            }
            Some(word) if !word.ends_with(':') => in_arena = line.contains("memfd:keepfs-arena"),
            _ => {}
        }
    }
    (all, arena)
}

#[derive(Default)]
struct Shared {
    stop: AtomicBool,
    peak_kib: AtomicU64,
}

impl Shared {
    fn look(&self) -> u64 {
        let (all, arena) = resident_kib();
        let beside = all.saturating_sub(arena);
        self.peak_kib.fetch_max(beside, Ordering::Relaxed);
        beside
    }
}

/// Looks again and again and keeps the peak.
pub struct Sampler {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

impl Sampler {
    /// Starts looking.
    pub fn start() -> Sampler {
        let shared = Arc::new(Shared::default());
        let looks = shared.clone();
        let thread = std::thread::spawn(move || {
            while !looks.stop.load(Ordering::Relaxed) {
                looks.look();
                std::thread::park_timeout(EVERY);
            }
        });
        Sampler {
            shared,
            thread: Some(thread),
        }
    }

    /// KiB beside the arena now.
    pub fn beside_now_kib(&self) -> u64 {
        self.shared.look()
    }

    /// Ends it; the peak of KiB beside the arena.
    pub fn peak_kib(mut self) -> u64 {
        self.end();
        self.shared.peak_kib.load(Ordering::Relaxed)
    }

    fn end(&mut self) {
        self.shared.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            thread.thread().unpark();
            // It cannot have panicked in a way that matters here.
            let _ = thread.join();
        }
    }
}

impl Drop for Sampler {
    fn drop(&mut self) {
        self.end();
    }
}
