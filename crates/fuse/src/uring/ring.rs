//! One io_uring that carries FUSE requests, and the slots of memory in which they lie.
//!
//! A [`Slot`] is a ticket: there is one for each range of memory, and whoever has it may read and write the range.
//! While the kernel has the range, its slot lies in [`Ring::lent`], where nobody touches it:
//! 1. [`Ring::lend`] puts the slot there before the kernel can learn of it;
//! 2. a completion takes it out: the kernel writes no more until the slot is lent again;
//! 3. a ring that is dropped closes its io_uring first; the kernel writes into slots only in calls of the thread that
//!    serves the ring, so never after that.
//!
//! One slot: a page with the headers of both sides (`struct fuse_uring_req_header`) at its beginning, the pair of
//! ranges that registers the slot behind them, the head of a reply in its last 16 bytes; then the payload. So a reply
//! built in place is one piece: head and payload.
#![allow(unsafe_code)]

use crate::protocol::reply::OutHeader;
use crate::protocol::request::InHeader;
use crate::protocol::ring::*;
use crate::sys::LockedMemory;
use io_uring::squeue::Entry128;
use io_uring::{IoUring, cqueue, opcode, types};
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::slice;
use std::sync::Arc;
use zerocopy::{FromBytes, IntoBytes};

/// Bytes of payload of a slot: the largest read and write, and more than the largest attribute with its name.
pub(crate) const PAYLOAD: usize = 128 << 10;
const PAGE: usize = 4096;
/// Bytes of a slot.
pub(super) const SLOT: usize = PAGE + PAYLOAD;
/// Where the two ranges lie that REGISTER points to.
const RANGES_AT: usize = 512;
/// Where a reply built in place begins.
const REPLY_AT: usize = PAGE - size_of::<OutHeader>();

/// Number of the entry that waits for the bell, among the numbers of slots.
const BELL: u64 = u64::MAX;

/// The memory of one request and its reply.
#[derive(Debug)]
pub(crate) struct Slot {
    memory: Arc<LockedMemory>,
    at: usize,
    /// Its place in [`Ring::lent`].
    number: usize,
    /// Which of the transport's rings it belongs to.
    ring: usize,
    /// The CPU whose requests it gets.
    queue: u16,
    /// What the request is called when it is answered; 0: there is none, the slot must be registered.
    commit_id: u64,
    /// Bytes of the request in the payload.
    data: usize,
    in_place: bool,
}

impl Slot {
    /// The ring it belongs to.
    pub(super) fn ring(&self) -> usize {
        self.ring
    }

    fn bytes(&self) -> &[u8] {
        // SAFETY: `slots` gave every slot SLOT bytes of its own inside the memory, which it keeps mapped; only the
        // holder of the ticket writes there, and it is borrowed (rules 1 and 2 at the head of this file).
        unsafe { slice::from_raw_parts(self.memory.base().as_ptr().wrapping_add(self.at), SLOT) }
    }

