//! What the kernel's files say is what is left.

use super::*;

#[test]
fn the_machine_says_what_is_available() {
    let table = "MemTotal:       24536080 kB\nMemFree:          100 kB\nMemAvailable:       2048 kB\n";
    assert_eq!(of_machine(table, "MemAvailable:"), Some(2 << 20));
    assert_eq!(of_machine(table, "MemTotal:"), Some(24536080 << 10));
    assert_eq!(of_machine("MemTotal: 1 kB\n", "MemAvailable:"), None);
}

/// S-16.32: the narrower of what memory and address space leave; nothing is no arena, and no limit none.
#[test]
fn an_arena_leaves_room_beside_it() {
    const MIB: u64 = 1 << 20;
    assert_eq!(fits(None, None, 2), None);
    assert_eq!(fits(Some(64 * MIB), None, 2), Some(16 * MIB));
    assert_eq!(fits(Some(8 * MIB), None, 2), Some(0));
    assert_eq!(fits(None, Some((256 + 2 * 16 + 5 * 20) * MIB), 2), Some(20 * MIB));
    assert_eq!(
        fits(Some(60 * MIB), Some((256 + 32 * 16 + 5 * 20) * MIB), 32),
        Some(12 * MIB)
    );
    assert_eq!(fits(None, Some(100 * MIB), 2), Some(0));
}

#[test]
fn the_narrowest_group_decides() {
    let root = tempfile::tempdir().expect("a folder");
    let make = |group: &str, files: [(&str, &str); 3]| {
        let folder = root.path().join(group);
        fs::create_dir_all(&folder).expect("a group");
        for (name, text) in files {
            fs::write(folder.join(name), text).expect("a file");
        }
    };
    let of = |group| of_groups(&VERSIONS[0], root.path(), Path::new(group), of_group);
    assert_eq!(of("a/b"), None);
    make(
        "a",
        [
            ("memory.max", "max\n"),
            ("memory.current", "7000\n"),
            ("memory.stat", ""),
        ],
    );
    assert_eq!(of("a/b"), None);
    let stat = "anon 900\ninactive_file 200\nactive_file 100\n";
    make(
        "a/b",
        [
            ("memory.max", "5000\n"),
            ("memory.current", "4500\n"),
            ("memory.stat", stat),
        ],
    );
    assert_eq!(of("a/b"), Some(800));
    assert_eq!(of("a"), None);
    make(
        "a",
        [
            ("memory.max", "7100\n"),
            ("memory.current", "7000\n"),
            ("memory.stat", ""),
        ],
    );
    assert_eq!(of("a/b"), Some(100));
    let most = of_groups(&VERSIONS[0], root.path(), Path::new("a/b"), limit_of);
    assert_eq!(most, Some(5000));
    make(
        "a/b",
        [
            ("memory.max", "5000\n"),
            ("memory.current", "6000\n"),
            ("memory.stat", ""),
        ],
    );
    assert_eq!(of("a/b"), Some(0));
}

#[test]
fn groups_of_the_first_version_are_asked_too() {
    let root = tempfile::tempdir().expect("a folder");
    let files = [
        ("memory.limit_in_bytes", "9000\n"),
        ("memory.usage_in_bytes", "8000\n"),
        (
            "memory.stat",
            "inactive_file 1\ntotal_inactive_file 300\ntotal_active_file 200\n",
        ),
    ];
    for (name, text) in files {
        fs::write(root.path().join(name), text).expect("a file");
    }
    assert_eq!(
        of_groups(&VERSIONS[1], root.path(), Path::new("gone"), of_group),
        Some(1500)
    );
    let table = "9:name=systemd:/\n4:hugetlb,memory:/a/b\n1:cpu:/c\n0::/d\n";
    let groups = VERSIONS.map(|version| table.lines().find_map(version.is_of));
    assert_eq!(groups, [Some("d"), Some("a/b")]);
}
