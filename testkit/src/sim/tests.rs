//! Tests of the recording device and of each planned fault.

use super::*;

const A: [u8; PAGE] = [0xAA; PAGE];
const B: [u8; PAGE] = [0xBB; PAGE];

fn put(device: &SimDevice, at: u64, data: &[u8]) -> Result<(), DeviceError> {
    device.write(PageNo(at), data, Class::Data)
}

fn get(device: &SimDevice, at: u64) -> Result<[u8; PAGE], DeviceError> {
    let mut bytes = [0; PAGE];
    device.read(PageNo(at), &mut bytes)?;
    Ok(bytes)
}

fn is_eio<T>(result: Result<T, DeviceError>) -> bool {
    match result {
        Err(DeviceError::Io { source, .. } | DeviceError::Flush { source, .. }) => {
            source.raw_os_error() == Some(libc::EIO)
        }
        _ => false,
    }
}

fn is_gone<T>(result: Result<T, DeviceError>) -> bool {
    matches!(result, Err(DeviceError::Removed { .. }))
}

#[test]
fn the_log_is_ordered_and_tagged() {
    let device = SimDevice::new(8);
    device.set_tag(7);
    put(&device, 2, &A).unwrap();
    device.flush().unwrap();
    device.set_tag(8);
    device.discard(PageNo(2), 1).unwrap();
    let log = device.recording().log;
    let tags: Vec<u64> = log.iter().map(|entry| entry.tag).collect();
    assert_eq!((tags, device.log_len()), (vec![7, 7, 8], 3));
    assert_eq!(log[0].event, Event::write(PageNo(2), &A, Class::Data));
    assert_eq!(log[1].event, Event::Flush);
    let discard = Event::Discard {
        at: PageNo(2),
        pages: 1,
    };
    assert_eq!(log[2].event, discard);
}

#[test]
fn taking_the_log_starts_a_new_one_over_the_present_content() {
    let device = SimDevice::new(8);
    put(&device, 0, &A).unwrap();
    let first = device.take_log();
    put(&device, 1, &B).unwrap();
    let second = device.take_log();
    assert_eq!((first.log.len(), second.log.len()), (1, 1));
    assert_eq!(first.replay().digest(), second.base.digest());
    assert_eq!(second.replay().bytes(PageNo(0)), &A);
    assert_eq!(device.log_len(), 0);
}

#[test]
fn counted_errors_happen_once_and_change_nothing() {
    let device = SimDevice::new(8);
    let plan = Faults::none()
        .fail(Operation::Write, When::Nth(2))
        .fail(Operation::Read, When::Nth(1))
        .fail(Operation::Discard, When::Nth(1));
    device.set_faults(plan);
    put(&device, 0, &A).unwrap();
    assert!(is_eio(put(&device, 0, &B)));
    assert!(is_eio(get(&device, 0)));
    assert!(is_eio(device.discard(PageNo(0), 1)));
    assert_eq!(get(&device, 0).unwrap(), A);
    put(&device, 0, &B).unwrap();
    assert_eq!((get(&device, 0).unwrap(), device.log_len()), (B, 2));
    assert_eq!(device.counters().of(Class::Data).operations, 2);
}

#[test]
fn bad_pages_fail_every_operation_that_touches_them() {
    let device = SimDevice::new(8);
    let bad = When::Page(PageNo(5));
    let plan = Faults::none().fail(Operation::Read, bad).fail(Operation::Write, bad);
    device.set_faults(plan);
    for _ in 0..2 {
        assert!(is_eio(device.read(PageNo(4), &mut [0; 2 * PAGE])));
        assert!(is_eio(put(&device, 5, &A)));
    }
    get(&device, 4).unwrap();
    get(&device, 6).unwrap();
}

#[test]
fn a_short_write_changes_its_first_sectors() {
    let device = SimDevice::new(4);
    put(&device, 0, &[A, A].concat()).unwrap();
    device.set_faults(Faults::none().short_write(When::Nth(1), 11));
    assert!(is_eio(put(&device, 0, &[B, B].concat())));
    assert_eq!(get(&device, 0).unwrap(), B);
    let second = get(&device, 1).unwrap();
    assert_eq!(second[..3 * SECTOR], B[..3 * SECTOR]);
    assert_eq!(second[3 * SECTOR..], A[3 * SECTOR..]);
    let recording = device.recording();
    assert_eq!(recording.replay().digest(), device.image().digest());
}

