//! cargo: a small workspace built on the mount; the second build finds nothing to do (times hold), the programs answer
//! alike.

use std::fs;
use std::path::Path;

use crate::suites::Bench;
use crate::suites::process::{command, run as call};

const MANIFEST: &str = r#"[workspace]
members = ["a", "b"]
resolver = "3"
"#;

const LIBRARY: &str = r#"//! Sums.
/// The sum of the numbers below `end`.
pub fn sum(end: u64) -> u64 {
    (0..end).fold(0, |sum, n| sum.wrapping_mul(31).wrapping_add(n))
}

#[test]
fn sums() {
    assert_eq!(sum(3), 33);
}
"#;

const PROGRAM: &str = r#"//! Prints a sum and its own source's length.
fn main() {
    println!("{} {}", a::sum(1_000_000), include_str!("main.rs").len());
}
"#;

/// Builds, tests, builds again, changes a source, builds again; beside and on the file system under test.
pub fn run(bench: &Bench) -> Result<String, String> {
    let place = bench.place("mnt", 1024, &[])?;
    let here = build(&place.dir().join("project"))?;
    let beside = build(&bench.scratch.path().join("project"))?;
    if here != beside {
        return Err(format!("the program says {here:?} here and {beside:?} beside"));
    }
    place.close()?;
    Ok(format!(
        "cargo: built, tested, rebuilt; the program says {}",
        here.trim()
    ))
}

fn build(root: &Path) -> Result<String, String> {
    write(root, "Cargo.toml", MANIFEST)?;
    write(root, "a/Cargo.toml", "[package]\nname = \"a\"\nedition = \"2024\"\n")?;
    write(root, "a/src/lib.rs", LIBRARY)?;
    write(
        root,
        "b/Cargo.toml",
        "[package]\nname = \"b\"\nedition = \"2024\"\n[dependencies]\na = { path = \"../a\" }\n",
    )?;
    write(root, "b/src/main.rs", PROGRAM)?;
    cargo(root, &["build", "--release"])?;
    cargo(root, &["test", "--quiet"])?;
    let again = cargo(root, &["build", "--release", "--verbose"])?;
    if again.contains("Compiling") || again.contains("Dirty") {
        return Err(format!("the second build was not fresh:\n{again}"));
    }
    write(root, "b/src/main.rs", &PROGRAM.replace("{} {}", "{}/{}"))?;
    let changed = cargo(root, &["build", "--release"])?;
    if !changed.contains("Compiling b") {
        return Err(format!("a changed source was not built again:\n{changed}"));
    }
    call(&mut command(root.join("target/release/b"), root))
}

/// Both outputs of cargo, which speaks on standard error.
fn cargo(root: &Path, args: &[&str]) -> Result<String, String> {
    let mut cargo = command("cargo", root);
    cargo
        .args(args)
        .arg("--offline")
        .env("CARGO_TARGET_DIR", root.join("target"))
        .env_remove("RUSTFLAGS");
    let output = crate::suites::process::output(&mut cargo)?;
    if output.status.success() {
        Ok(String::from_utf8_lossy(&output.stderr).into_owned())
    } else {
        Err(crate::suites::process::said(&cargo, &output))
    }
}

fn write(root: &Path, name: &str, text: &str) -> Result<(), String> {
    let path = root.join(name);
    let dir = path.parent().unwrap_or(root);
    fs::create_dir_all(dir)
        .and_then(|()| fs::write(&path, text))
        .map_err(|e| format!("{}: {e}", path.display()))
}
