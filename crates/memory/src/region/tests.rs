//! Tests of mappings: what the kernel tells of them.

use super::*;

/// The flags of each mapping of memory with this name, as the kernel tells.
fn flags_of(name: &str) -> Vec<String> {
    let text = std::fs::read_to_string("/proc/self/smaps").expect("mappings");
    let mut is_inside = false;
    let mut found = Vec::new();
    for line in text.lines() {
        if let Some(flags) = line.strip_prefix("VmFlags:").filter(|_| is_inside) {
            found.push(flags.to_owned());
        } else if line.contains('-') && !line.contains(": ") {
            is_inside = line.contains(name);
        }
    }
    found
}

/// S-13.11: frames, staged pages and all else that outlives a server are in no core, by either mapping, in a second life too.
#[test]
#[cfg_attr(miri, ignore = "there are no cores")]
fn no_core_has_what_is_in_a_region() {
    for (guard, mappings) in [
        (Guard::Alias, 2),
        (Guard::Sealed, 1),
        (Guard::Mprotect, 1),
        (Guard::Off, 1),
    ] {
        let name = format!("keepfs-no-core-{guard:?}");
        let region = Region::lasting(&name, 4 * PAGE, guard, false).expect("region");
        let memory = region
            .descriptor()
            .expect("it lasts")
            .try_clone_to_owned()
            .expect("a copy");
        let adopted = Region::adopt(memory, guard, false).expect("adopted");
        let flags = flags_of(&name);
        assert_eq!(flags.len(), 2 * mappings, "{guard:?}");
        assert!(
            flags.iter().all(|flags| flags.split(' ').any(|flag| flag == "dd")),
            "{guard:?}: {flags:?}"
        );
        drop((region, adopted));
    }
}
