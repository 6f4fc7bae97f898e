//! An image whose directory leads into another one's leaves: told as that, and nobody is fenced for it.

use super::*;
use keepfs_format::dir::{CHILDREN, child_offset};
use keepfs_format::{Kind, MetaId};
use keepfs_fs::Part;
use keepfs_store::{Equations, Error, Meaning, Ref, Source};
use keepfs_vfs::{Direct, Errno};

const NAMES: usize = 400;

fn name(i: usize) -> String {
    format!("a-name-of-some-length-{i:04}")
}

/// The root of a directory of several leaves.
fn index_of(volume: &Volume, dir: Ino) -> Ref {
    let (id, _) = volume.part_of(dir.0, Part::Dir).expect("known").expect("there");
    Ref::node(id, Kind::DirIndex, dir.0)
}

/// Half of the slots of one directory's index name a leaf of another one. What is found through them is EIO, what is found
/// through others is right, for readers and writers; the other directory goes on, nothing is fenced, and the pool is mounted
/// again (S-6.4, S-15.20, decision 0780).
#[test]
fn a_directory_that_leads_into_another_one_is_told_as_that() {
    let device: Arc<dyn Device> = Arc::new(RamDevice::new(8192));
    Volume::format(device.clone(), &FormatOptions::default()).expect("format");
    let mut hostile = options(false);
    hostile.store.audit = Equations::NONE;
    let volume = Volume::open(device.clone(), &hostile).expect("open");
    let [one, other] = ["one", "other"].map(|dir| make(&*volume, Ino::ROOT, dir, FileKind::Dir).expect("made"));
    for i in 0..NAMES {
        for dir in [one, other] {
            make(&*volume, dir, &name(i), FileKind::File).expect("made");
        }
    }
    let (index, others) = (index_of(&volume, one), index_of(&volume, other));
    let lied = volume.store().transact::<_, Error>(|txn| {
        let mut leaf = [0; 8];
        txn.read(others, child_offset(0), &mut leaf)?;
        assert_ne!(MetaId(u64::from_le_bytes(leaf)), MetaId(0));
        Ok(txn.put(index, child_offset(0), &leaf.repeat(CHILDREN / 2), Meaning::DirNode)?)
    });
    lied.expect("put");
    volume.unmount().expect("unmount");
    drop(volume);

    let volume = Volume::open(device.clone(), &options(false)).expect("open");
    let found: Vec<_> = (0..NAMES).map(|i| find(&*volume, one, &name(i))).collect();
    let wrong = found.iter().filter(|found| **found == Err(Errno::EIO)).count();
    let right = found.iter().filter(|found| found.is_ok()).count();
    assert!(
        wrong + right == NAMES && wrong > NAMES / 4 && right > NAMES / 4,
        "{wrong} {right}"
    );
    assert_eq!(volume.readdir(one, 0, &mut |_| true), Err(Errno::EIO));
    for (i, found) in found.iter().enumerate() {
        let gone = volume.unlink(one, name(i).as_bytes());
        assert_eq!(gone.is_ok(), found.is_ok(), "{i}: {gone:?}");
    }
    for i in 0..NAMES {
        find(&*volume, other, &name(i)).expect("there");
        volume.unlink(other, name(i).as_bytes()).expect("gone");
    }
    let store = volume.store();
    assert_eq!((store.fault().map(|e| e.to_string()), store.fenced()), (None, 0));
    assert!(
        store
            .history()
            .damage()
            .iter()
            .all(|entry| entry.done != keepfs_store::Done::Fenced as u8)
    );
    volume.unmount().expect("unmount");
    drop(volume);
    Volume::open(device, &options(false))
        .expect("opened again")
        .unmount()
        .expect("unmount");
}
