//! Programs that live on a mount whose servers die: a shell that works in a directory of it with a file open, and fsx, which
//! maps its file into memory.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::thread::{self, JoinHandle};

use super::crowd::Shared;
use crate::paths;
use crate::suites::fsx;
use crate::suites::process::{command, output, said};

/// Appends numbers to a file that is open all the time, by a relative path, and reads each back, until there is a file `stop`.
const SHELL: &str = r#"
cd "$1" && exec 3>>open || exit 1
n=0
while ! [ -e stop ]; do
    n=$((n + 1))
    echo $n >&3 || exit 2
    [ "$(tail -n 1 open)" = $n ] || exit 3
    [ "$(pwd -P)" = "$1" ] || exit 4
done
[ "$(wc -l <open)" = $n ] || exit 5
echo $n
"#;

/// Operations of one run of fsx; there is one after another.
const OPERATIONS: u32 = 2000;

/// The programs of one mount.
pub struct Residents {
    shell: Child,
    home: PathBuf,
    fsx: JoinHandle<Result<u32, String>>,
}

impl Residents {
    /// Begins under `root`; `scratch` is for files beside the mount.
    pub fn begin(root: &Path, scratch: &Path, shared: &Arc<Shared>) -> Result<Residents, String> {
        let home = root.join("home");
        fs::create_dir(&home).map_err(|e| format!("{}: {e}", home.display()))?;
        let mut shell = Command::new("sh");
        shell.args(["-c", SHELL, "resident"]).arg(&home);
        let shell = shell.stdin(Stdio::null()).stdout(Stdio::piped()).spawn();
        let shell = shell.map_err(|e| format!("sh: {e}"))?;
        let (root, scratch, shared) = (root.to_owned(), scratch.to_owned(), shared.clone());
        let fsx = thread::spawn(move || {
            let run = run_fsx(&root, &scratch, &shared);
            run.inspect_err(|wrong| shared.fail(wrong.clone()))
        });
        Ok(Residents { shell, home, fsx })
    }

    /// Ends them; says what they have done.
    pub fn end(self) -> Result<String, String> {
        fs::write(self.home.join("stop"), "").map_err(|e| format!("{}: {e}", self.home.display()))?;
        let ended = self.shell.wait_with_output().map_err(|e| format!("sh: {e}"))?;
        if !ended.status.success() {
            return Err(format!("the shell that lives on the mount: {}", ended.status));
        }
        let rounds = String::from_utf8_lossy(&ended.stdout).trim().to_owned();
        let runs = self.fsx.join().map_err(|_| "the thread of fsx panicked")??;
        Ok(format!(
            "a shell there {rounds} rounds, fsx {} operations",
            u64::from(runs) * u64::from(OPERATIONS)
        ))
    }
}

/// Runs until it is over; at least once.
fn run_fsx(root: &Path, scratch: &Path, shared: &Shared) -> Result<u32, String> {
    let config = scratch.join("fsx.toml");
    fs::write(&config, fsx::CONFIG).map_err(|e| format!("{}: {e}", config.display()))?;
    let artifacts = scratch.join("fsx");
    fs::create_dir_all(&artifacts).map_err(|e| format!("{}: {e}", artifacts.display()))?;
    for seed in 1.. {
        let mut fsx = command(paths::tools().join("bin/fsx"), root);
        fsx.arg("-f").arg(&config).arg("-P").arg(&artifacts);
        fsx.args(["-N", &OPERATIONS.to_string(), "-S", &seed.to_string()]);
        let output = output(fsx.arg(root.join("mapped")))?;
        if !output.status.success() {
            return Err(said(&fsx, &output));
        }
        if shared.is_over() {
            return Ok(seed);
        }
    }
    Ok(0)
}
