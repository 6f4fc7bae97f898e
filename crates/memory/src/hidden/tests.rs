//! Tests of hiding: what is masked is no address, and no word of the process leads to a window.

use super::*;
use crate::{Guard, Region};
use std::fs::File;
use std::io::Read;
use std::os::unix::fs::FileExt;

/// Bytes of a mapping as two numbers that are no addresses, its rights and its name.
struct Mapping(usize, usize, String, String);

fn mappings() -> Vec<Mapping> {
    let mut text = String::new();
    let mut file = File::open("/proc/self/maps").expect("open");
    file.read_to_string(&mut text).expect("mappings");
    let number = |text: &str| usize::from_str_radix(text, 16).expect("a number");
    let line = |line: &str| {
        let words: Vec<&str> = line.split_ascii_whitespace().collect();
        let (start, end) = words[0].split_once('-').expect("a range");
        let name = words.get(5).unwrap_or(&"").to_string();
        Mapping(!number(start), !number(end), words[1].into(), name)
    };
    text.lines().map(line).collect()
}

#[test]
fn what_is_masked_is_no_address_and_comes_back() {
    draw().expect("a secret");
    for at in [0x1000, 0x7fff_ffff_f000, 0x1234_5678_9000] {
        let hidden = Hidden::from_address(at);
        assert_ne!(hidden.0 & NO_ADDRESS, 0);
        assert_eq!(hidden.address(), at);
    }
    assert_eq!(Hidden::NONE.address(), 0);
}

/// H-1: bytes of all memory that this process may write to are looked through for words that lead to a window.
#[test]
#[cfg_attr(miri, ignore = "there is no list of mappings")]
fn no_word_of_the_process_leads_to_a_window() {
    let region = Region::new("keepfs-nowhere", 64 << 20, Guard::Alias, false).expect("region");
    let all = mappings();
    let is_window = |m: &&Mapping| m.2 == "rw-s" && m.3 == "/memfd:keepfs-nowhere";
    let window = all.iter().find(is_window).expect("a window");
    let leads_there = |word: usize| !word <= window.0 && !word >= window.1;
    let memory = File::open("/proc/self/mem").expect("memory");
    let mut found = Vec::new();
    let mut bytes = vec![0; 1 << 16];
    for Mapping(start, end, ..) in all.iter().filter(|m| m.2 == "rw-p") {
        for at in (!start..!end).step_by(bytes.len()) {
            let len = bytes.len().min(!end - at);
            // A mapping may have gone.
            if memory.read_exact_at(&mut bytes[..len], at as u64).is_ok() {
                let (words, _) = bytes[..len].as_chunks();
                let words = words.iter().map(|word| usize::from_ne_bytes(*word));
                found.extend(words.filter(|word| leads_there(*word)).map(|word| !word));
            }
        }
    }
    assert_eq!(found.len(), 0);
    drop(region);
}

/// Nobody is a neighbour of a window: what lies on both sides of it cannot be written to.
#[test]
#[cfg_attr(miri, ignore = "there is no list of mappings")]
fn a_window_has_a_gap_on_both_sides() {
    let region = Region::new("keepfs-alone", 4096, Guard::Alias, false).expect("region");
    let all = mappings();
    let at = all.iter().position(|m| m.2 == "rw-s" && m.3 == "/memfd:keepfs-alone");
    let at = at.expect("a window");
    for gap in [at - 1, at + 1] {
        assert_eq!(all[gap].2, "---p");
        assert_eq!(all[gap].0 - all[gap].1, crate::sys::GAP);
    }
    assert_eq!([all[at - 1].1, all[at].1], [all[at].0, all[at + 1].0]);
    drop(region);
    assert!(mappings().iter().all(|m| m.3 != "/memfd:keepfs-alone"));
}
