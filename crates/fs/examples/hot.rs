//! Measures create, lookup, small append, read and unlink in process on a device in memory; prints microseconds each.

use keepfs_fs::{FormatOptions, Volume, VolumeOptions};
use keepfs_media::Device;
use keepfs_media::ram::RamDevice;
use keepfs_vfs::{Direct, FileKind, Ino, NewInode, Vfs, WriteHow};
use std::sync::Arc;
use std::time::Instant;

fn measure(what: &str, count: usize, mut f: impl FnMut(usize)) {
    let start = Instant::now();
    (0..count).for_each(&mut f);
    println!(
        "{what:10} {:8.2} us",
        start.elapsed().as_secs_f64() * 1e6 / count as f64
    );
}

fn main() {
    let count = std::env::args().nth(1).and_then(|n| n.parse().ok()).unwrap_or(50_000);
    let device: Arc<dyn Device> = Arc::new(RamDevice::new(1 << 18));
    Volume::format(device.clone(), &FormatOptions::default()).expect("format");
    let volume = Volume::open(device, &VolumeOptions::default()).expect("open");
    let vfs: &dyn Vfs = &*volume;
    let new = NewInode {
        mode: FileKind::File.type_bits() | 0o644,
        umask: 0o022,
        uid: 0,
        gid: 0,
        rdev: 0,
    };
    let names: Vec<String> = (0..count).map(|i| format!("file-{i:012}")).collect();
    let mut inos = Vec::with_capacity(count);
    measure("create", count, |i| {
        inos.push(
            vfs.mknod(Ino::ROOT, names[i].as_bytes(), &new)
                .expect("create")
                .attr
                .ino,
        )
    });
    measure("lookup", count, |i| {
        vfs.lookup(Ino::ROOT, names[i].as_bytes()).expect("lookup");
        vfs.forget(inos[i], 1);
    });
    measure("getattr", count, |i| {
        vfs.getattr(inos[i]).expect("getattr");
    });
    let data = [7; 1024];
    measure("append", count, |i| {
        vfs.write(
            inos[i],
            0,
            &data,
            WriteHow {
                append: true,
                ..WriteHow::default()
            },
        )
        .expect("write");
    });
    let mut buf = [0; 4096];
    measure("read", count, |i| {
        vfs.read(inos[i], 0, &mut buf).expect("read");
    });
    measure("write 64K", count / 50, |i| {
        vfs.write(inos[0], i as u64 * 65_536, &[1; 65_536], WriteHow::default())
            .expect("write");
    });
    measure("unlink", count, |i| {
        vfs.unlink(Ino::ROOT, names[i].as_bytes()).expect("unlink");
        vfs.forget(inos[i], 1);
    });
    let start = Instant::now();
    volume.unmount().expect("unmount");
    println!("unmount    {:8.2} ms", start.elapsed().as_secs_f64() * 1e3);
}
