//! The files of the project as one value: path to text.

use std::collections::BTreeMap;
use std::path::Path;

/// Text files by path relative to the root, `/` between parts.
#[derive(Debug, Default)]
pub struct Tree(BTreeMap<String, String>);

/// What is not the project's own text.
const SKIPPED: &[&str] = &["target", ".git"];

impl Tree {
    /// Reads every UTF-8 file under `root`; other files are left out.
    pub fn load(root: &Path) -> Result<Self, String> {
        let mut tree = Self::default();
        tree.visit(root, "")?;
        Ok(tree)
    }

    /// The same tree with one file put in or replaced.
    #[cfg(test)]
    pub fn with(mut self, path: &str, text: &str) -> Self {
        self.0.insert(path.to_owned(), text.to_owned());
        self
    }

    /// How many files there are.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// The text of a file, if it is there.
    pub fn text(&self, path: &str) -> Option<&str> {
        self.0.get(path).map(String::as_str)
    }

    /// All files, ordered by path.
    pub fn files(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(path, text)| (path.as_str(), text.as_str()))
    }

    /// The Rust sources.
    pub fn sources(&self) -> impl Iterator<Item = (&str, &str)> {
        self.files().filter(|(path, _)| path.ends_with(".rs"))
    }

    fn visit(&mut self, dir: &Path, prefix: &str) -> Result<(), String> {
        let entries = std::fs::read_dir(dir).map_err(|e| format!("{}: {e}", dir.display()))?;
        for entry in entries.flatten() {
            let name = entry.file_name().to_string_lossy().into_owned();
            let kind = entry
                .file_type()
                .map_err(|e| format!("{}: {e}", entry.path().display()))?;
            let path = format!("{prefix}{name}");
            // In a worktree `.git` is a file.
            if SKIPPED.contains(&name.as_str()) {
                continue;
            }
            if kind.is_dir() {
                self.visit(&entry.path(), &format!("{path}/"))?;
            } else if kind.is_file()
                && let Ok(text) = std::fs::read_to_string(entry.path())
            {
                self.0.insert(path, text);
            }
        }
        Ok(())
    }
}

/// Whether a source file holds tests only: `tests.rs`, anything under a `tests` directory, and the lab.
pub fn is_test(path: &str) -> bool {
    path.starts_with("lab/") || path.split('/').any(|part| part == "tests" || part == "tests.rs")
}
