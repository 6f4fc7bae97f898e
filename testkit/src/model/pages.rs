//! The contents of a regular file: sparse 4 KiB pages, so that offsets up to the limit cost nothing.
//!
//! Invariants: **P-1** every written page is allocated; **P-2** bytes of a written page at or behind the end of
//! the file are zero; **P-3** a page that is not written reads as zeros, allocated or not.

use std::collections::BTreeMap;

use super::ranges::Ranges;

/// Bytes of a page, the granularity of holes.
pub(super) const PAGE_BYTES: u64 = 4096;

type Page = Box<[u8; PAGE_BYTES as usize]>;

/// Contents and size of one file.
#[derive(Clone, Default)]
pub(super) struct Pages {
    size: u64,
    allocated: Ranges,
    written: BTreeMap<u64, Page>,
}

/// The page of a byte and the byte's place in it.
fn place(offset: u64) -> (u64, usize) {
    (offset / PAGE_BYTES, (offset % PAGE_BYTES) as usize)
}

impl Pages {
    /// Length of the file, bytes.
    pub(super) fn size(&self) -> u64 {
        self.size
    }

    /// How many pages are allocated.
    pub(super) fn allocated_pages(&self) -> u64 {
        self.allocated.count()
    }

    /// Reads at `offset`; returns how many bytes there were.
    pub(super) fn read(&self, offset: u64, buf: &mut [u8]) -> usize {
        let count = self.size.saturating_sub(offset).min(buf.len() as u64) as usize;
        let mut done = 0;
        while done < count {
            let (page, at) = place(offset + done as u64);
            let n = (count - done).min(PAGE_BYTES as usize - at);
            match self.written.get(&page) {
                Some(bytes) => buf[done..done + n].copy_from_slice(&bytes[at..at + n]),
                None => buf[done..done + n].fill(0),
            }
            done += n;
        }
        count
    }

    /// Writes `data` at `offset` and extends the size if need be.
    pub(super) fn write(&mut self, offset: u64, data: &[u8]) {
        let mut done = 0;
        while done < data.len() {
            let (page, at) = place(offset + done as u64);
            let n = (data.len() - done).min(PAGE_BYTES as usize - at);
            let bytes = self
                .written
                .entry(page)
                .or_insert_with(|| Box::new([0; PAGE_BYTES as usize]));
            bytes[at..at + n].copy_from_slice(&data[done..done + n]);
            self.allocated.insert(page, page + 1);
            done += n;
        }
        self.size = self.size.max(offset + data.len() as u64);
    }

    /// Truncates or extends.
    pub(super) fn resize(&mut self, size: u64) {
        if size <= self.size {
            self.free(size.div_ceil(PAGE_BYTES), u64::MAX);
            self.zero_written(size, size.next_multiple_of(PAGE_BYTES));
        }
        self.size = size;
    }

    /// Extends the size to `end` if it is smaller.
    pub(super) fn extend(&mut self, end: u64) {
        self.size = self.size.max(end);
    }

    /// Allocates the pages that `start..end` touches.
    pub(super) fn allocate(&mut self, start: u64, end: u64) {
        self.allocated.insert(start / PAGE_BYTES, end.div_ceil(PAGE_BYTES));
    }

    /// Frees the pages within `start..end` and zeroes what it covers of others (M-1).
    pub(super) fn punch(&mut self, start: u64, end: u64) {
        let (first, last) = (start.div_ceil(PAGE_BYTES), end / PAGE_BYTES);
        self.free(first, last);
        if first > last {
            self.zero_written(start, end);
        } else {
            self.zero_written(start, first * PAGE_BYTES);
            self.zero_written(last * PAGE_BYTES, end);
        }
    }

    /// Makes `start..end` read as zeros and keeps it allocated.
    pub(super) fn zero(&mut self, start: u64, end: u64) {
        self.punch(start, end);
        self.allocate(start, end);
    }

    /// The written pieces within `start..end`, as (offset, bytes), in order.
    pub(super) fn written_pieces(&self, start: u64, end: u64) -> Vec<(u64, Vec<u8>)> {
        let piece = |(&page, bytes): (&u64, &Page)| {
            let base = page * PAGE_BYTES;
            let from = start.max(base);
            let to = end.min(base + PAGE_BYTES);
            (from, bytes[(from - base) as usize..(to - base) as usize].to_vec())
        };
        self.written
            .range(start / PAGE_BYTES..end.div_ceil(PAGE_BYTES))
            .map(piece)
            .collect()
    }

    /// The first byte of data at or behind `offset`, if the file has one there.
    pub(super) fn next_data(&self, offset: u64) -> Option<u64> {
        let page = self.allocated.first_member(offset / PAGE_BYTES)?;
        let at = offset.max(page.saturating_mul(PAGE_BYTES));
        (at < self.size).then_some(at)
    }

    /// The first byte of a hole at or behind `offset`; the end of the file counts as one.
    pub(super) fn next_hole(&self, offset: u64) -> u64 {
        let page = self.allocated.first_gap(offset / PAGE_BYTES);
        offset.max(page.saturating_mul(PAGE_BYTES)).min(self.size)
    }

    /// Frees the pages `first..last`.
    fn free(&mut self, first: u64, last: u64) {
        if first >= last {
            return;
        }
        self.allocated.remove(first, last);
        let gone: Vec<u64> = self.written.range(first..last).map(|(&page, _)| page).collect();
        for page in gone {
            self.written.remove(&page);
        }
    }

    /// Zeroes `start..end`, which lies in one page, if that page is written.
    fn zero_written(&mut self, start: u64, end: u64) {
        let (page, at) = place(start);
        if start < end
            && let Some(bytes) = self.written.get_mut(&page)
        {
            bytes[at..at + (end - start) as usize].fill(0);
        }
    }
}
