//! All short sequences, after ACE (CrashMonkey, OSDI'18): bounded names, sizes and offsets, and behind every step
//! one of four ways to make it durable. They are numbered, so that all can be run, or any sample.

use super::{Mode, Op, Who, parse_all};
use keepfs_vfs::{FallocMode, Owner, RenameFlags};

/// One step: mostly one operation, and what an fsync behind it is for.
#[derive(Clone, Debug)]
pub struct Step {
    /// The operations.
    pub ops: Vec<Op>,
    /// The file or directory that it changed, by its path after the step.
    pub file: String,
    /// The directory of that path.
    pub dir: String,
}

/// Ways to make a step durable: fsync of the file, fsync of its directory, syncfs, none.
const SYNCS: u64 = 4;

/// What there is before each sequence: two directories with files, an empty directory; already durable.
pub fn setup() -> Vec<Op> {
    const TEXT: &str = "
        mkdir path=A mode=755 who=22:0:0
        mkdir path=B mode=755 who=22:0:0
        mkdir path=D mode=755 who=22:0:0
        mkdir path=B/D mode=755 who=22:0:0
        create path=A/foo mode=644 who=22:0:0
        write path=A/foo offset=0 len=10000 seed=1 kill=no
        set_xattr path=A/foo name=user.old len=20 seed=2 how=any
        create path=B/foo mode=644 who=22:0:0
        write path=B/foo offset=0 len=100 seed=3 kill=no
        syncfs
    ";
    // The text is a constant that a test reads; it cannot fail at run time.
    parse_all(TEXT).unwrap_or_default()
}

/// Every step there is.
pub fn steps() -> Vec<Step> {
    let mut steps = create_steps();
    steps.extend(name_steps());
    steps.extend(content_steps());
    steps.extend(attribute_steps());
    steps
}

/// How many sequences of so many steps there are.
pub fn count(steps: &[Step], length: u32) -> u64 {
    (steps.len() as u64 * SYNCS).saturating_pow(length)
}

/// Sequence number `index` (below [`count`]) of `length` steps, without the setup.
pub fn sequence(steps: &[Step], length: u32, index: u64) -> Vec<Op> {
    let mut ops = Vec::new();
    let mut rest = index;
    for _ in 0..length {
        let sync = rest % SYNCS;
        rest /= SYNCS;
        let step = &steps[(rest % steps.len() as u64) as usize];
        rest /= steps.len() as u64;
        ops.extend(step.ops.iter().cloned());
        match sync {
            0 => ops.push(Op::Fsync {
                path: step.file.clone(),
                data_only: false,
            }),
            1 => ops.push(Op::Fsync {
                path: step.dir.clone(),
                data_only: false,
            }),
            2 => ops.push(Op::SyncFs {}),
            _ => (),
        }
    }
    ops
}

fn step_of(ops: Vec<Op>, file: &str) -> Step {
    let dir = file
        .rsplit_once('/')
        .map_or("/", |(dir, _)| if dir.is_empty() { "/" } else { dir });
    Step {
        ops,
        file: file.to_owned(),
        dir: dir.to_owned(),
    }
}

fn step(op: Op, file: &str) -> Step {
    step_of(vec![op], file)
}

const ROOT: Who = Who {
    umask: 0o022,
    uid: 0,
    gid: 0,
};

fn create_steps() -> Vec<Step> {
    let mut steps = Vec::new();
    for path in ["A/bar", "B/bar", "bar"] {
        steps.push(step(
            Op::Create {
                path: path.into(),
                mode: Mode(0o644),
                who: ROOT,
            },
            path,
        ));
    }
    for path in ["A/C", "B/C", "C"] {
        steps.push(step(
            Op::Mkdir {
                path: path.into(),
                mode: Mode(0o755),
                who: ROOT,
            },
            path,
        ));
    }
    steps.push(step(
        Op::Mknod {
            path: "A/pipe".into(),
            mode: Mode(0o010644),
            rdev: 0,
            who: ROOT,
        },
        "A",
    ));
    let device = Op::Mknod {
        path: "B/dev".into(),
        mode: Mode(0o060600),
        rdev: 0x801,
        who: ROOT,
    };
    steps.push(step(device, "B"));
    steps.push(step(
        Op::Symlink {
            path: "A/sym".into(),
            target: "B/foo".into(),
            who: ROOT,
        },
        "A",
    ));
    let long = "t".repeat(300);
    steps.push(step(
        Op::Symlink {
            path: "B/sym".into(),
            target: long,
            who: ROOT,
        },
        "B",
    ));
    let tmpfile = Op::Tmpfile {
        slot: 0,
        dir: "A".into(),
        mode: Mode(0o600),
        who: ROOT,
    };
    let write = Op::Write {
        path: "@0".into(),
        offset: 0,
        len: 5000,
        seed: 9,
        kill: false,
    };
    let link = Op::Link {
        from: "@0".into(),
        to: "B/tmp".into(),
    };
    steps.push(step_of(vec![tmpfile, write, link, Op::Release { slot: 0 }], "B/tmp"));
    steps
}

