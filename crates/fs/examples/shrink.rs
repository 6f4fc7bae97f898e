//! How much space comes back when 10^5 files are deleted: figures of a pool of 1 GiB in memory.

use keepfs_fs::{FormatOptions, Volume, VolumeOptions};
use keepfs_media::ram::RamDevice;
use keepfs_vfs::{Direct, FileKind, Ino, NewInode, Result, Vfs};
use std::sync::Arc;

const DIRS: u32 = 100;
const FILES: u32 = 1000;

fn new(kind: FileKind) -> NewInode {
    NewInode::by_root(kind.type_bits() | 0o755)
}

fn make(volume: &Volume, parent: Ino, name: &str, kind: FileKind) -> Result<Ino> {
    let ino = volume.mknod(parent, name.as_bytes(), &new(kind))?.attr.ino;
    volume.forget(ino, 1);
    Ok(ino)
}

fn tell(volume: &Volume, when: &str) -> Result<()> {
    let (statfs, figures) = (volume.statfs()?, volume.store().figures());
    println!(
        "{when}: {} pages of {} available, {} kept for checkpoints, {} coming back; {} checkpoints",
        statfs.blocks_available,
        statfs.blocks,
        figures.reserve + figures.grown,
        figures.spare,
        volume.store().stats().checkpoints
    );
    Ok(())
}

fn main() -> std::result::Result<(), Box<dyn std::error::Error>> {
    let device = Arc::new(RamDevice::new(1 << 18));
    Volume::format(device.clone(), &FormatOptions::default())?;
    let options = VolumeOptions {
        background: false,
        ..VolumeOptions::default()
    };
    let volume = Volume::open(device, &options)?;
    tell(&volume, "empty")?;
    for dir in 0..DIRS {
        let parent = make(&volume, Ino::ROOT, &format!("d{dir}"), FileKind::Dir)?;
        for file in 0..FILES {
            make(
                &volume,
                parent,
                &format!("a file of some length {file}"),
                FileKind::File,
            )?;
        }
    }
    volume.syncfs()?;
    tell(&volume, "100,000 files")?;
    for dir in 0..DIRS {
        let name = format!("d{dir}");
        let parent = volume.lookup(Ino::ROOT, name.as_bytes())?.attr.ino;
        for file in 0..FILES {
            volume.unlink(parent, format!("a file of some length {file}").as_bytes())?;
        }
        volume.forget(parent, 1);
        volume.rmdir(Ino::ROOT, name.as_bytes())?;
    }
    volume.syncfs()?;
    tell(&volume, "deleted")?;
    for round in 1..=64 {
        volume.store().checkpoint()?;
        if round % 8 == 0 {
            tell(&volume, &format!("{round} checkpoints later"))?;
        }
    }
    volume.unmount()?;
    Ok(())
}
