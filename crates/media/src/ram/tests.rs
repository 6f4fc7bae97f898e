//! Tests of the device in memory.

use super::*;

#[test]
fn reads_what_was_written_and_zeros_elsewhere() {
    let device = RamDevice::new(200);
    let data: Vec<u8> = (0..3 * PAGE).map(|i| (i % 251) as u8).collect();
    device.write(PageNo(99), &data, Class::Data).unwrap();
    let mut seen = vec![0xFF; 5 * PAGE];
    device.read(PageNo(98), &mut seen).unwrap();
    assert_eq!(seen[..PAGE], [0; PAGE]);
    assert_eq!(seen[PAGE..4 * PAGE], data);
    assert_eq!(seen[4 * PAGE..], [0; PAGE]);
    assert_eq!(device.stored(), 3);
    device.discard(PageNo(100), 1).unwrap();
    device.read(PageNo(100), &mut seen[..PAGE]).unwrap();
    assert_eq!((&seen[..PAGE], device.stored()), (&[0u8; PAGE][..], 2));
}

#[test]
fn refuses_what_is_out_of_range() {
    let device = RamDevice::new(4);
    let page = [1; PAGE];
    let beyond = |result| matches!(result, Err(DeviceError::OutOfRange { .. }));
    assert!(beyond(device.write(PageNo(4), &page, Class::Data)));
    assert!(beyond(device.write(PageNo(u64::MAX), &page, Class::Data)));
    assert!(beyond(device.read(PageNo(3), &mut [0; 2 * PAGE])));
    assert!(beyond(device.discard(PageNo(1), u64::MAX)));
    assert!(matches!(
        device.read(PageNo(0), &mut [0; 100]),
        Err(DeviceError::NotWholePages { bytes: 100, .. })
    ));
    assert_eq!(device.counters(), Counters::default());
}

#[test]
fn vectored_parts_follow_each_other() {
    let device = RamDevice::new(4);
    let (a, b) = ([1; PAGE], [2; 2 * PAGE]);
    device.write_vectored(PageNo(1), &[&a, &b], Class::Plog).unwrap();
    let mut seen = vec![0; 3 * PAGE];
    device.read(PageNo(1), &mut seen).unwrap();
    assert_eq!((&seen[..PAGE], &seen[PAGE..]), (&a[..], &b[..]));
}
