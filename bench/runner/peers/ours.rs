//! Keepfs, and the empty file system in memory that stands for its transports alone.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::Stdio;

use super::super::mounted::Mounted;
use super::super::programs::Programs;
use super::super::work::server;
use xtask::suites::process::{command, run};

/// Makes a pool, with these arguments besides.
pub fn create(programs: &Programs, node: &Path, more: &[&str]) -> Result<(), String> {
    let mut create = command(&programs.keepfs, Path::new("/"));
    run(create.arg("create").arg(node).arg("--force").args(more)).map(drop)
}

/// Mounts a pool by `keepfs`. A mount that gets another transport than it asked for is no mount.
pub fn mount(keepfs: &Path, programs: &Programs, node: &Path, dir: &Path, options: &[&str]) -> Result<Mounted, String> {
    let mut mount = server(keepfs, programs.scratch());
    mount.arg("mount").arg(node).arg(dir).args(["-o", &options.join(",")]);
    // Its output is not taken: the server would hold the pipe for as long as it lives.
    let status = mount.status().map_err(|e| format!("keepfs mount: {e}"))?;
    if !status.success() {
        return Err(format!("keepfs mount: {status} (its words stand above)"));
    }
    let mounted = Mounted::keepfs(dir, keepfs);
    let wanted = options.iter().find_map(|option| option.strip_prefix("transport="));
    let used = mounted.status()?["mount"]["transport"]
        .as_str()
        .unwrap_or_default()
        .to_owned();
    match wanted.is_none_or(|wanted| wanted == used) {
        true => Ok(mounted),
        false => Err(format!(
            "asked for transport {}, got {used}",
            wanted.unwrap_or_default()
        )),
    }
}

/// Mounts the empty file system.
pub fn memory(programs: &Programs, dir: &Path, transport: &str) -> Result<Mounted, String> {
    let mut memory = server(&programs.memory, programs.scratch());
    let mut child = memory
        .arg(dir)
        .arg(transport)
        .stdout(Stdio::piped())
        .spawn()
        .map_err(|e| format!("{}: {e}", programs.memory.display()))?;
    let pipe = child.stdout.take();
    let mounted = Mounted::plain(dir).served_by(child);
    let mut line = String::new();
    if let Some(pipe) = pipe {
        let read = BufReader::new(pipe).read_line(&mut line);
        read.map_err(|e| format!("memory: {e}"))?;
    }
    match line.trim() == transport {
        true => Ok(mounted),
        false => Err(format!("memory: asked for transport {transport}, got {line:?}")),
    }
}
