//! The region on the device: two halves, each with all records, written in turn (S-18.2, S-18.3).

use crate::switch::Switch;
use keepfs_codes::crc64;
use keepfs_format::history::{self, HEAD, HEAD_COVERED, Head, MAGIC, Record};
use keepfs_format::plog::Run;
use keepfs_format::{FromBytes, IntoBytes, PAGE, PoolId};
use keepfs_media::{Class, Device, DeviceError, PageNo};
use std::sync::Arc;

/// What the device refused.
pub enum Failed {
    /// The half is not written; the other one holds.
    Write(DeviceError),
    /// Nothing that was written since the last good flush may be relied on, whoever wrote it.
    Flush(DeviceError),
}

/// Where (S-18.1), and what was written last.
pub struct Region {
    device: Arc<Switch>,
    pool: PoolId,
    run: Run,
    loaded: bool,
    /// Generation of the newest half.
    generation: u64,
    /// Its write was flushed (H-1).
    flushed: bool,
}

impl Region {
    /// A region of which nothing is read yet.
    pub fn new(device: Arc<Switch>, pool: PoolId, run: Run) -> Region {
        Region {
            device,
            pool,
            run,
            loaded: false,
            generation: 0,
            flushed: false,
        }
    }

    /// The records of its newest half, once; `None` if there is no half that is right, or when it was asked before.
    pub fn load(&mut self) -> Option<Vec<Record>> {
        if core::mem::replace(&mut self.loaded, true) {
            return None;
        }
        let halves = [0, 1].into_iter().filter_map(|half| self.read(half));
        let (generation, records) = halves.max_by_key(|(generation, _)| *generation)?;
        self.generation = generation;
        Some(records)
    }

    /// Bytes of records that fit.
    pub fn room(&self) -> usize {
        self.pages() as usize * PAGE - HEAD
    }

    /// Pages of a half.
    fn pages(&self) -> u64 {
        u64::from(self.run.count / 2)
    }

    fn page_of(&self, half: u64) -> PageNo {
        PageNo(self.run.start + half * self.pages())
    }

    fn read(&self, half: u64) -> Option<(u64, Vec<Record>)> {
        let mut bytes = vec![0; self.pages() as usize * PAGE];
        let read = self.device.read(self.page_of(half), &mut bytes);
        if let Err(error) = read {
            tracing::warn!(%error, half, "a half of the history cannot be read");
            return None;
        }
        let (head, content) = Head::read_from_prefix(&bytes).ok()?;
        if head.magic != MAGIC || head.pool != self.pool.0 {
            return None;
        }
        let records = content
            .get(..head.length.get() as usize)
            .filter(|content| crc_of(&head, content) == head.crc.get())
            .and_then(history::decode);
        if records.is_none() {
            tracing::warn!(half, "a half of the history is damaged; the other one may be older");
        }
        Some((head.generation.get(), records?))
            .filter(|(generation, _)| generation % 2 == half && *generation < 1 << 63)
    }

    /// Writes `records` (S-18.4), which fit, as the newest half, and makes it durable.
    pub fn write(&mut self, records: &[u8]) -> Result<(), Failed> {
        if !self.flushed {
            self.device.flush().map_err(Failed::Flush)?;
        }
        let generation = self.generation + 1;
        let mut head = Head {
            magic: MAGIC,
            pool: self.pool.0,
            generation: generation.into(),
            length: (records.len() as u32).into(),
            reserved: [0; 20],
            crc: 0.into(),
        };
        head.crc = crc_of(&head, records).into();
        let mut bytes = vec![0; (HEAD + records.len()).next_multiple_of(PAGE)];
        bytes[..HEAD].copy_from_slice(head.as_bytes());
        bytes[HEAD..HEAD + records.len()].copy_from_slice(records);
        (self.generation, self.flushed) = (generation, false);
        self.device
            .write(self.page_of(generation % 2), &bytes, Class::History)
            .map_err(Failed::Write)?;
        self.device.flush().map_err(Failed::Flush)?;
        self.flushed = true;
        Ok(())
    }
}

/// CRC-64 over the head before its CRC, then the records (S-18.2).
fn crc_of(head: &Head, records: &[u8]) -> u64 {
    let mut all = head.as_bytes()[..HEAD_COVERED].to_vec();
    all.extend_from_slice(records);
    crc64::full(&all)
}
