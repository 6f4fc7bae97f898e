//! Files in sentences, for people (S-21.12).

/// Most files that a sentence names.
const NAMED_MAX: usize = 4;

/// A file in words: a path as it is shown, empty if none is known, and the number of its inode.
pub fn whose(ino: u64, path: &str) -> String {
    match path {
        "" => format!("inode {ino} (no path known)"),
        path => format!("{path} (inode {ino})"),
    }
}

/// A sentence with the files that it is about before it, the first of them by name.
pub fn about(mut files: Vec<String>, sentence: &str) -> String {
    if files.is_empty() {
        return sentence.to_owned();
    }
    if let Some(more) = files.len().checked_sub(NAMED_MAX).filter(|more| *more > 0) {
        files.truncate(NAMED_MAX);
        files.push(format!("{more} more files"));
    }
    format!("{}: {sentence}", files.join(", "))
}
