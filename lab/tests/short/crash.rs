//! The quick form of crash enumeration (BARS R-3): known bugs, a few workloads of each kind, overlapping transactions.
//! The long form is the program `crash`.

use keepfs_lab::crash::setting::{LEVELS, guards};
use keepfs_lab::crash::sweep::Depth;
use keepfs_lab::crash::workload::Workloads;
use keepfs_lab::crash::{Campaign, Limits, Seed, Setting, schedule};
use std::collections::HashSet;
use std::path::Path;

const ONE_THREAD: Limits = Limits {
    time: None,
    goal: None,
    violations: 1,
    threads: 1,
    only: "",
    blind: false,
};

fn judge(seeds: impl IntoIterator<Item = Seed>, depth: Depth) {
    let campaign = Campaign::new(1, depth, ONE_THREAD);
    for seed in seeds {
        if let Some(v) = campaign.replay(&seed, depth) {
            panic!("{}: {}: {}\n{}", v.check, v.state, v.what, seed.print("as it was run"));
        }
    }
    let tally = campaign.tally();
    assert!(tally.images > 0 && tally.states > 0, "nothing was judged: {tally}");
}

/// Every bug that was found stays fixed: its shortest sequence is kept as a seed.
#[test]
fn known_bugs_stay_fixed() {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("bugs");
    let mut seeds = Vec::new();
    for entry in std::fs::read_dir(dir).expect("lab/bugs") {
        let path = entry.expect("entry").path();
        let text = std::fs::read_to_string(&path).expect("text");
        seeds.push(Seed::parse(&path.display().to_string(), &text).expect("a seed"));
    }
    assert!(!seeds.is_empty());
    judge(
        seeds,
        Depth {
            history: 100,
            again: 0,
            ..Depth::USUAL
        },
    );
}

/// S-9.4, S-10.2, S-11.1, S-20.16, S-20.24: workloads of each kind, few states each.
#[test]
fn workloads_of_each_kind() {
    let workloads = Workloads::deep(3);
    let seeds = (0..10).map(|n| workloads.nth(n)).filter(|s| s.setting.crowd == 0);
    judge(
        seeds,
        Depth {
            history: 40,
            states: 4,
            again: 0,
            ..Depth::USUAL
        },
    );
}

/// Every workload has steps (a text with a mistake has none), and each reads back as it was printed.
#[test]
fn workloads_are_what_they_say() {
    let workloads = Workloads::deep(9);
    for number in 0..400 {
        let seed = workloads.nth(number);
        assert!(
            seed.steps.len() >= 8,
            "{} has only {} steps",
            seed.name,
            seed.steps.len()
        );
        let again = Seed::parse(&seed.name, &seed.print("why")).expect("its own text");
        assert_eq!(again, seed);
    }
}

/// As many turns as there are guards and codes bring each pair; three times as many bring each fullness.
#[test]
fn guards_codes_and_fullness_take_turns() {
    let turns = 3 * (guards().len() * LEVELS.len()) as u64;
    let mut met = HashSet::new();
    for setting in (0..turns).map(|turn| Setting::default().at_turn(turn)) {
        let fullness = match setting.left {
            0 => "empty",
            left if u64::from(left) > setting.pages / 4 => "half full",
            _ => "nearly full",
        };
        met.insert((fullness, setting.guard, setting.protect));
    }
    assert_eq!(met.len() as u64, turns);
}

/// S-11.1: what a trim discards is nobody's, wherever power is cut.
#[test]
fn a_trim_discards_what_is_nobodys() {
    let text = "create path=f mode=644 who=22:0:0\nwrite path=f offset=0 len=90000 seed=1 kill=no\nsyncfs\nunlink path=f\n!trim\ncreate path=g mode=644 who=22:0:0\nwrite path=g offset=0 len=90000 seed=2 kill=no\n!trim\n!checkpoint\nunlink path=g\nsyncfs\n!checkpoint\n";
    let seed = Seed::parse("trim", &format!("setting discard=1\n{text}")).expect("a seed");
    let base = seed.setting.fresh().expect("a pool");
    let history = keepfs_lab::crash::history::run(&seed.setting, &base, &seed.steps).expect("a history");
    let discards = history.recording.log.iter();
    let discards = discards.filter(|entry| matches!(entry.event, keepfs_testkit::sim::Event::Discard { .. }));
    assert!(discards.count() >= 3, "too few discards");
    judge([seed], Depth::USUAL);
}

/// S-6.5: the names of a large root are deleted, and what is left is what it had: the judge of emptied pools knows it.
#[test]
fn an_emptied_root_keeps_its_nodes() {
    let setting = Setting {
        pages: 4096,
        log_pages: 32,
        ..Setting::default()
    };
    let names: String = (0..400)
        .map(|n| format!("create path={}-{n:04} mode=644 who=22:0:0\n", "name".repeat(18)))
        .collect();
    let seed = Seed::parse("names", &(names + "syncfs\n")).expect("a seed");
    let base = setting.fresh().expect("a pool");
    let history = keepfs_lab::crash::history::run(&setting, &base, &seed.steps).expect("a history");
    let image = history.recording.replay();
    keepfs_lab::crash::judge::usable(&setting, &image).expect("a usable pool");
}

