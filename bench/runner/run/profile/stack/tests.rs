//! Stacks as perf prints them.

use super::*;

fn part(head: &str, frames: &[&str]) -> Vec<Part> {
    let frames: Vec<String> = frames.iter().map(|frame| format!("\t{frame}\n")).collect();
    let text = format!("{head} \n{}\n", frames.concat());
    parts(&text, "keepfs-profiled", 77).into_keys().collect()
}

const SERVER: &str = "fuse-read-0 77";
const DISPATCH: &str = "          2fc001 keepfs_fuse::dispatch::Dispatcher::handle_parts";
const PWRITE: &str = "ffffffff816b9d23 __x64_sys_pwrite64";

#[test]
fn the_innermost_crate_decides() {
    let cases: [(&[&str], Part); 8] = [
        (
            &[
                "ffffffff8183724b fuse_dev_read",
                "f82ec read",
                "30b589 keepfs_fuse::transport::dev::DevTransport::reader",
            ],
            Part::Transport,
        ),
        (
            &[
                "2fcfcc <keepfs_fuse::dispatch::Dispatcher>::write",
                "30b589 keepfs_fuse::transport::dev::DevTransport::reader",
            ],
            Part::Dispatch,
        ),
        (
            &["f82ec malloc", "2e77cf keepfs_fs::create::newborn", DISPATCH],
            Part::Fs,
        ),
        (
            &[
                "3795eb keepfs_vault::arena::Arena::enter",
                "2e77cf keepfs_fs::create::newborn",
                DISPATCH,
            ],
            Part::Door,
        ),
        (
            &[
                PWRITE,
                "f64c7 pwrite",
                "3315dc <keepfs_media::file::FileDevice as keepfs_media::device::Device>::write",
                "354834 keepfs_store::view::<impl keepfs_store::Store>::write_data",
            ],
            Part::Device,
        ),
        (
            &[
                "ffffffff821f8914 __schedule",
                "ffffffff8183724b fuse_dev_read",
                "30b589 keepfs_fuse::transport::dev::DevTransport::reader",
            ],
            Part::Switch,
        ),
        (
            &["ffffffff8183724b fuse_dev_read", "ffffffffffffffff [unknown]"],
            Part::Transport,
        ),
        (&["1234 malloc", "ffffffffffffffff [unknown]"], Part::Unknown),
    ];
    for (frames, expected) in cases {
        assert_eq!(part(SERVER, frames), [expected], "{frames:?}");
    }
}

#[test]
fn the_caller_and_the_loop_device_count_and_others_do_not() {
    let caller = "keepfs-profiled 99";
    assert_eq!(part(caller, &[PWRITE, "f64c7 pwrite"]), [Part::Kernel]);
    assert_eq!(part(caller, &["f64c7 pwrite", PWRITE]), [Part::Client]);
    assert_eq!(part(caller, &["ffffffff821f8914 schedule", PWRITE]), [Part::Switch]);
    assert_eq!(
        part("kworker/u8:3-lo 12", &["ffffffff81d71450 loop_process_work"]),
        [Part::Device]
    );
    assert_eq!(part("kworker/u8:3-wr 12", &["ffffffff8179938a ext4_writepages"]), []);
    assert_eq!(
        part("keepfs 99", &[PWRITE, "f64c7 keepfs_media::write"]),
        [],
        "another server"
    );
}

#[test]
fn samples_are_counted() {
    let text = format!(
        "{SERVER} \n\t{DISPATCH}\n\n{SERVER} \n\t{DISPATCH}\n\nswapper 0 \n\tffffffff81000000 pv_native_safe_halt\n\n"
    );
    assert_eq!(parts(&text, "keepfs-profiled", 77), [(Part::Dispatch, 2)].into());
}

#[test]
fn only_the_stacks_that_are_needed_are_asked_for() {
    let heads =
        "keepfs-profiled 99 \nfuse-read-0 77 \nkworker/u8:3-lo 12 \nrustc 5 \nkeepfs-profiled 99 \nkeepfs 98 \n";
    assert_eq!(asked_for(heads, "keepfs-profiled", 77), [12, 77, 99].into());
}
