//! What is planted so that the judge must notice it: in files, in the image, in memory behind the last look.

use super::*;

impl Run<'_> {
    pub(super) fn plant_files(&self, setting: &Setting, done: &Done) -> Result<(), String> {
        let Some(made) = done.trees.iter().find(|made| made.look == Look::Whole) else {
            return Ok(());
        };
        let file = made.dir.join("dir0").join("planted");
        let some = || {
            let files = fs::read_dir(made.dir.join("dir0"))
                .map_err(|e| e.to_string())?
                .flatten();
            let long = |path: &PathBuf| {
                path.symlink_metadata()
                    .is_ok_and(|meta| meta.is_file() && meta.len() > 0)
            };
            files
                .map(|entry| entry.path())
                .find(long)
                .ok_or(format!("{}: no file", file.display()))
        };
        match setting.plant {
            Some(Plant::Byte) => {
                let path = some()?;
                let mut bytes = fs::read(&path).map_err(|e| e.to_string())?;
                bytes[0] ^= 1;
                fs::write(&path, bytes).map_err(|e| e.to_string())
            }
            Some(Plant::Missing) => fs::remove_file(some()?).map_err(|e| e.to_string()),
            _ => Ok(()),
        }
    }

    pub(super) fn plant_image(&self, setting: &Setting, struck: &mut Struck) -> Result<(), String> {
        use std::os::unix::fs::FileExt;
        let open = || {
            fs::OpenOptions::new()
                .read(true)
                .write(true)
                .open(self.pool())
                .map_err(|e| e.to_string())
        };
        match setting.plant {
            Some(Plant::Image) => {
                let file = open()?;
                let len = file.metadata().map_err(|e| e.to_string())?.len();
                for (from, to) in memory::with_memory(&file, len) {
                    // The superblocks are the pool's name: what follows is what it has.
                    for at in (from.max(64 * memory::PAGE as u64)..to).step_by(memory::PAGE) {
                        file.write_all_at(&[0xa5; 8], at + 200).map_err(|e| e.to_string())?;
                    }
                }
                Ok(())
            }
            Some(Plant::Written) => {
                let file = open()?;
                let len = file.metadata().map_err(|e| e.to_string())?.len();
                let after = Dice::new(7).bytes(32);
                let at = len - memory::PAGE as u64 + 100;
                struck.strays.push(striker::Stray {
                    after: after.clone(),
                    ..no_stray(32)
                });
                file.write_all_at(&after, at).map_err(|e| e.to_string())
            }
            _ => Ok(()),
        }
    }
}

impl Run<'_> {
    /// What a program says of a server that stands still for longer than anybody waits.
    pub(super) fn stopped(&self) -> Result<product::Ran, String> {
        use rustix::process::{Pid, Signal, kill_process};
        let server = self.lab.product.server(&self.dir.join("m"))?;
        let send = |signal| {
            let server = Pid::from_raw(server).ok_or("no process")?;
            kill_process(server, signal).map_err(|e| format!("server {server:?}: {e}"))
        };
        let new = self.dir.join("m").join("stopped");
        send(Signal::STOP)?;
        let ran = product::call_within(Duration::from_secs(1), &self.dir, &["touch", &new.to_string_lossy()]);
        send(Signal::CONT)?;
        Ok(ran)
    }
}

fn no_stray(len: usize) -> striker::Stray {
    striker::Stray {
        ms: 0,
        second: i64::MAX,
        memory: 0,
        region: memory::Region::Arena,
        at: 0,
        before: vec![0; len],
        after: vec![0; len],
        identity: 0,
    }
}

/// Written now, behind the last look at memory.
pub(super) fn planted_stray(memory: &memory::Memory) -> Result<striker::Stray, String> {
    let used = (0..memory.frames())
        .rev()
        .find(|frame| memory.identity(*frame) != 0)
        .ok_or("no frame is used")?;
    let (at, mut before) = (used * memory::PAGE as u64 + 2048, vec![0; 16]);
    memory.read(memory::Region::Arena, at, &mut before)?;
    let after: Vec<u8> = before.iter().map(|byte| byte ^ 0x5a).collect();
    memory.write(memory::Region::Arena, at, &after)?;
    Ok(striker::Stray {
        memory: memory.number(),
        at,
        before,
        after,
        identity: memory.identity(used),
        ..no_stray(0)
    })
}
