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
        let (head, content) = of_pool(&bytes, self.pool)?;
        let records = right(&head, content, half).and_then(history::decode);
        if records.is_none() {
            tracing::warn!(half, "a half of the history is damaged; the other one may be older");
        }
        Some((head.generation.get(), records?))
    }

    /// Writes `records` (S-18.4), which fit, as the newest half, and makes it durable.
    pub fn write(&mut self, records: &[u8]) -> Result<(), Failed> {
        if !self.flushed {
            self.device.flush().map_err(Failed::Flush)?;
        }
        let generation = self.generation + 1;
        let bytes = half_bytes(self.pool, generation, records);
        (self.generation, self.flushed) = (generation, false);
        self.device
            .write(self.page_of(generation % 2), &bytes, Class::History)
            .map_err(Failed::Write)?;
        self.device.flush().map_err(Failed::Flush)?;
        self.flushed = true;
        Ok(())
    }
}

/// Gives what the newest half tells to the pool's next identity, in the other half (S-2.13): until a superblock names that, the
/// newest half is what it was. Errors: the device's.
pub fn hand_over(device: &dyn Device, run: Run, from: PoolId, to: PoolId) -> Result<(), DeviceError> {
    let pages = u64::from(run.count / 2);
    let place = |half: u64| PageNo(run.start + half * pages);
    let newest = |half: u64| {
        let mut bytes = vec![0; pages as usize * PAGE];
        device.read(place(half), &mut bytes).ok()?;
        let (head, content) = of_pool(&bytes, from)?;
        let records = right(&head, content, half)?;
        Some((head.generation.get(), records.to_vec()))
    };
    let halves = [0, 1].into_iter().filter_map(newest);
    let Some((generation, records)) = halves.max_by_key(|(generation, _)| *generation) else {
        return Ok(());
    };
    let bytes = half_bytes(to, generation + 1, &records);
    device.write(place((generation + 1) % 2), &bytes, Class::History)?;
    device.flush()
}

/// The head of a half, if it is of this pool, and what stands behind it.
fn of_pool(bytes: &[u8], pool: PoolId) -> Option<(Head, &[u8])> {
    let (head, content) = Head::read_from_prefix(bytes).ok()?;
    (head.magic == MAGIC && head.pool == pool.0).then_some((head, content))
}

/// Its records, if the half is right (S-18.2).
fn right<'a>(head: &Head, content: &'a [u8], half: u64) -> Option<&'a [u8]> {
    let generation = head.generation.get();
    let records = content.get(..head.length.get() as usize)?;
    let is_right = generation % 2 == half && generation < 1 << 63 && crc_of(head, records) == head.crc.get();
    is_right.then_some(records)
}

/// A half, whole pages.
fn half_bytes(pool: PoolId, generation: u64, records: &[u8]) -> Vec<u8> {
    let mut head = Head {
        magic: MAGIC,
        pool: pool.0,
        generation: generation.into(),
        length: (records.len() as u32).into(),
        reserved: [0; 20],
        crc: 0.into(),
    };
    head.crc = crc_of(&head, records).into();
    let mut bytes = vec![0; (HEAD + records.len()).next_multiple_of(PAGE)];
    bytes[..HEAD].copy_from_slice(head.as_bytes());
    bytes[HEAD..HEAD + records.len()].copy_from_slice(records);
    bytes
}

/// CRC-64 over the head before its CRC, then the records (S-18.2).
fn crc_of(head: &Head, records: &[u8]) -> u64 {
    let mut all = head.as_bytes()[..HEAD_COVERED].to_vec();
    all.extend_from_slice(records);
    crc64::full(&all)
}
