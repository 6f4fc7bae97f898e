//! A chunk, a list or a figure of the homes that something else changed is never laid out for the device (C-3).

use super::*;

fn homes() -> Homes {
    let mut homes = Homes::default();
    homes.add(1000, 16).expect("added");
    homes.add(2000, 16).expect("added");
    let page = homes.take().expect("right").expect("free");
    homes.take().expect("right").expect("free");
    homes.release(page).expect("used");
    homes
}

fn is_stray<T>(result: Result<T, impl Into<Error>>) -> bool {
    matches!(result.map_err(Into::into), Err(Error::Heap { .. }))
}

#[test]
fn a_chunk_that_was_changed_is_told_by_whoever_meets_it() {
    let mut block = Box::new([0; PAGE]);
    for bit in 0..size_of::<Chunk>() * 8 {
        let mut homes = homes();
        homes.chunks[0].scribble(|chunk| {
            let mut bytes: [u8; size_of::<Chunk>()] = zerocopied(chunk);
            bytes[bit / 8] ^= 1 << (bit % 8);
            *chunk = Chunk::read_from_bytes(&bytes).expect("its size");
        });
        assert!(is_stray(homes.store(0, &mut block)), "bit {bit}");
        assert!(is_stray(homes.runs()) && is_stray(homes.unused()) && is_stray(homes.sparse_chunk(Some(900))));
        assert!(is_stray(homes.take()) && is_stray(homes.release(1001)) && is_stray(homes.settle()));
    }
}

fn zerocopied(chunk: &Chunk) -> [u8; size_of::<Chunk>()] {
    let mut bytes = [0; size_of::<Chunk>()];
    bytes.copy_from_slice(chunk.as_bytes());
    bytes
}

#[test]
fn a_list_index_or_figure_that_was_changed_is_told_before_it_is_laid_out() {
    type Change = fn(&mut Homes);
    let changes: [(&str, Change); 7] = [
        ("a page freed", |homes| homes.freed.scribble(0, |page| *page += 1)),
        ("a page freed is lost", |homes| homes.freed.lose()),
        ("where a chunk is", |homes| *homes.by_start.entry(1000).or_default() = 1),
        ("which page it begins with", |homes| {
            *homes.by_start.entry(999).or_default() = 0
        }),
        ("how many are free", |homes| homes.free ^= 4),
        ("how many there are", |homes| homes.pages ^= 64),
        ("a chunk is lost", |homes| homes.chunks.truncate(1)),
    ];
    assert!(homes().settle().is_ok());
    for (what, change) in changes {
        let mut homes = homes();
        change(&mut homes);
        assert!(is_stray(homes.settle()) || is_stray(homes.runs()), "{what}");
    }
    let mut homes = homes();
    assert_eq!(homes.changed(), Ok(vec![0]));
    homes.changed.lose(0);
    assert!(is_stray(homes.changed()));
}

/// A hostile image: bits beyond a chunk's length (S-4.5).
#[test]
fn a_chunk_with_pages_in_use_beyond_its_end_is_refused() {
    for (pages, last) in [(16, 2), (256, 31)] {
        let mut used = [0; 32];
        used[last] = 0x80;
        let mut block = Box::new([0; PAGE]);
        let at = chunk_offset(0);
        block[at..at + size_of::<Chunk>()].copy_from_slice(Chunk::new(1000, pages, used).as_bytes());
        let loaded = Homes::default().load(0, &block);
        assert_eq!(loaded.is_err(), pages == 16, "{loaded:?}");
    }
}
