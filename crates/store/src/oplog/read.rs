//! Reading the operation log and the state table back, checked (S-12.3, S-12.4).

use super::{LOG_HALF, OpLog, STATES_HALF};
use crate::error::Error;
use keepfs_codes::crc64;
use keepfs_format::FromBytes;
use keepfs_format::inode::Inode;
use keepfs_format::oplog::{HALF_HEAD, HalfHead, Operation, STATE, StateEntry, TXN_HEAD, TxnHead};

/// Which half of the logs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Half {
    /// To which commits append.
    Live,
    /// What was live before the last swap.
    Previous,
}

/// The operations of one committed transaction.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LoggedTxn {
    /// Its number.
    pub seq: u64,
    bytes: Vec<u8>,
}

impl LoggedTxn {
    /// The operations in the order they were done.
    pub fn operations(&self) -> impl Iterator<Item = Operation<'_>> {
        let mut rest = &self.bytes[..];
        core::iter::from_fn(move || {
            let (operation, behind) = Operation::decode(rest)?;
            rest = behind;
            Some(operation)
        })
    }
}

/// An object before its first change since the swap.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct EarlierState {
    /// Inode number.
    pub object: u64,
    /// Number of the transaction that changed it first.
    pub seq: u64,
    /// The inode as it stood in its metablock; of state 0 or DEAD if the object did not exist.
    pub inode: Inode,
}

fn damaged(what: &str, at: usize) -> Error {
    Error::Damaged(format!("the {what} is not what its checksum says (offset {at})"))
}

impl OpLog {
    fn number(inner: &super::Inner, half: Half) -> usize {
        match half {
            Half::Live => inner.live,
            Half::Previous => 1 - inner.live,
        }
    }

    /// The transactions of a half in the order of commit. Errors: `Damaged`.
    pub fn operations(&self, half: Half) -> Result<Vec<LoggedTxn>, Error> {
        let (bytes, incarnation) = {
            let inner = self.inner.lock();
            let number = Self::number(&inner, half);
            let ends = &inner.halves[number];
            let mut bytes = vec![0; ends.end];
            self.log.load(number * LOG_HALF, &mut bytes);
            (bytes, ends.incarnation)
        };
        let head = HalfHead::read_from_prefix(&bytes).map(|(head, _)| head);
        let head_is_right = head.is_ok_and(|h| h.incarnation.get() == incarnation && h.end.get() == bytes.len() as u64);
        if !head_is_right {
            return Err(damaged("operation log", 0));
        }
        let mut all = Vec::new();
        let (mut at, mut chain) = (HALF_HEAD, incarnation);
        while at < bytes.len() {
            let (txn, len, crc) = transaction(&bytes[at..], chain).ok_or_else(|| damaged("operation log", at))?;
            all.push(txn);
            (at, chain) = (at + len, crc);
        }
        Ok(all)
    }

    /// The state table of a half, in the order of first changes. Errors: `Damaged`.
    pub fn states(&self, half: Half) -> Result<Vec<EarlierState>, Error> {
        let (bytes, incarnation) = {
            let inner = self.inner.lock();
            let number = Self::number(&inner, half);
            let ends = &inner.halves[number];
            let mut bytes = vec![0; ends.objects.len() * STATE];
            self.states.load(number * STATES_HALF * STATE, &mut bytes);
            (bytes, ends.incarnation)
        };
        let entries = bytes.chunks_exact(STATE).enumerate();
        entries
            .map(|(i, bytes)| state(bytes, incarnation).ok_or_else(|| damaged("state table", i * STATE)))
            .collect()
    }
}

/// The first transaction of `bytes`, the length of its entry, and its CRC.
fn transaction(bytes: &[u8], chain: u64) -> Option<(LoggedTxn, usize, u64)> {
    let (head, rest) = TxnHead::read_from_prefix(bytes).ok()?;
    let operations = rest.get(..head.len.get() as usize)?;
    let len = (TXN_HEAD + operations.len()).next_multiple_of(8);
    if crc64::seeded(chain, bytes.get(8..len)?) != head.crc.get() {
        return None;
    }
    let txn = LoggedTxn {
        seq: head.seq.get(),
        bytes: operations.to_vec(),
    };
    let right = txn.operations().count() == head.count.get() as usize;
    right.then_some((txn, len, head.crc.get()))
}

fn state(bytes: &[u8], incarnation: u64) -> Option<EarlierState> {
    let entry = StateEntry::read_from_bytes(bytes).ok()?;
    if crc64::seeded(incarnation, &bytes[8..]) != entry.crc.get() {
        return None;
    }
    Some(EarlierState {
        object: entry.object.get(),
        seq: entry.seq.get(),
        inode: Inode::read_from_bytes(&entry.inode).ok()?,
    })
}
