//! Lists of options as they are given, before what serves a mount has them.

use super::{ARENA, LOG_BYTES, MountOptions};
use crate::told_path;
use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;

impl MountOptions {
    /// A list of options as it came, which may have a path that is no UTF-8 (S-18.16). Errors: anything else in it is none.
    pub fn list(list: OsString) -> Result<String, String> {
        let list = match list.into_string() {
            Ok(list) => return Ok(list),
            Err(list) => list.into_vec(),
        };
        let word = |word: &[u8]| match (str::from_utf8(word), word.strip_prefix(b"log=")) {
            (Ok(word), _) => Ok(word.to_owned()),
            (Err(_), Some(path)) => Ok(format!("{LOG_BYTES}={}", told_path::digits(path))),
            (Err(_), None) => Err(format!("mount option {} is no UTF-8", keepfs_check::shown(word))),
        };
        let words: Result<Vec<String>, String> = list.split(|byte| *byte == b',').map(word).collect();
        Ok(words?.join(","))
    }

    /// The lists, a log's path from the root: what serves a mount goes elsewhere before it opens its log (S-18.17).
    pub fn from_the_root(lists: &[String]) -> Vec<String> {
        let log = |word: &str| {
            let mut options = MountOptions::default();
            options.take(word).ok()?;
            let absolute = std::path::absolute(options.log?).ok()?.into_os_string();
            Some(match absolute.to_str().filter(|path| !path.contains(',')) {
                Some(path) => format!("log={path}"),
                None => format!("{LOG_BYTES}={}", told_path::digits(absolute.as_encoded_bytes())),
            })
        };
        let word = |word: &str| log(word).unwrap_or_else(|| word.to_owned());
        let list = |list: &String| list.split(',').map(word).collect::<Vec<_>>().join(",");
        lists.iter().map(list).collect()
    }

    /// Whether one of `lists` says how large the arena is.
    pub fn asks_for_arena(lists: &[String]) -> bool {
        let mut words = lists.iter().flat_map(|list| list.split(','));
        words.any(|word| word.split_once('=').is_some_and(|(name, _)| ARENA.contains(&name)))
    }

    /// The words of `lists` but those that are no options, which a sloppy mount passed over.
    pub fn known(lists: &[String]) -> Vec<String> {
        let words = lists.iter().flat_map(|list| list.split(','));
        let known = words.filter(|word| !matches!(MountOptions::default().take(word), Ok(false)));
        known.map(str::to_owned).collect()
    }
}