#[test]
fn a_short_write_of_nothing_changes_nothing() {
    let device = SimDevice::new(4);
    device.set_faults(Faults::none().short_write(When::Nth(1), 0));
    assert!(is_eio(put(&device, 0, &B)));
    assert_eq!((get(&device, 0).unwrap(), device.log_len()), ([0; PAGE], 0));
}

#[test]
fn a_failed_flush_makes_nothing_durable() {
    let device = SimDevice::new(4);
    device.set_faults(Faults::none().fail(Operation::Flush, When::Nth(1)));
    put(&device, 0, &A).unwrap();
    assert!(is_eio(device.flush()));
    assert_eq!(device.power_cut(0).bytes(PageNo(0)), &[0; PAGE]);
    device.flush().unwrap();
    assert_eq!(device.power_cut(0).bytes(PageNo(0)), &A);
}

#[test]
fn a_lying_flush_returns_ok_and_makes_nothing_durable() {
    let device = SimDevice::new(4);
    device.set_faults(Faults::none().lying_flush(When::From(1)));
    put(&device, 0, &A).unwrap();
    device.flush().unwrap();
    device.flush().unwrap();
    assert_eq!(device.power_cut(0).bytes(PageNo(0)), &[0; PAGE]);
    assert_eq!(get(&device, 0).unwrap(), A);
}

#[test]
fn a_power_cut_keeps_what_the_planned_order_says() {
    let device = SimDevice::new(4);
    put(&device, 0, &[A, A].concat()).unwrap();
    put(&device, 2, &B).unwrap();
    let kept = |device: &SimDevice, count| {
        let image = device.power_cut(count);
        [0, 1, 2].map(|page| image.get(PageNo(page)).is_some())
    };
    assert_eq!(kept(&device, 1), [true, false, false]);
    assert_eq!(kept(&device, 3), [true, true, true]);
    device.set_faults(Faults::none().newest_first());
    assert_eq!(kept(&device, 0), [false, false, false]);
    assert_eq!(kept(&device, 1), [false, false, true]);
    assert_eq!(kept(&device, 2), [false, true, true]);
    assert_eq!(kept(&device, 99), [true, true, true]);
}

#[test]
fn a_device_that_is_gone_stays_gone() {
    let device = SimDevice::new(4);
    device.set_faults(Faults::none().gone_after(2));
    put(&device, 0, &A).unwrap();
    get(&device, 0).unwrap();
    assert!(is_gone(put(&device, 0, &B)));
    assert!(is_gone(device.flush()));
    assert!(is_gone(device.discard(PageNo(0), 1)));
    assert!(is_gone(get(&device, 0)));
    assert_eq!((device.log_len(), device.image().bytes(PageNo(0))), (1, &A));
}

#[test]
fn out_of_range_is_an_error_and_not_recorded() {
    let device = SimDevice::new(4);
    let beyond = |result| matches!(result, Err(DeviceError::OutOfRange { .. }));
    assert!(beyond(put(&device, 4, &A)));
    assert!(beyond(put(&device, u64::MAX, &A)));
    assert!(beyond(device.discard(PageNo(3), 2)));
    assert!(beyond(device.read(PageNo(3), &mut [0; 2 * PAGE])));
    assert_eq!(device.log_len(), 0);
}

#[test]
fn latency_is_counted() {
    let latency = Latency {
        read_ns: 10,
        write_ns: 100,
        flush_ns: 1000,
        byte_ps: 1000,
        ..Latency::none()
    };
    let device = SimDevice::new(4).with_latency(latency);
    put(&device, 0, &A).unwrap();
    get(&device, 0).unwrap();
    device.flush().unwrap();
    let expected = 10 + 100 + 1000 + 2 * 4096;
    assert_eq!(device.elapsed(), Duration::from_nanos(expected));
}

#[test]
fn a_fork_goes_its_own_way() {
    let device = SimDevice::new(4);
    device.set_tag(7);
    put(&device, 0, &A).unwrap();
    let other = device.fork();
    put(&device, 1, &A).unwrap();
    other.flush().unwrap();
    assert_eq!((device.log_len(), other.log_len(), other.tag()), (2, 2, 7));
    assert_eq!(other.recording().log[0], device.recording().log[0]);
    assert_eq!(other.image().get(PageNo(1)), None);
    assert!(device.image().get(PageNo(1)).is_some());
}
