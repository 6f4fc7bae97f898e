//! Paths, as they are told (S-18.11).

use std::borrow::Cow;

/// Longest path that is told whole, bytes, as in PATH_MAX of Linux.
pub const PATH_MAX: usize = 4096;
/// What stands before the end of a path that is cut.
const CUT: &str = "…";

/// The path of these names, the last one first, and of no name `/`; its end behind `…` if it is longer than `most` bytes.
pub fn path_of(names: impl IntoIterator<Item = impl AsRef<[u8]>>, most: usize) -> Vec<u8> {
    let (mut parts, mut length, mut begin) = (Vec::new(), 0, &b""[..]);
    for name in names {
        length += 1 + name.as_ref().len();
        if length > most {
            begin = CUT.as_bytes();
            break;
        }
        parts.push(name);
    }
    if parts.is_empty() && begin.is_empty() {
        return b"/".to_vec();
    }
    let mut path = begin.to_vec();
    for name in parts.iter().rev() {
        path.push(b'/');
        path.extend_from_slice(name.as_ref());
    }
    path
}

/// A path in at most `most` bytes: whole, or its last names behind `…`.
pub fn end_of(path: &[u8], most: usize) -> Cow<'_, [u8]> {
    if path.len() <= most {
        return path.into();
    }
    let end = &path[path.len() - (most - CUT.len())..];
    let first = end.iter().position(|byte| *byte == b'/').unwrap_or(0);
    [CUT.as_bytes(), &end[first..]].concat().into()
}

#[cfg(test)]
mod tests;