fn name_steps() -> Vec<Step> {
    let mut steps = Vec::new();
    for to in ["A/bar", "B/bar"] {
        steps.push(step(
            Op::Link {
                from: "A/foo".into(),
                to: to.into(),
            },
            to,
        ));
    }
    for path in ["A/foo", "B/foo", "A/bar"] {
        let dir = &path[..1];
        steps.push(step(Op::Unlink { path: path.into() }, dir));
    }
    for path in ["B/D", "A/C"] {
        let dir = &path[..1];
        steps.push(step(Op::Rmdir { path: path.into() }, dir));
    }
    let hold = Op::Hold {
        slot: 1,
        path: "A/foo".into(),
    };
    let unlink = Op::Unlink { path: "A/foo".into() };
    let write = Op::Write {
        path: "@1".into(),
        offset: 9000,
        len: 3000,
        seed: 10,
        kill: false,
    };
    steps.push(step_of(vec![hold, unlink, write], "A"));
    let plain = RenameFlags::default();
    let exchange = RenameFlags {
        exchange: true,
        ..plain
    };
    let whiteout = RenameFlags {
        whiteout: Some(Owner::ROOT),
        ..plain
    };
    let renames = [
        ("A/foo", "A/bar", plain),
        ("A/foo", "B/bar", plain),
        ("A/foo", "B/foo", plain),
        ("B/foo", "A/foo", plain),
        ("A/bar", "A/foo", plain),
        ("D", "A/D", plain),
        ("D", "A/C", plain),
        ("A", "D", plain),
        ("B", "A/E", plain),
        ("A/foo", "B/foo", exchange),
        ("A", "B", exchange),
        ("A/foo", "D", exchange),
        ("A/foo", "A/bar", whiteout),
        ("B/foo", "A/foo", whiteout),
    ];
    for (from, to, flags) in renames {
        steps.push(step(
            Op::Rename {
                from: from.into(),
                to: to.into(),
                flags,
            },
            to,
        ));
    }
    steps
}

fn content_steps() -> Vec<Step> {
    let mut steps = Vec::new();
    let mut on = |path: &str, op: &dyn Fn(String) -> Op| steps.push(step(op(path.to_owned()), path));
    let writes = [
        (0, 4096),
        (0, 60),
        (2000, 3000),
        (8000, 6000),
        (12_288, 4096),
        (100_000, 10),
        (0, 70_000),
    ];
    for (offset, len) in writes {
        on("A/foo", &|path| Op::Write {
            path,
            offset,
            len,
            seed: 4,
            kill: false,
        });
    }
    for (offset, len) in [(50, 100), (0, 100), (90, 9000)] {
        on("B/foo", &|path| Op::Write {
            path,
            offset,
            len,
            seed: 5,
            kill: false,
        });
    }
    for path in ["A/foo", "B/foo", "A/bar"] {
        on(path, &|path| Op::Append {
            path,
            len: 3000,
            seed: 6,
            kill: false,
        });
    }
    for size in [0, 5000, 8192, 20_000] {
        on("A/foo", &|path| Op::Truncate {
            path,
            size,
            kill: false,
        });
    }
    on("B/foo", &|path| Op::OpenTruncate { path });
    let ranges = [
        (FallocMode::Allocate, 8192, 16_384),
        (FallocMode::KeepSize, 8192, 16_384),
        (FallocMode::PunchHole, 4096, 4096),
        (FallocMode::PunchHole, 1000, 5000),
        (FallocMode::ZeroRange { keep_size: false }, 4000, 12_000),
        (FallocMode::ZeroRange { keep_size: true }, 8192, 8192),
    ];
    for (mode, offset, len) in ranges {
        on("A/foo", &|path| Op::Fallocate {
            path,
            mode,
            offset,
            len,
        });
    }
    for (from_offset, to_offset, len) in [(0, 0, 8192), (0, 4096, 10_000), (100, 200, 5000)] {
        let copy = |to| Op::CopyRange {
            from: "A/foo".into(),
            from_offset,
            to,
            to_offset,
            len,
        };
        on("B/foo", &copy);
    }
    on("A/foo", &|to| Op::CopyRange {
        from: "A/foo".into(),
        from_offset: 0,
        to,
        to_offset: 12_288,
        len: 8192,
    });
    steps
}

fn attribute_steps() -> Vec<Step> {
    const TEXT: &str = "
        set_xattr path=A/foo name=user.new len=30 seed=7 how=any
        set_xattr path=A/foo name=user.old len=2000 seed=8 how=any
        set_xattr path=A name=trusted.dir len=10 seed=8 how=any
        remove_xattr path=A/foo name=user.old
        set_acl path=A/foo default=no acl=u::6,u:1000:6,g::4,m::6,o::0
        set_acl path=A default=yes acl=u::7,g::5,g:50:7,m::7,o::0
        set_mode path=A/foo mode=4711
        set_mode path=B mode=2770
        chown path=A/foo uid=1000 gid=50
        chown path=B uid=- gid=50
        utimes path=A/foo atime=1.000000001 mtime=2.000000002
        set_flags path=A/foo flags=0x40
    ";
    let ops = parse_all(TEXT).unwrap_or_default();
    let path_of = |op: &Op| match op {
        Op::SetXattr { path, .. } | Op::RemoveXattr { path, .. } | Op::SetAcl { path, .. } => path.clone(),
        Op::SetMode { path, .. } | Op::Chown { path, .. } | Op::Utimes { path, .. } => path.clone(),
        _ => "A/foo".to_owned(),
    };
    ops.into_iter()
        .map(|op| (path_of(&op), op))
        .map(|(path, op)| step(op, &path))
        .collect()
}
