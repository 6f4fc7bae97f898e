//! The oracle against the reference: the same operations on the model and on a real ext4, outcome by outcome,
//! tree by tree, and which times change.
//!
//! Needs root and a loop device; without them it says so and does nothing.

mod os;

use std::io::Write;
use std::os::fd::{AsRawFd, OwnedFd};
use std::process::Command;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use keepfs_testkit::model::Model;
use keepfs_testkit::ops::{Generator, Op, Profile, Session, Verb, Who, ace, print_all, shrink};
use keepfs_testkit::tree::{Snapshot, Times, diff, snapshot_with};
use keepfs_vfs::{InodeFlags, Time};
use os::OsSession;

const SEQUENCES: u64 = 240;
const OPS_IN_A_SEQUENCE: usize = 60;

/// The umask belongs to the whole process: one test at a time.
static ALONE: Mutex<()> = Mutex::new(());

/// Says that a test is skipped, past what the harness keeps of a test that passes: `cargo xtask test` counts it.
fn skipped(needs: &str) {
    let _ = writeln!(std::io::stderr(), "skipped: needs {needs}");
}

/// A fresh ext4 that is gone when its last descriptor is closed.
struct Ext4 {
    _alone: MutexGuard<'static, ()>,
    root: OwnedFd,
}

impl Ext4 {
    /// Makes and mounts one, then detaches it from the tree: whatever happens to this process, nothing is left.
    /// `None`, after saying why, where that is not possible.
    fn mount() -> Option<Ext4> {
        let skip = |why: &str| {
            skipped(why);
            None
        };
        if !rustix::process::geteuid().is_root() {
            return skip("root");
        }
        let scratch = tempfile::tempdir().expect("a scratch directory");
        let image = scratch.path().join("image");
        let dir = scratch.path().join("mnt");
        std::fs::create_dir(&dir).expect("a mount point");
        std::fs::File::create(&image)
            .and_then(|f| f.set_len(512 << 20))
            .expect("an image");
        let run = |command: &mut Command| command.output().is_ok_and(|output| output.status.success());
        if !run(Command::new("mkfs.ext4")
            .args(["-q", "-F", "-b", "4096", "-I", "256"])
            .arg(&image))
        {
            return skip("mkfs.ext4");
        }
        if !run(Command::new("mount")
            .args(["-t", "ext4", "-o", "loop"])
            .arg(&image)
            .arg(&dir))
        {
            return skip("a loop device and the right to mount");
        }
        let flags = rustix::fs::OFlags::RDONLY | rustix::fs::OFlags::DIRECTORY | rustix::fs::OFlags::CLOEXEC;
        let root = rustix::fs::open(&dir, flags, rustix::fs::Mode::empty());
        assert!(run(Command::new("umount").arg("-l").arg(&dir)), "the mount is detached");
        Some(Ext4 {
            _alone: ALONE.lock().unwrap_or_else(PoisonError::into_inner),
            root: root.expect("the root directory"),
        })
    }

    /// A new directory that stands for a root.
    fn fresh_root(&self, name: &str) -> String {
        let path = format!("/proc/self/fd/{}/{name}", self.root.as_raw_fd());
        std::fs::create_dir(&path).expect("a directory for a sequence");
        rustix::fs::chmod(&path, rustix::fs::Mode::from_raw_mode(0o755)).expect("its mode");
        path
    }

    /// Whether two changes in a row get two times, as the comparison of times needs.
    fn tells_changes_apart(&self) -> bool {
        use std::os::unix::fs::MetadataExt;
        let path = self.fresh_root("probe");
        let change = |mode| {
            rustix::fs::chmod(&path, rustix::fs::Mode::from_raw_mode(mode)).expect("chmod");
            let metadata = std::fs::metadata(&path).expect("stat");
            (metadata.ctime(), metadata.ctime_nsec())
        };
        (0..20).all(|_| change(0o700) != change(0o755))
    }
}

/// All operations that ext4 is asked for: root creates, and the difference D-1 of the model is left out.
fn profile() -> Profile {
    let root = |umask| Who { umask, uid: 0, gid: 0 };
    let mut profile = Profile::everything().with(Verb::Seek, 0);
    profile.who = vec![root(0o022), root(0), root(0o077)];
    profile.flags = [0, 0, 0, 0x10, 0x20, 0x30, 0x40, 0xc0].map(InodeFlags).to_vec();
    profile
}

/// Sparse files and exact answers of SEEK_DATA and SEEK_HOLE, without what D-1 says.
fn sparse_profile() -> Profile {
    let quiet = profile()
        .with(Verb::Fallocate, 0)
        .with(Verb::CopyRange, 0)
        .with(Verb::Seek, 12);
    quiet.with(Verb::Truncate, 12).with_offsets_to(1 << 43)
}

