//! Imports only go down: the packages of the workspace against an allow-list (what the packages are for: ARCHITECTURE.md).

use std::process::Command;

use serde_json::Value;

use super::Finding;

/// A package and the packages of the workspace that it may import. Only what stands here is allowed.
const FLOORS: &[(&str, &[&str])] = &[
    ("keepfs-format", &[]),
    ("keepfs-codes", &[]),
    ("keepfs-media", &["keepfs-format"]),
    ("keepfs-memory", &["keepfs-format"]),
    ("keepfs-vfs", &[]),
    ("keepfs-digest", &["keepfs-format", "keepfs-codes"]),
    ("keepfs-check", &["keepfs-format", "keepfs-codes"]),
    ("keepfs-vault", &["keepfs-format", "keepfs-codes", "keepfs-memory"]),
    (
        "keepfs-pool",
        &[
            "keepfs-format",
            "keepfs-codes",
            "keepfs-memory",
            "keepfs-media",
            "keepfs-digest",
            "keepfs-vault",
        ],
    ),
    (
        "keepfs-frames",
        &["keepfs-format", "keepfs-codes", "keepfs-vault", "keepfs-pool"],
    ),
    (
        "keepfs-flash",
        &[
            "keepfs-format",
            "keepfs-codes",
            "keepfs-memory",
            "keepfs-media",
            "keepfs-vault",
            "keepfs-pool",
            "keepfs-frames",
        ],
    ),
    (
        "keepfs-store",
        &[
            "keepfs-format",
            "keepfs-codes",
            "keepfs-memory",
            "keepfs-media",
            "keepfs-digest",
            "keepfs-vault",
            "keepfs-pool",
            "keepfs-frames",
            "keepfs-flash",
        ],
    ),
    (
        "keepfs-fs",
        &[
            "keepfs-format",
            "keepfs-codes",
            "keepfs-media",
            "keepfs-store",
            "keepfs-vfs",
        ],
    ),
    ("keepfs-fuse", &["keepfs-format", "keepfs-vfs"]),
    (
        "keepfs-server",
        &[
            "keepfs-format",
            "keepfs-media",
            "keepfs-check",
            "keepfs-store",
            "keepfs-vfs",
            "keepfs-fs",
            "keepfs-fuse",
        ],
    ),
    ("keepfs", BELOW_THE_PRODUCT),
    ("keepfs-testkit", &["keepfs-media", "keepfs-vfs"]),
    ("keepfs-lab", BELOW_THE_LAB),
    ("keepfs-model", &[]),
    ("keepfs-bench", BELOW_THE_BENCH),
    ("xtask", &[]),
];

/// What the tests of a package may import beside it.
const TESTS: &[(&str, &[&str])] = &[
    // The offline walk judges what an engine left on the device; the testkit is what tests judge by and run on.
    ("keepfs-check", &["keepfs-testkit"]),
    ("keepfs-pool", &["keepfs-testkit"]),
    ("keepfs-flash", &["keepfs-testkit"]),
    ("keepfs-store", &["keepfs-check", "keepfs-testkit"]),
    ("keepfs-fs", &["keepfs-check", "keepfs-testkit"]),
    ("keepfs-fuse", &["keepfs-testkit"]),
    ("keepfs", &["keepfs-testkit"]),
];

const BELOW_THE_PRODUCT: &[&str] = &[
    "keepfs-format",
    "keepfs-codes",
    "keepfs-memory",
    "keepfs-media",
    "keepfs-check",
    "keepfs-vault",
    "keepfs-store",
    "keepfs-vfs",
    "keepfs-fs",
    "keepfs-fuse",
    "keepfs-server",
];

const BELOW_THE_LAB: &[&str] = &[
    "keepfs-format",
    "keepfs-codes",
    "keepfs-memory",
    "keepfs-media",
    "keepfs-digest",
    "keepfs-check",
    "keepfs-vault",
    "keepfs-store",
    "keepfs-vfs",
    "keepfs-fs",
    "keepfs-fuse",
    "keepfs-server",
    "keepfs",
    "keepfs-testkit",
];

const BELOW_THE_BENCH: &[&str] = &[
    "keepfs-format",
    "keepfs-codes",
    "keepfs-media",
    "keepfs-store",
    "keepfs-vfs",
    "keepfs-fs",
    "keepfs-fuse",
    "keepfs-testkit",
    "keepfs-lab",
    "xtask",
];

/// What `cargo metadata --no-deps` says of this workspace.
pub fn metadata() -> Result<Value, String> {
    let output = Command::new("cargo")
        .args(["metadata", "--format-version", "1", "--no-deps", "--offline"])
        .current_dir(crate::paths::root())
        .output()
        .map_err(|e| format!("cargo metadata: {e}"))?;
    if !output.status.success() {
        return Err(format!(
            "cargo metadata failed:\n{}",
            String::from_utf8_lossy(&output.stderr)
        ));
    }
    serde_json::from_slice(&output.stdout).map_err(|e| format!("cargo metadata: {e}"))
}

/// Findings for every import between packages that the tables do not allow.
pub fn check(metadata: &Value) -> Result<Vec<Finding>, String> {
    let packages = metadata["packages"]
        .as_array()
        .ok_or("cargo metadata names no packages")?;
    let mut findings = Vec::new();
    for package in packages {
        let name = package["name"].as_str().unwrap_or_default();
        let Some(allowed) = row(FLOORS, name) else {
            findings.push(Finding::UnknownPackage(name.to_owned()));
            continue;
        };
        let in_tests = row(TESTS, name).unwrap_or_default();
        for import in package["dependencies"]
            .as_array()
            .into_iter()
            .flatten()
            .filter(|d| d["path"].is_string())
        {
            let to = import["name"].as_str().unwrap_or_default();
            let dev = import["kind"] == "dev";
            if !allowed.contains(&to) && !(dev && (in_tests.contains(&to) || to == name)) {
                findings.push(Finding::Import {
                    from: name.to_owned(),
                    to: to.to_owned(),
                    dev,
                });
            }
        }
    }
    Ok(findings)
}

fn row<'t>(table: &'t [(&str, &[&str])], name: &str) -> Option<&'t [&'t str]> {
    table
        .iter()
        .find(|(package, _)| *package == name)
        .map(|(_, allowed)| *allowed)
}

#[cfg(test)]
mod tests;