    fn bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: as in `bytes`, and the ticket is borrowed for this alone.
        unsafe { slice::from_raw_parts_mut(self.memory.base().as_ptr().wrapping_add(self.at), SLOT) }
    }

    fn read<T: FromBytes>(&self, at: usize) -> T {
        let bytes = &self.bytes()[at..at + size_of::<T>()];
        T::read_from_bytes(bytes).unwrap_or_else(|_| T::new_zeroed())
    }

    fn write(&mut self, at: usize, value: &[u8]) {
        self.bytes_mut()[at..at + value.len()].copy_from_slice(value);
    }

    /// Notes which request the kernel has put in.
    fn arrived(&mut self) {
        let entry: RingEntry = self.read(ENTRY_AT);
        self.commit_id = entry.commit_id;
        self.data = (entry.payload_sz as usize).min(PAYLOAD);
        self.in_place = false;
    }

    /// The head and the fixed part of the request, in place of what is in `out`.
    pub(crate) fn copy_head(&self, out: &mut Vec<u8>) {
        let header: InHeader = self.read(HEAD_AT);
        // The kernel does not say how long the fixed part is, but how long everything is.
        let fixed = (header.len as usize).saturating_sub(size_of::<InHeader>() + self.data);
        out.clear();
        out.extend_from_slice(header.as_bytes());
        out.extend_from_slice(&self.bytes()[FIXED_AT..FIXED_AT + fixed.min(FIXED_MAX)]);
    }

    /// The rest of the request.
    pub(crate) fn data(&self) -> &[u8] {
        &self.bytes()[PAGE..PAGE + self.data]
    }

    /// Where the reply shall be built, from now on; `None` if the request lies there.
    pub(crate) fn reply_area(&mut self) -> Option<&mut [u8]> {
        if self.data > 0 {
            return None;
        }
        self.in_place = true;
        Some(&mut self.bytes_mut()[REPLY_AT..])
    }

    /// Makes the slot ready to go back with the reply: the one built in place, or else `reply`.
    pub(super) fn seal(&mut self, reply: &[u8]) {
        let too_long = OutHeader {
            len: size_of::<OutHeader>() as u32,
            error: -libc::EIO,
            unique: self.commit_id,
        };
        match self.in_place {
            true => {}
            false if reply.len() <= SLOT - REPLY_AT => self.write(REPLY_AT, reply),
            false => self.write(REPLY_AT, too_long.as_bytes()),
        }
        let head: OutHeader = self.read(REPLY_AT);
        let entry: RingEntry = self.read(ENTRY_AT);
        let payload_sz = head
            .len
            .saturating_sub(size_of::<OutHeader>() as u32)
            .min(PAYLOAD as u32);
        self.write(HEAD_AT, head.as_bytes());
        self.write(ENTRY_AT, RingEntry { payload_sz, ..entry }.as_bytes());
    }

    /// The submission that gives the slot to the kernel.
    fn submission(&self, fuse: types::Fd) -> Entry128 {
        let request = RingCommand {
            commit_id: self.commit_id,
            qid: self.queue,
            ..RingCommand::default()
        };
        let mut bytes = [0; 80];
        bytes[..size_of::<RingCommand>()].copy_from_slice(request.as_bytes());
        let entry = match self.commit_id {
            0 => {
                let ranges = self.bytes()[RANGES_AT..].as_ptr() as u64;
                let command = opcode::UringCmd80::new(fuse, CMD_REGISTER)
                    .cmd(bytes)
                    .addr(Some(ranges));
                with_len(command.build(), 2)
            }
            _ => opcode::UringCmd80::new(fuse, CMD_COMMIT_AND_FETCH).cmd(bytes).build(),
        };
        entry.user_data(self.number as u64)
    }
}

/// Sets the field `len` of `struct io_uring_sqe`, for which the crate's command has no setter.
fn with_len(mut entry: Entry128, len: u32) -> Entry128 {
    let field = (&raw mut entry).cast::<u8>().wrapping_add(24).cast::<u32>();
    // SAFETY: Entry128 is `repr(C)` and begins with the kernel's structure, whose `len` lies at byte 24, aligned.
    unsafe { field.write(len) };
    entry
}

/// New slots in memory of their own, one for each CPU in `queues`. Errors: `ENOMEM`.
fn slots(ring: usize, queues: &[u16]) -> io::Result<Vec<Slot>> {
    let memory = Arc::new(LockedMemory::new(queues.len() * SLOT)?);
    debug_assert_eq!(memory.len() % SLOT, 0);
    let new = |(number, queue): (usize, &u16)| {
        let mut slot = Slot {
            memory: memory.clone(),
            at: number * SLOT,
            number,
            ring,
            queue: *queue,
            commit_id: 0,
            data: 0,
            in_place: false,
        };
        let base = slot.bytes().as_ptr() as u64;
        let ranges = [base, HEADERS as u64, base + PAGE as u64, PAYLOAD as u64];
        slot.write(RANGES_AT, ranges.as_bytes());
        slot
    };
    Ok(queues.iter().enumerate().map(new).collect())
}

/// What a ring has to tell.
#[derive(Debug)]
pub(super) enum Event {
    /// A request.
    Request(Slot),
    /// The bell was rung.
    Bell,
    /// The connection is over. Whether it was aborted.
    Over {
        /// `ECONNABORTED`.
        aborted: bool,
    },
}

/// One io_uring and the slots that the kernel has.
pub(super) struct Ring {
    // Dropped first (rule 3).
    uring: IoUring<Entry128>,
    lent: Vec<Option<Slot>>,
    fuse: types::Fd,
    bell: types::Fd,
}

