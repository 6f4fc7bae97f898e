//! The server: opens or resumes the pool, gives its memory to the parent, and answers requests until it is killed.

use super::wire::End;
use keepfs_fs::{Remains, Resumed, StoreOptions, Volume, VolumeOptions};
use keepfs_media::file::{FileDevice, FileOptions, OpenMode};
use keepfs_store::Guard;
use keepfs_vfs::{Entry, Errno, Ino, NewInode, OnceOp, RenameFlags, Request, SetAttr, Vfs, WriteHow, XattrHow};
use std::error::Error;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

type Failure = Box<dyn Error>;

/// How the pool is opened.
fn options(guard: Guard) -> VolumeOptions {
    VolumeOptions {
        store: StoreOptions {
            arena_bytes: 16 << 20,
            lasting: true,
            guard,
            ..StoreOptions::default()
        },
        commit_interval: Duration::from_millis(20),
        ..VolumeOptions::default()
    }
}

/// The life of a server. `control` is the conversation with the parent.
pub fn live(pool: &Path, control: OwnedFd, guard: Guard) -> Result<(), Failure> {
    let control = End::over(control);
    let (words, descriptors) = control.receive()?;
    let names: Vec<&str> = words.split_whitespace().collect();
    let device = Arc::new(FileDevice::open(pool, OpenMode::ReadWrite, FileOptions::default())?);
    let (volume, told) = match names.is_empty() {
        true => (Volume::open(device, &options(guard))?, "first".to_owned()),
        false => {
            let named = names.into_iter().map(str::to_owned).zip(descriptors).collect();
            let (volume, resumed) = Volume::resume(device, &options(guard), Remains::from_named(named))?;
            (volume, summary(&resumed))
        }
    };
    let remains = volume.remains()?;
    let (names, memory): (Vec<_>, Vec<_>) = remains.named().unzip();
    control.send(&format!("{} | {told}", names.join(" ")), &memory)?;
    let (_, clients) = control.receive()?;
    for (seat, client) in (0..).zip(clients) {
        let volume = volume.clone();
        std::thread::spawn(move || serve(&volume, seat, &End::over(client)));
    }
    control.receive()?;
    volume.unmount()?;
    control.send("unmounted", &[])?;
    Ok(())
}

/// What a resume found, in words: lost, damage, then times in microseconds.
fn summary(r: &Resumed) -> String {
    let p = &r.parts;
    let parts = [p.adopt, p.roll_back, p.recover, p.evidence, p.requests, p.volume];
    let times: Vec<String> = parts.iter().map(|part| part.as_micros().to_string()).collect();
    let findings: Vec<String> = r.findings.iter().map(|f| f.to_string().replace(' ', "_")).collect();
    format!("{} {} {} {}", r.lost, r.open, times.join(" "), findings.join(" "))
}

/// Answers one client, who waits for each answer.
fn serve(volume: &Volume, seat: u32, client: &End) {
    while let Ok((words, _)) = client.receive() {
        let reply = match answer(volume, seat, &words) {
            Ok(reply) => format!("ok {reply}"),
            Err(errno) => format!("err {}", errno.name()),
        };
        if client.send(&reply, &[]).is_err() {
            return;
        }
    }
}

/// What was executed is answered again, everything else runs.
fn answer(volume: &Volume, seat: u32, words: &str) -> Result<String, Errno> {
    let mut words = words.split_whitespace();
    let request = Request {
        unique: number(words.next()),
        resent: words.next() == Some("again"),
        seat,
    };
    let all: Vec<&str> = words.collect();
    execute(volume, request, &all)
}

fn number(word: Option<&str>) -> u64 {
    word.and_then(|word| word.parse().ok()).unwrap_or(0)
}

fn of_entry(entry: Entry) -> String {
    format!("{} {}", entry.attr.ino.0, entry.attr.nlink)
}

fn execute(volume: &Volume, request: Request, words: &[&str]) -> Result<String, Errno> {
    let ino = |i: usize| Ino(number(words.get(i).copied()));
    let n = |i: usize| number(words.get(i).copied());
    let name = |i: usize| words.get(i).map_or(&b""[..], |word| word.as_bytes());
    let once = |op: OnceOp<'_>| {
        let entry = volume.once(Some(request), op)?;
        Ok(entry.map(of_entry).unwrap_or_default())
    };
    let mknod = |mode| {
        let new = NewInode::by_root(mode);
        once(OnceOp::Mknod {
            parent: ino(1),
            name: name(2),
            new: &new,
        })
    };
    match words[0] {
        "mknod" => mknod(0o100644),
        "mkdir" => mknod(0o040755),
        "symlink" => once(OnceOp::Symlink {
            parent: ino(1),
            name: name(2),
            target: name(3),
            new: &NewInode::by_root(0o120777),
        }),
        "tmpfile" => once(OnceOp::Tmpfile {
            parent: ino(1),
            new: &NewInode::by_root(0o100600),
        }),
        "link" => once(OnceOp::Link {
            ino: ino(1),
            parent: ino(2),
            name: name(3),
        }),
        "lookup" => volume.lookup(ino(1), name(2)).map(of_entry),
        "unlink" => once(OnceOp::Unlink {
            parent: ino(1),
            name: name(2),
        }),
        "rmdir" => once(OnceOp::Rmdir {
            parent: ino(1),
            name: name(2),
        }),
        "rename" | "exchange" => once(OnceOp::Rename {
            from: (ino(1), name(2)),
            to: (ino(3), name(4)),
            flags: RenameFlags {
                exchange: words[0] == "exchange",
                ..RenameFlags::default()
            },
        }),
        "setxattr" => once(OnceOp::Setxattr {
            ino: ino(1),
            name: name(2),
            value: name(3),
            how: XattrHow {
                create: true,
                ..XattrHow::default()
            },
        }),
        "removexattr" => once(OnceOp::Removexattr {
            ino: ino(1),
            name: name(2),
        }),
        "getxattr" => volume.getxattr(ino(1), name(2)).map(|value| text(&value)),
        "write" => {
            let data = vec![n(3) as u8; n(4) as usize];
            let written = volume.write(ino(1), n(2), &data, WriteHow::default());
            written.map(|count| count.to_string())
        }
        "truncate" => {
            let change = SetAttr {
                size: Some(n(2)),
                ..SetAttr::default()
            };
            volume.setattr(ino(1), &change).map(nothing)
        }
        "read" => {
            let mut data = vec![0; n(2) as usize];
            let count = volume.read(ino(1), 0, &mut data)?;
            Ok(runs(&data[..count]))
        }
        "fsync" => volume.fsync(ino(1), false).map(nothing),
        "forget" => {
            volume.forget(ino(1), n(2));
            Ok(String::new())
        }
        "list" => {
            let mut names = Vec::new();
            volume.readdir(ino(1), 0, &mut |entry| {
                if !matches!(entry.name, b"." | b"..") {
                    names.push(format!("{}={}", text(entry.name), entry.ino.0));
                }
                true
            })?;
            names.sort_unstable();
            Ok(names.join(" "))
        }
        _ => Err(Errno::EINVAL),
    }
}

fn nothing<T>(_: T) -> String {
    String::new()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Bytes as runs: value, `x`, length.
pub fn runs(bytes: &[u8]) -> String {
    let runs = bytes.chunk_by(|a, b| a == b);
    let words: Vec<String> = runs.map(|run| format!("{}x{}", run[0], run.len())).collect();
    words.join(" ")
}

/// The control conversation that the parent left as standard input.
pub fn control() -> std::io::Result<OwnedFd> {
    std::io::stdin().as_fd().try_clone_to_owned()
}
