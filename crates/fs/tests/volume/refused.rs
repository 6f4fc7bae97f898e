//! A device that refuses to write file data (S-7.6, S-7.8, X-4.3): other pages, else EIO, else a lost page.

use super::{Seen, find, make, options};
use keepfs_check::{Finding, Options, walk};
use keepfs_fs::{FormatOptions, Volume, VolumeOptions};
use keepfs_media::{Class, PageNo};
use keepfs_testkit::sim::{Entry, Event, Faults, SimDevice, When};
use keepfs_vfs::{Direct, Errno, FallocMode, FileKind, Ino, SetAttr, Vfs, WriteHow};
use std::sync::Arc;

/// What the kernel writes back: nobody waits for it any more.
const BACK: WriteHow = WriteHow {
    append: false,
    kill_suidgid: false,
    writeback: true,
    keep_times: true,
    keep_old: false,
};
const PAGE: usize = 4096;

struct Bed {
    device: Arc<SimDevice>,
    volume: Arc<Volume>,
    options: VolumeOptions,
}

impl Bed {
    fn new(pages: u64) -> Bed {
        Bed::with(pages, options(false))
    }

    fn with(pages: u64, options: VolumeOptions) -> Bed {
        let device = Arc::new(SimDevice::new(pages));
        Volume::format(device.clone(), &FormatOptions::default()).expect("format");
        let volume = Volume::open(device.clone(), &options).expect("open");
        Bed {
            device,
            volume,
            options,
        }
    }

    fn file(&self, name: &str) -> Ino {
        make(&*self.volume, Ino::ROOT, name, FileKind::File).expect("make")
    }

    fn refuse(&self, when: When) {
        self.device.set_faults(Faults::none().fail_writes_of(Class::Data, when));
    }

    fn mend(&self) {
        self.device.set_faults(Faults::none());
    }

    fn write(&self, ino: Ino, offset: usize, data: &[u8], how: WriteHow) -> keepfs_vfs::Result<usize> {
        self.volume.write(ino, offset as u64, data, how)
    }

    fn read(&self, ino: Ino, offset: usize, len: usize) -> keepfs_vfs::Result<Vec<u8>> {
        let mut buf = vec![0; len];
        let count = self.volume.read(ino, offset as u64, &mut buf)?;
        buf.truncate(count);
        Ok(buf)
    }

    fn fsync(&self, ino: Ino) -> keepfs_vfs::Result<()> {
        self.volume.fsync(ino, false)
    }

    fn refusals(&self) -> u64 {
        self.volume.store().device_errors().writes
    }

    fn bad(&self) -> u64 {
        self.volume.store().figures().bad
    }

    /// Power is cut: only what was flushed is there. The device is mended by then.
    fn crash(self) -> Bed {
        let device = Arc::new(SimDevice::over(self.device.power_cut(0)));
        let volume = Volume::open(device.clone(), &self.options).expect("recovery");
        Bed {
            device,
            volume,
            options: self.options,
        }
    }

    /// Unmounts; what the offline walk finds.
    fn finish(self) -> Vec<Finding> {
        self.volume.unmount().expect("unmount");
        walk(&Seen(&*self.device), &Options { data: true, limit: 20 }).findings
    }
}

fn bytes(seed: u8, pages: usize) -> Vec<u8> {
    (0..pages * PAGE).map(|i| seed ^ (i / 7) as u8).collect()
}

/// One page is refused: its bytes, and nobody else's, go to another page, which a crash shows too.
#[test]
fn one_page_goes_elsewhere() {
    let bed = Bed::new(4096);
    let (other, file) = (bed.file("other"), bed.file("file"));
    bed.write(other, 0, &bytes(9, 3), WriteHow::default()).expect("write");
    bed.refuse(When::Nth(1));
    assert_eq!(bed.write(file, 0, &bytes(1, 1), WriteHow::default()), Ok(PAGE));
    assert_eq!((bed.refusals(), bed.bad()), (1, 1));
    bed.fsync(file).expect("nothing is lost");
    let bed = bed.crash();
    assert_eq!(bed.read(file, 0, 2 * PAGE), Ok(bytes(1, 1)));
    assert_eq!(bed.read(other, 0, 4 * PAGE), Ok(bytes(9, 3)));
    assert_eq!(bed.bad(), 0, "the list of refused pages belongs to one life");
    assert_eq!(bed.finish(), []);
}

