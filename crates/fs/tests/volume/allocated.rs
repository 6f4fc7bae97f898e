//! fallocate on a full pool: what it gave can be written, and what it refused has changed nothing (promise C-7).

use super::space::fill_to_the_brim;
use super::*;
use keepfs_vfs::{Direct, Errno, FallocMode};

const PAGE: u64 = 4096;
/// Pages of the file that is allocated: more than are kept for overwriting.
const PAGES: u64 = 300;

/// What a file is: its bytes, its size and its blocks.
fn state(vfs: &dyn Vfs, ino: Ino) -> (Vec<u8>, u64, u64) {
    let attr = vfs.getattr(ino).expect("getattr");
    (read(vfs, ino, 0, attr.size as usize + 1), attr.size, attr.blocks)
}

/// Writes parts of pages, a page and more, from the beginning to the end; each call takes all of it.
fn overwrite_in_parts(vfs: &dyn Vfs, ino: Ino, round: u8) -> Vec<u8> {
    let mut expected = vec![0; (PAGES * PAGE) as usize];
    let lengths = [1, 100, 5000, 4096, 3000, 70, 20_000];
    let mut at = usize::from(round) * 50;
    for len in lengths.into_iter().cycle() {
        if at + len > expected.len() {
            break;
        }
        expected[at..at + len].fill(round + 1);
        let (now, then) = (at as u64, at + len + 700);
        let written = vfs.write(ino, now, &expected[at..at + len], WriteHow::default());
        assert_eq!(written, Ok(len), "round {round} at {at}");
        at = then;
    }
    expected
}

/// S-20.4: allocated pages of a full pool take parts of pages and whole ones, behind a remount too, and again.
#[test]
fn what_was_allocated_can_be_written_on_a_full_pool() {
    for remounted in [false, true] {
        let mut pool = Pool::new(4096);
        let ino = make(&*pool.volume, Ino::ROOT, "allocated", FileKind::File).expect("make");
        let given = pool.volume.fallocate(ino, FallocMode::Allocate, 0, PAGES * PAGE);
        given.expect("allocated");
        fill_to_the_brim(&*pool.volume, "first");
        if remounted {
            pool = pool.reopen();
            fill_to_the_brim(&*pool.volume, "second");
        }
        let vfs: &dyn Vfs = &*pool.volume;
        let expected = overwrite_in_parts(vfs, ino, 0);
        assert!(read(vfs, ino, 0, expected.len()) == expected);
        for round in 1..4 {
            let written = overwrite_in_parts(vfs, ino, round);
            vfs.syncfs().expect("sync");
            let now = read(vfs, ino, 0, written.len());
            let is_so = |(now, written): (&u8, &u8)| *written == 0 || now == written;
            assert!(now.iter().zip(&written).all(is_so));
        }
        pool.finish();
    }
}

/// A file with data at its beginning, and with `more` behind a hole, too.
fn with_data(vfs: &dyn Vfs, more: bool) -> Ino {
    let ino = make(vfs, Ino::ROOT, "refused", FileKind::File).expect("make");
    match more {
        false => write(vfs, ino, 0, b"thirteen byte"),
        true => {
            write(vfs, ino, 0, &[1; 10_000]);
            write(vfs, ino, 200 * PAGE, &[2; 10_000]);
        }
    }
    vfs.syncfs().expect("sync");
    ino
}

/// S-20.3: however much is missing, a file whose allocation was refused is what it was; be it that pages are missing, or only
/// those that their block map needs.
#[test]
fn an_allocation_that_is_refused_changes_nothing() {
    let modes = [
        FallocMode::Allocate,
        FallocMode::KeepSize,
        FallocMode::ZeroRange { keep_size: false },
        FallocMode::ZeroRange { keep_size: true },
    ];
    let pool = Pool::new(4096);
    let vfs: &dyn Vfs = &*pool.volume;
    let ballast = make(vfs, Ino::ROOT, "ballast", FileKind::File).expect("make");
    write(vfs, ballast, 0, &vec![3; 8 << 20]);
    let mut refused = 0;
    for (mode, more) in modes.into_iter().flat_map(|mode| [(mode, false), (mode, true)]) {
        for more_pages in -4..6_i64 {
            let ino = with_data(vfs, more);
            let left = vfs.statfs().expect("statfs").blocks_available;
            assert!(left > 600, "{left} pages are left: several transactions' worth");
            let (bytes, size, blocks) = state(vfs, ino);
            // The bytes of an inline file have got a page.
            let before = (bytes, size, blocks.max(8));
            match vfs.fallocate(ino, mode, PAGE - 7, left.saturating_add_signed(more_pages) * PAGE) {
                Ok(()) => {}
                Err(Errno::ENOSPC) => {
                    refused += 1;
                    assert!(state(vfs, ino) == before, "{mode:?}, {more_pages} more");
                }
                Err(other) => panic!("{other}"),
            }
            vfs.unlink(Ino::ROOT, b"refused").expect("unlink");
            vfs.syncfs().expect("sync");
        }
    }
    assert!(refused > 40, "only {refused} were refused");
    pool.finish();
}

/// S-20.3: of a full pool a range can be zeroed that has pages, and has as many then; one that shares its pages cannot be
/// zeroed without others, and stays what it was.
#[test]
fn what_has_pages_can_be_zeroed_on_a_full_pool() {
    let pool = Pool::new(4096);
    let vfs: &dyn Vfs = &*pool.volume;
    let [own, shared, copy] =
        ["own", "shared", "copy"].map(|name| make(vfs, Ino::ROOT, name, FileKind::File).expect("make"));
    for ino in [own, shared] {
        write(vfs, ino, 0, &vec![5; (PAGES * PAGE) as usize]);
    }
    let mut copied = 0;
    while copied < PAGES * PAGE {
        let more = vfs.copy_file_range(shared, copied, copy, copied, PAGES * PAGE - copied);
        copied += more.expect("copied");
    }
    fill_to_the_brim(vfs, "brim");
    let zeroed = FallocMode::ZeroRange { keep_size: false };
    let before = state(vfs, shared);
    assert_eq!(vfs.fallocate(shared, zeroed, 0, PAGES * PAGE), Err(Errno::ENOSPC));
    assert!(state(vfs, shared) == before, "refused, and changed");
    let (_, size, blocks) = state(vfs, own);
    for _ in 0..3 {
        let offset = 7;
        vfs.fallocate(own, zeroed, offset, PAGES * PAGE - offset)
            .expect("zeroed");
        let mut expected = vec![0; size as usize];
        expected[..offset as usize].fill(5);
        assert!(state(vfs, own) == (expected, size, blocks), "zeroed wrongly");
        write(vfs, own, 0, &vec![5; 200_000]);
    }
    pool.finish();
}