/// Runs `ops` on both; the first disagreement in words, with the operation that showed it.
fn first_disagreement(ops: &[Op], root: String, compare_times: bool) -> Option<String> {
    let seconds = AtomicI64::new(1 << 33);
    let model = Model::with_clock(Arc::new(move || Time {
        sec: seconds.fetch_add(1, Ordering::Relaxed),
        nsec: 0,
    }));
    let mut session = Session::new(&model);
    let mut reference = OsSession::new(root);
    let mut before: Option<(Snapshot, Snapshot)> = None;
    for (number, op) in ops.iter().enumerate() {
        let ours = session.run(op);
        let theirs = reference.run(op);
        if ours != theirs {
            return Some(format!(
                "operation {number}, {op}: the model says {ours:?}, ext4 {theirs:?}"
            ));
        }
        let our_tree = snapshot_with(&model, Times::Keep).expect("the model's tree can be walked");
        let their_tree = reference.snapshot();
        let difference = diff(&our_tree.clone().without_times(), &their_tree.clone().without_times());
        if !difference.is_empty() {
            return Some(format!("after operation {number}, {op}: (model, ext4)\n{difference}"));
        }
        if let Some((our_last, their_last)) = before.take()
            && compare_times
        {
            let changed = changed_times(op, &our_last, &our_tree);
            // What fails changes nothing (D-5); what is set to what it is may be stamped or not (D-6).
            let reference = if ours.is_err() {
                Vec::new()
            } else {
                changed_times(op, &their_last, &their_tree)
            };
            let is_set_to_the_same = reference.is_empty() && matches!(op.verb(), Verb::SetXattr | Verb::SetAcl);
            if changed != reference && !is_set_to_the_same {
                return Some(format!(
                    "operation {number}, {op}: times change\nmodel {changed:?}\next4  {reference:?}"
                ));
            }
        }
        before = Some((our_tree, their_tree));
    }
    None
}

/// Which paths' mtime and ctime are not what they were. Paths that a rename gives to other inodes are left out: those
/// may have the same times by chance, for ext4 stamps new inodes coarsely.
fn changed_times(op: &Op, last: &Snapshot, now: &Snapshot) -> Vec<String> {
    let is_renamed = |path: &[u8]| match op {
        Op::Rename { from, to, .. } => [from, to]
            .into_iter()
            .any(|renamed| is_at_or_below(path, renamed.as_bytes())),
        _ => false,
    };
    let mut changed = Vec::new();
    for (path, node) in now.nodes().filter(|(path, _)| !is_renamed(path)) {
        let (Some(old), Some((mtime, ctime))) = (last.get(path).and_then(|n| n.times), node.times) else {
            continue;
        };
        let words = match (old.0 != mtime, old.1 != ctime) {
            (false, false) => continue,
            (true, true) => "mtime ctime",
            (true, false) => "mtime",
            (false, true) => "ctime",
        };
        changed.push(format!("/{} {words}", path.escape_ascii()));
    }
    changed
}

fn is_at_or_below(path: &[u8], top: &[u8]) -> bool {
    path.strip_prefix(top)
        .is_some_and(|rest| rest.is_empty() || rest[0] == b'/')
}

/// Without the difference D-7.
fn without_kill_at_append(op: Op) -> Op {
    match op {
        Op::Append { path, len, seed, .. } => Op::Append {
            path,
            len,
            seed,
            kill: false,
        },
        other => other,
    }
}

/// Runs a sequence; on a disagreement panics with the shortest one that shows it.
fn compare(ext4: &Ext4, name: &str, ops: &[Op], compare_times: bool) {
    let Some(first) = first_disagreement(ops, ext4.fresh_root(name), compare_times) else {
        return;
    };
    let mut tries = 0;
    let shortest = shrink(ops, &mut |candidate| {
        tries += 1;
        first_disagreement(candidate, ext4.fresh_root(&format!("{name}-{tries}")), compare_times).is_some()
    });
    let words = first_disagreement(&shortest, ext4.fresh_root(&format!("{name}-last")), compare_times);
    panic!("{name}:\n{}\n{}", print_all(&shortest), words.unwrap_or(first));
}

#[test]
fn the_model_does_as_ext4_does() {
    let Some(ext4) = Ext4::mount() else { return };
    let compare_times = ext4.tells_changes_apart();
    if !compare_times {
        skipped("a kernel with finer times, in part: which times change is not compared");
    }
    for seed in 0..SEQUENCES {
        let profile = if seed % 4 == 3 { sparse_profile() } else { profile() };
        let ops: Vec<Op> = Generator::new(seed, profile)
            .map(without_kill_at_append)
            .take(OPS_IN_A_SEQUENCE)
            .collect();
        compare(&ext4, &format!("seed-{seed}"), &ops, compare_times);
    }
}

#[test]
fn the_model_does_as_ext4_does_in_short_sequences() {
    /// Every so many pairs of steps; a prime, so that all steps come up in both places.
    const PAIR_STRIDE: usize = 37;
    let Some(ext4) = Ext4::mount() else { return };
    let compare_times = ext4.tells_changes_apart();
    let steps = ace::steps();
    let singles = steps.iter().map(|step| step.ops.clone());
    let pairs = steps
        .iter()
        .flat_map(|a| steps.iter().map(|b| [a.ops.clone(), b.ops.clone()].concat()));
    for (number, ops) in singles.chain(pairs.step_by(PAIR_STRIDE)).enumerate() {
        let whole = [ace::setup(), ops].concat();
        compare(&ext4, &format!("short-{number}"), &whole, compare_times);
    }
}