/// A region of the device is refused, larger than one write.
#[test]
fn a_region_is_left_alone() {
    let bed = Bed::new(4096);
    let file = bed.file("file");
    bed.refuse(When::Pages(PageNo(0), 600));
    for step in 0..6 {
        let at = step * 256 * PAGE;
        assert_eq!(
            bed.write(file, at, &bytes(step as u8, 256), WriteHow::default()),
            Ok(256 * PAGE)
        );
    }
    bed.fsync(file).expect("nothing is lost");
    let refused = bed.refusals();
    assert!(refused > 1 && bed.bad() > 0, "{refused}");
    let bed = bed.crash();
    for step in 0..6 {
        assert_eq!(
            bed.read(file, step * 256 * PAGE, 256 * PAGE),
            Ok(bytes(step as u8, 256))
        );
    }
    assert_eq!(bed.finish(), []);
}

/// A page that was refused is not tried again, however often the pool is filled and emptied, and although it would take
/// bytes by now.
#[test]
fn a_refused_page_is_not_handed_out_again() {
    let bed = Bed::new(2048);
    let bad = PageNo(500);
    bed.refuse(When::Page(bad));
    for round in 0..3 {
        let (mut files, data) = (0, bytes(round, 16));
        while let Ok(file) = make(&*bed.volume, Ino::ROOT, &format!("f{files}"), FileKind::File) {
            files += 1;
            match bed.write(file, 0, &data, WriteHow::default()) {
                Ok(n) if n == data.len() => {}
                Ok(_) | Err(Errno::ENOSPC) => break,
                Err(error) => panic!("file {files}: {error}"),
            }
        }
        assert!(files > 50, "{files}");
        assert_eq!(bed.bad(), 1);
        bed.mend();
        for i in 0..files {
            bed.volume
                .unlink(Ino::ROOT, format!("f{i}").as_bytes())
                .expect("unlink");
        }
        bed.volume.syncfs().expect("sync");
    }
    let touched = |entry: &Entry| match &entry.event {
        Event::Write { at, pages, class } => {
            *class == Class::Data && (at.0..at.0 + pages.len() as u64).contains(&bad.0)
        }
        _ => false,
    };
    assert!(!bed.device.recording().log.iter().any(touched));
    assert_eq!(bed.finish(), []);
}

/// Everything is refused: a caller that waits is told, and nothing changed, on the device or in memory.
#[test]
fn a_refused_write_changes_nothing() {
    let bed = Bed::new(4096);
    let (file, fresh) = (bed.file("file"), bed.file("fresh"));
    bed.write(file, 0, &bytes(1, 8), WriteHow::default()).expect("write");
    bed.fsync(file).expect("fsync");
    bed.refuse(When::From(1));
    assert_eq!(
        bed.write(file, PAGE, &bytes(2, 4), WriteHow::default()),
        Err(Errno::EIO)
    );
    assert_eq!(bed.write(fresh, 0, &bytes(2, 4), WriteHow::default()), Err(Errno::EIO));
    assert!(bed.refusals() > 0 && bed.refusals() < 300, "{}", bed.refusals());
    assert_eq!(
        bed.bad(),
        0,
        "a device that refuses everything says nothing about single pages"
    );
    assert_eq!(bed.volume.getattr(fresh).expect("getattr").size, 0);
    bed.fsync(file).expect("nothing that was acknowledged is lost");
    bed.fsync(fresh).expect("nothing that was acknowledged is lost");
    assert_eq!(bed.volume.files_with_lost_data(), 0);
    let bed = bed.crash();
    assert_eq!(bed.read(file, 0, 9 * PAGE), Ok(bytes(1, 8)));
    assert_eq!(bed.write(file, PAGE, &bytes(2, 4), WriteHow::default()), Ok(4 * PAGE));
    assert_eq!(bed.read(fresh, 0, PAGE), Ok(Vec::new()));
    assert_eq!(bed.finish(), []);
}

