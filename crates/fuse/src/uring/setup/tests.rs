//! Lists of CPUs, and how the memory is divided.

use super::*;

#[test]
fn lists_of_cpus_are_read() {
    assert_eq!(parse("0-1\n"), Some(vec![0, 1]));
    assert_eq!(parse("0"), Some(vec![0]));
    assert_eq!(parse("0-2,5,7-8\n"), Some(vec![0, 1, 2, 5, 7, 8]));
    for wrong in ["", "\n", "x", "1-", "-1", "0,,1", "70000"] {
        assert_eq!(parse(wrong), None, "{wrong:?}");
    }
}

#[test]
fn memory_stays_bounded_and_every_queue_works() {
    let slot = 132 << 10;
    let of = |cpus: u16| {
        let cpus = Cpus {
            online: (0..cpus).collect(),
            offline: Vec::new(),
        };
        cpus.depth(slot)
    };
    assert_eq!(of(1), 64);
    assert_eq!(of(2), 64);
    assert_eq!(of(8), 16);
    assert_eq!(of(1024), 4);
    for cpus in 1..=32 {
        assert!(usize::from(cpus) * of(cpus) * slot <= BUDGET, "{cpus}");
    }
}

#[test]
fn this_machine_has_a_cpu() {
    let cpus = Cpus::of_this_machine().unwrap();
    assert!(!cpus.online.is_empty());
    assert!(cpus.offline.iter().all(|cpu| !cpus.online.contains(cpu)));
}