/// S-9.8, C-1: a flush of a sync fails, and one of a checkpoint; the pool is opened again each time, and wherever power is cut what
/// was answered is there, and of what was not a prefix.
#[test]
fn a_failed_flush_costs_what_was_not_answered() {
    let text = "create path=f mode=644 who=22:0:0\nwrite path=f offset=0 len=9000 seed=1 kill=no\nsyncfs\n\
        write path=f offset=0 len=9000 seed=2 kill=no\n!flush_fails 0\nsyncfs\n\
        write path=f offset=4000 len=9000 seed=3 kill=no\nsyncfs\nwrite path=f offset=3000 len=90 seed=4 kill=no\n\
        !flush_fails 1\n!checkpoint\nwrite path=f offset=0 len=90 seed=5 kill=no\nsyncfs\n";
    let seed = Seed::parse("failed flush", text).expect("a seed");
    let base = seed.setting.fresh().expect("a pool");
    let history = keepfs_lab::crash::history::run(&seed.setting, &base, &seed.steps).expect("a history");
    for step in [6, 11] {
        let of_step = history.recording.log.iter().filter(|entry| entry.tag == step);
        let class = |entry: &keepfs_testkit::sim::Entry| match entry.event {
            keepfs_testkit::sim::Event::Write { class, .. } => Some(class),
            _ => None,
        };
        let superblocks = of_step.filter(|entry| class(entry) == Some(keepfs_media::Class::Superblock));
        assert!(superblocks.count() >= 2, "step {step}: it was not opened again");
    }
    judge([seed], Depth::USUAL);
}

/// S-9.1: a cut inside a sync leaves any pages of its group, and the next life begins with all of it or nothing.
#[test]
fn a_cut_inside_a_sync_leaves_any_part_of_it() {
    let mut found = HashSet::new();
    for draw in 0..40 {
        let text = format!(
            "create path=f mode=644 who=22:0:0\nsyncfs\ncreate path=g mode=644 who=22:0:0\nsyncfs\n!crash_inside {draw}\nsyncfs"
        );
        let seed = Seed::parse("cut inside", &text).expect("a seed");
        let base = seed.setting.fresh().expect("a pool");
        let history = keepfs_lab::crash::history::run(&seed.setting, &base, &seed.steps).expect("a history");
        assert_eq!(history.before, 5, "the last life is the one behind the cut");
        found.insert(history.hashes[0]);
    }
    assert_eq!(found.len(), 2, "with the second file, and without");
}

/// S-2.9: wherever power is cut, the level is that of the tree that is found, through all six and back.
#[test]
fn a_level_changes_with_its_tree() {
    let mut text = String::from("mkdir path=d mode=755 who=22:0:0\n");
    for (n, level) in ["pcrc", "pq", "evenodd64", "evenodd256", "off", "crc", "pq"]
        .iter()
        .enumerate()
    {
        text += &format!(
            "create path=d/{n} mode=644 who=22:0:0\nwrite path=d/{n} offset=0 len=3000 seed={n} kill=no\n!protect {level}\nset_mode path=d/{n} mode=600\n"
        );
        text += [
            "syncfs\n",
            "",
            "!remount\n",
            "!crash 5\n",
            "unlink path=d/1\n!checkpoint\n",
            "",
            "syncfs\n",
        ][n];
    }
    let seed = Seed::parse("levels", &text).expect("a seed");
    assert_eq!(Seed::parse("levels", &seed.print("why")).expect("its own text"), seed);
    judge([seed], Depth::USUAL);
}

/// S-14.4: of an open transaction there is no byte in the log.
#[test]
fn overlapping_transactions() {
    schedule::campaign(1000, 30, 1).expect("every schedule");
}

/// Decision 0200: what an equal recovery covers comes to the same tree when it is recovered itself.
#[test]
fn covered_images_are_recovered_to_the_same_tree() {
    let depth = Depth {
        history: 250,
        states: 40,
        again: 40,
        prove: 1,
        ..Depth::USUAL
    };
    let workloads = Workloads::deep(5);
    let campaign = Campaign::new(1, depth, ONE_THREAD);
    for seed in (0..8).map(|n| workloads.nth(n)).filter(|s| s.setting.crowd == 0) {
        if let Some(v) = campaign.replay(&seed, depth) {
            panic!("{}: {}: {}\n{}", v.check, v.state, v.what, seed.print("as it was run"));
        }
    }
    let tally = campaign.tally();
    assert!(tally.covered > 100, "nothing was covered: {tally}");
    assert_eq!((tally.proved, tally.contradictions), (tally.covered, 0), "{tally}");
}

/// A tree that no prefix of the operations made is told: the judge is not blind.
#[test]
fn a_lost_operation_is_told() {
    let setting = Setting::default();
    let base = setting.fresh().expect("a pool");
    let text = "create path=f mode=644 who=22:0:0\nsyncfs\ncreate path=g mode=644 who=22:0:0\nsyncfs";
    let seed = Seed::parse("two files", text).expect("a seed");
    let mut history = keepfs_lab::crash::history::run(&setting, &base, &seed.steps).expect("a history");
    let end = history.recording.log.len();
    let last = history.hashes[4];
    assert_eq!(keepfs_lab::crash::judge::prefix_of(&history, end, last), Ok(4));
    let early = history.hashes[2];
    assert!(keepfs_lab::crash::judge::prefix_of(&history, end, early).is_err());
    history.hashes[4] ^= 1;
    assert!(keepfs_lab::crash::judge::prefix_of(&history, end, last).is_err());
}

/// S-9.5: what a killed server wrote is made durable before recovery writes, and before a server says that it is ready.
#[test]
fn recovery_flushes_before_it_writes() {
    for copies in [1, 2] {
        let setting = Setting {
            copies,
            ..Setting::default()
        };
        for has_log in [true, false] {
            keepfs_lab::crash::killed::flushes_first(&setting, has_log).expect("a flush first");
        }
    }
}