impl Ring {
    /// A ring for requests of the CPUs in `queues`, one slot for each mention, which also waits for the eventfd `bell`.
    /// It begins when the thread that shall serve it calls [`Ring::start`]. Both descriptors must stay open until then.
    ///
    /// They are not registered with the ring: a registered file lives as long as the ring is mapped, so a killed server
    /// with a thread that waits in umount would keep the connection, and with it every sync(2) of the machine, for
    /// ever (`a_server_stuck_in_its_own_umount_can_be_killed`). Errors: `ENOMEM`, `EPERM` (io_uring is forbidden), `ENOSYS`, `EINVAL`.
    pub(super) fn new(fuse: &File, number: usize, queues: &[u16], bell: &File) -> io::Result<Ring> {
        let entries = queues.len() as u32 + 1;
        let mut builder = IoUring::<Entry128>::builder();
        builder.setup_cqsize(2 * entries).setup_submit_all().dontfork();
        builder.setup_single_issuer().setup_defer_taskrun().setup_r_disabled();
        let uring = builder.build(entries)?;
        let lent = slots(number, queues)?.into_iter().map(Some).collect();
        let (fuse, bell) = (types::Fd(fuse.as_raw_fd()), types::Fd(bell.as_raw_fd()));
        Ok(Ring {
            uring,
            lent,
            fuse,
            bell,
        })
    }

    /// Begins, on the thread that serves the ring from now on. Errors: those of io_uring.
    pub(super) fn start(&mut self) -> io::Result<()> {
        self.uring.submitter().register_enable_rings()?;
        self.hear_bell();
        for number in 0..self.lent.len() {
            if let Some(slot) = self.lent[number].take() {
                self.lend(slot);
            }
        }
        self.uring.submit().map(drop)
    }

    /// Gives a slot to the kernel: a sealed one with its reply, a new one for its first request. It goes with the
    /// next [`Ring::wait`].
    pub(super) fn lend(&mut self, slot: Slot) {
        let entry = slot.submission(self.fuse);
        let number = slot.number;
        self.lent[number] = Some(slot);
        self.push(&entry);
    }

    fn hear_bell(&mut self) {
        let poll = opcode::PollAdd::new(self.bell, libc::POLLIN as u32).multi(true);
        self.push(&poll.build().user_data(BELL).into());
    }

    fn push(&mut self, entry: &Entry128) {
        loop {
            let mut queue = self.uring.submission();
            // SAFETY: what the entry points to is the memory of a slot in `lent`, which lives as long as the ring.
            if unsafe { queue.push(entry) }.is_ok() {
                return;
            }
            drop(queue);
            // There is one entry for each slot, so this comes only after refusals; they wait no longer than others.
            let _ = self.uring.submit();
        }
    }

    /// Submits what is lent, waits until there is something to tell and appends it to `events`.
    /// Errors: those of io_uring that do not go away.
    pub(super) fn wait(&mut self, events: &mut Vec<Event>) -> io::Result<()> {
        if let Err(error) = self.uring.submit_and_wait(1) {
            match error.raw_os_error() {
                Some(libc::EINTR | libc::EAGAIN | libc::EBUSY) => {}
                _ => return Err(error),
            }
        }
        let (mut refused, mut deaf) = (Vec::new(), false);
        for completion in self.uring.completion() {
            if completion.user_data() == BELL {
                deaf |= !cqueue::more(completion.flags());
                events.push(Event::Bell);
                continue;
            }
            let slot = self.lent.get_mut(completion.user_data() as usize);
            let Some(mut slot) = slot.and_then(Option::take) else {
                tracing::error!(number = completion.user_data(), "a completion of nothing");
                continue;
            };
            match -completion.result() {
                ..=0 => {
                    slot.arrived();
                    events.push(Event::Request(slot));
                }
                errno => refused.extend(refusal(errno, slot, events)),
            }
        }
        if deaf {
            self.hear_bell();
        }
        refused.into_iter().for_each(|slot| self.lend(slot));
        Ok(())
    }
}

/// What a refused command means: an event, or a slot to be lent again.
fn refusal(errno: i32, mut slot: Slot, events: &mut Vec<Event>) -> Option<Slot> {
    match errno {
        libc::EAGAIN | libc::EINTR => Some(slot),
        libc::ENOTCONN | libc::ECANCELED | libc::ENODEV | libc::ECONNABORTED => {
            events.push(Event::Over {
                aborted: errno == libc::ECONNABORTED,
            });
            None
        }
        // A reply that is refused was not needed any more (ENOENT: it is answered already); the slot begins anew.
        _ if slot.commit_id != 0 => {
            tracing::warn!(errno, unique = slot.commit_id, "a reply was refused");
            slot.commit_id = 0;
            Some(slot)
        }
        // The kernel goes on with /dev/fuse if this happens to the first slots.
        _ => {
            tracing::error!(errno, queue = slot.queue, "the kernel refused a slot");
            None
        }
    }
}

#[cfg(test)]
mod tests;
