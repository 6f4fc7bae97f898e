//! Slots alone: where things lie in them, and that a reply goes where the kernel looks. The test plays the kernel.

use super::*;
use crate::protocol::request::ReadIn;
use std::io::Write;

/// Two slots; needs 264 KiB of locked memory.
fn pair() -> Option<(Slot, Slot)> {
    let mut slots = match slots(3, &[7, 9]) {
        Ok(slots) => slots.into_iter(),
        Err(error) => {
            let _ = writeln!(std::io::stderr(), "skipped: needs memory that can be locked: {error}");
            return None;
        }
    };
    Some((slots.next()?, slots.next()?))
}

/// Puts a request into the slot as the kernel does.
fn arrive(slot: &mut Slot, fixed: &[u8], data: &[u8]) {
    let header = InHeader {
        len: (size_of::<InHeader>() + fixed.len() + data.len()) as u32,
        unique: 42,
        ..InHeader::default()
    };
    let entry = RingEntry {
        commit_id: 42,
        payload_sz: data.len() as u32,
        ..RingEntry::default()
    };
    slot.write(HEAD_AT, header.as_bytes());
    slot.write(FIXED_AT, fixed);
    slot.write(PAGE, data);
    slot.write(ENTRY_AT, entry.as_bytes());
    slot.arrived();
}

fn head(len: usize, error: i32) -> Vec<u8> {
    let head = OutHeader {
        len: (size_of::<OutHeader>() + len) as u32,
        error,
        unique: 42,
    };
    head.as_bytes().to_vec()
}

/// What the kernel finds: the head, and how long the payload is.
fn sealed(slot: &Slot) -> (OutHeader, usize) {
    let entry: RingEntry = slot.read(ENTRY_AT);
    assert_eq!(entry.commit_id, 42, "the kernel's number stays");
    (slot.read(HEAD_AT), entry.payload_sz as usize)
}

#[test]
fn slots_do_not_overlap() {
    let Some((mut one, mut two)) = pair() else { return };
    one.bytes_mut()[PAGE..].fill(1);
    two.bytes_mut()[PAGE..].fill(2);
    assert!(one.bytes()[PAGE..].iter().all(|&byte| byte == 1));
    assert_eq!((one.queue, two.queue, one.ring(), two.number), (7, 9, 3, 1));
    let ranges: [u64; 4] = two.read(RANGES_AT);
    let base = two.bytes().as_ptr() as u64;
    assert_eq!(ranges, [base, 288, base + 4096, PAYLOAD as u64]);
    assert_eq!(base % 4096, 0);
}

#[test]
fn a_request_without_data_is_answered_in_place() {
    let Some((mut slot, _)) = pair() else { return };
    let args = ReadIn {
        size: 5,
        ..ReadIn::default()
    };
    arrive(&mut slot, args.as_bytes(), &[]);
    let mut request = vec![9; 300];
    slot.copy_head(&mut request);
    assert_eq!(&request[size_of::<InHeader>()..], args.as_bytes());
    let area = slot.reply_area().unwrap();
    area[..16].copy_from_slice(&head(5, 0));
    area[16..21].copy_from_slice(b"hello");
    slot.seal(b"not used");
    assert_eq!(sealed(&slot).1, 5);
    assert_eq!(&slot.bytes()[PAGE..PAGE + 5], b"hello");
}

#[test]
fn a_request_with_data_is_answered_from_outside() {
    let Some((mut slot, _)) = pair() else { return };
    arrive(&mut slot, &[8; 40], b"the data");
    assert_eq!(slot.data(), b"the data");
    assert!(slot.reply_area().is_none(), "the request lies there");
    slot.seal(&[head(3, 0), b"abc".to_vec()].concat());
    assert_eq!((sealed(&slot).0.error, sealed(&slot).1), (0, 3));
    assert_eq!(&slot.bytes()[PAGE..PAGE + 3], b"abc");
}

#[test]
fn senseless_lengths_stay_inside_the_slot() {
    let Some((mut slot, _)) = pair() else { return };
    arrive(&mut slot, &[], b"x");
    let entry = RingEntry {
        commit_id: 42,
        payload_sz: u32::MAX,
        ..RingEntry::default()
    };
    slot.write(ENTRY_AT, entry.as_bytes());
    slot.arrived();
    assert_eq!(slot.data().len(), PAYLOAD);
    let mut request = Vec::new();
    slot.copy_head(&mut request);
    assert_eq!(request.len(), size_of::<InHeader>());
    slot.seal(&vec![0; SLOT]);
    assert_eq!(
        (sealed(&slot).0.error, sealed(&slot).1),
        (-libc::EIO, 0),
        "too long a reply"
    );
}
