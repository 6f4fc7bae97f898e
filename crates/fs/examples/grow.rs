//! Grows a pool in memory to N files of 1 KiB in one process and tells what each operation costs.
//!
//! `cargo run --release -p keepfs-fs --example grow -- [FILES] [ARENA_MIB]`

use keepfs_fs::{Volume, VolumeOptions};
use keepfs_media::Device;
use keepfs_media::ram::RamDevice;
use keepfs_store::{FormatOptions, StoreOptions};
use keepfs_vfs::{Direct, Ino, NewInode, Vfs, WriteHow};
use std::sync::Arc;
use std::time::Instant;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut args = std::env::args().skip(1).map(|a| a.parse::<u64>());
    let files = args.next().transpose()?.unwrap_or(100_000);
    let arena = args.next().transpose()?.unwrap_or(64) as usize;
    let device: Arc<dyn Device> = Arc::new(RamDevice::new(files * 2 + 65_536));
    Volume::format(device.clone(), &FormatOptions::default())?;
    let store = StoreOptions {
        arena_bytes: arena << 20,
        ..StoreOptions::default()
    };
    let volume = Volume::open(
        device.clone(),
        &VolumeOptions {
            store,
            ..VolumeOptions::default()
        },
    )?;
    let new = NewInode {
        mode: 0o100644,
        umask: 0o22,
        uid: 0,
        gid: 0,
        rdev: 0,
    };
    let name = |i: u64| {
        format!(
            "file-{:015}",
            i.wrapping_mul(0x9E37_79B9_7F4A_7C15) % 1_000_000_000_000_000
        )
    };
    let tell = |what: &str, started: Instant, n: u64| {
        println!(
            "{what:8} {n:8} in {:8.3} s, {:7.2} us each",
            started.elapsed().as_secs_f64(),
            started.elapsed().as_micros() as f64 / n as f64
        );
    };
    let started = Instant::now();
    for i in 0..files {
        let e = volume.mknod(Ino::ROOT, name(i).as_bytes(), &new)?;
        volume.forget(e.attr.ino, 1);
    }
    tell("create", started, files);
    let started = Instant::now();
    for i in 0..files {
        let e = volume.lookup(Ino::ROOT, name(i).as_bytes())?;
        volume.forget(e.attr.ino, 1);
    }
    tell("lookup", started, files);
    let started = Instant::now();
    for i in 0..files {
        let e = volume.lookup(Ino::ROOT, name(i).as_bytes())?;
        volume.write(e.attr.ino, 0, &[i as u8; 1024], WriteHow::default())?;
        volume.forget(e.attr.ino, 1);
    }
    tell("write1k", started, files);
    let started = Instant::now();
    volume.syncfs()?;
    tell("sync", started, 1);
    let started = Instant::now();
    for i in (0..files).step_by(3) {
        volume.unlink(Ino::ROOT, name(i).as_bytes())?;
    }
    tell("unlink", started, files / 3);
    let started = Instant::now();
    volume.unmount()?;
    tell("unmount", started, 1);
    println!("{:?}\n{:?}", volume.store().stats(), volume.store().arena_figures());
    drop(volume);
    let started = Instant::now();
    let volume = Volume::open(device, &VolumeOptions::default())?;
    tell("mount", started, 1);
    println!("{:?}", volume.statfs()?);
    Ok(())
}