/// What the kernel writes back was acknowledged: refused everywhere, it is lost, and says so until it is written anew.
#[test]
fn acknowledged_data_is_lost_until_written_anew() {
    let bed = Bed::new(4096);
    let (other, file) = (bed.file("other"), bed.file("file"));
    bed.write(other, 0, &bytes(9, 3), WriteHow::default()).expect("write");
    bed.write(file, 0, &bytes(1, 8), WriteHow::default()).expect("write");
    let used = bed.volume.store().totals().pages;
    bed.refuse(When::From(1));
    assert_eq!(bed.write(file, 6 * PAGE, &bytes(2, 4), BACK), Err(Errno::EIO));
    bed.mend();
    let look = |bed: &Bed| {
        assert_eq!(bed.volume.getattr(file).expect("getattr").size, 10 * PAGE as u64);
        assert_eq!(bed.read(file, 0, 6 * PAGE), Ok(bytes(1, 8)[..6 * PAGE].to_vec()));
        assert_eq!(bed.read(file, 6 * PAGE, 1), Err(Errno::EIO));
        assert_eq!(bed.read(file, 10 * PAGE - 1, 1), Err(Errno::EIO));
        assert_eq!(bed.read(other, 0, 4 * PAGE), Ok(bytes(9, 3)));
    };
    look(&bed);
    assert_eq!(bed.fsync(file), Err(Errno::EIO));
    assert_eq!(bed.fsync(other), Ok(()));
    assert_eq!(bed.volume.files_with_lost_data(), 1);
    assert_eq!(bed.volume.store().totals().pages, used - 2);
    let bed = bed.crash();
    assert_eq!(
        bed.volume.files_with_lost_data(),
        0,
        "nobody has noticed it in this life"
    );
    look(&bed);
    assert_eq!(bed.volume.files_with_lost_data(), 1);
    // Part of a lost page cannot be written: the rest of it is unknown.
    assert_eq!(
        bed.write(file, 6 * PAGE + 10, b"part", WriteHow::default()),
        Err(Errno::EIO)
    );
    assert_eq!(
        bed.write(file, 6 * PAGE, &bytes(3, 4), WriteHow::default()),
        Ok(4 * PAGE)
    );
    assert_eq!(bed.fsync(file), Ok(()));
    assert_eq!(bed.volume.files_with_lost_data(), 0);
    assert_eq!(bed.read(file, 6 * PAGE, 4 * PAGE), Ok(bytes(3, 4)));
    assert_eq!(bed.finish(), []);
}

/// The walk tells lost pages and nothing else; cutting, punching and deleting them frees nothing that is not theirs.
#[test]
fn lost_pages_go_without_a_trace() {
    let bed = Bed::new(4096);
    let names = ["cut", "punched", "deleted", "kept"];
    bed.refuse(When::From(1));
    for name in names {
        let file = bed.file(name);
        assert_eq!(bed.write(file, PAGE, &bytes(2, 4), BACK), Err(Errno::EIO));
    }
    bed.mend();
    bed.volume.syncfs().expect("sync");
    let bed = bed.crash();
    let found = |name: &str| find(&*bed.volume, Ino::ROOT, name).expect("lookup");
    let size = SetAttr {
        size: Some(2 * PAGE as u64 + 100),
        ..SetAttr::default()
    };
    bed.volume
        .setattr(found("cut"), &size)
        .expect("a cut through a lost page");
    let grown = SetAttr {
        size: Some(9 * PAGE as u64),
        ..SetAttr::default()
    };
    bed.volume.setattr(found("cut"), &grown).expect("growing");
    assert_eq!(bed.read(found("cut"), 2 * PAGE + 200, 1), Err(Errno::EIO));
    assert_eq!(bed.read(found("cut"), 3 * PAGE, 10), Ok(vec![0; 10]));
    let punch = bed
        .volume
        .fallocate(found("punched"), FallocMode::PunchHole, 0, 5 * PAGE as u64);
    assert_eq!(punch, Ok(()));
    assert_eq!(bed.read(found("punched"), 0, 5 * PAGE), Ok(vec![0; 5 * PAGE]));
    bed.volume.unlink(Ino::ROOT, b"deleted").expect("unlink");
    let kept = found("kept").0;
    let cut = found("cut").0;
    let told: Vec<Finding> = [(cut, 1), (cut, 2), (kept, 1), (kept, 2), (kept, 3), (kept, 4)]
        .into_iter()
        .map(|(ino, index)| Finding::DataLost { ino, index })
        .collect();
    assert_eq!(bed.finish(), told);
}

/// An allocated page that was never written is refused: its bytes go elsewhere, and once it is free nobody gets it.
#[test]
fn a_preallocated_page_is_refused() {
    let bed = Bed::new(4096);
    let file = bed.file("file");
    bed.volume
        .fallocate(file, FallocMode::Allocate, 0, 4 * PAGE as u64)
        .expect("fallocate");
    bed.refuse(When::Nth(1));
    assert_eq!(bed.write(file, 0, &bytes(5, 1), WriteHow::default()), Ok(PAGE));
    bed.fsync(file).expect("fsync");
    assert_eq!((bed.refusals(), bed.bad()), (1, 1));
    assert_eq!(bed.read(file, 0, PAGE), Ok(bytes(5, 1)));
    let bed = bed.crash();
    assert_eq!(bed.read(file, 0, PAGE), Ok(bytes(5, 1)));
    assert_eq!(bed.read(file, PAGE, PAGE), Ok(vec![0; PAGE]));
    assert_eq!(bed.finish(), []);
}

/// Staged pages that the device refuses stay in the log: all that was acknowledged is there, and the log never overflows.
#[test]
fn refused_staged_pages_stay_in_the_log() {
    let options = VolumeOptions {
        staged_pages_max: Some(8),
        ..options(false)
    };
    let bed = Bed::with(4096, options);
    bed.refuse(When::From(1));
    let mut taken = Vec::new();
    for i in 0..100 {
        let file = bed.file(&format!("s{i}"));
        match bed.write(file, 0, &[i; 2000], WriteHow::default()) {
            Ok(2000) => taken.push((file, i)),
            Err(Errno::EIO) => {}
            other => panic!("{other:?}"),
        }
    }
    assert!((17..30).contains(&taken.len()), "{}", taken.len());
    let look = |bed: &Bed, taken: &[(Ino, u8)]| {
        for (file, i) in taken {
            assert_eq!(bed.read(*file, 0, 3000), Ok(vec![*i; 2000]));
        }
    };
    bed.volume.syncfs().expect("the log takes it");
    bed.volume.store().checkpoint().expect("and carries it over");
    for (file, _) in &taken {
        bed.fsync(*file).expect("nothing is lost");
    }
    look(&bed, &taken);
    let bed = bed.crash();
    look(&bed, &taken);
    let more = bed.file("more");
    assert_eq!(bed.write(more, 0, &[7; 2000], WriteHow::default()), Ok(2000));
    taken.push((more, 7));
    bed.refuse(When::From(1));
    let Bed {
        device,
        volume,
        options,
    } = bed;
    volume.unmount().expect("what cannot be written out stays in the log");
    drop(volume);
    device.set_faults(Faults::none());
    let volume = Volume::open(device.clone(), &options).expect("open");
    let bed = Bed {
        device,
        volume,
        options,
    };
    look(&bed, &taken);
    assert_eq!(bed.finish(), []);
}
