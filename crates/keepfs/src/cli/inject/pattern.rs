//! What a scribble writes.

use keepfs_server::Failure;
use std::path::Path;
use std::str::FromStr;

/// What a scribble writes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Pattern {
    /// The old bytes with one bit of each flipped, which one is chosen at random.
    Flip,
    /// Random bytes, none of them the old one.
    Random,
    /// These, repeated.
    Bytes(Vec<u8>),
}

impl FromStr for Pattern {
    type Err = String;

    fn from_str(text: &str) -> Result<Pattern, String> {
        let wrong = || format!("'{text}' is neither flip, random, zero nor pairs of hexadecimal digits");
        match text {
            "flip" => return Ok(Pattern::Flip),
            "random" => return Ok(Pattern::Random),
            "zero" => return Ok(Pattern::Bytes(vec![0])),
            _ if text.is_empty() || !text.len().is_multiple_of(2) || !text.is_ascii() => return Err(wrong()),
            _ => {}
        }
        let bytes = (0..text.len())
            .step_by(2)
            .map(|at| u8::from_str_radix(&text[at..at + 2], 16));
        bytes.collect::<Result<_, _>>().map(Pattern::Bytes).map_err(|_| wrong())
    }
}

impl Pattern {
    /// What is written over `old`. Errors: there are no random numbers.
    pub fn over(&self, old: &[u8]) -> Result<Vec<u8>, Failure> {
        let random = match self {
            Pattern::Bytes(bytes) => return Ok(bytes.iter().copied().cycle().take(old.len()).collect()),
            _ => random(old.len())?,
        };
        let change = |(old, random): (&u8, u8)| match self {
            Pattern::Flip => old ^ (1 << (random & 7)),
            _ if random == *old => !random,
            _ => random,
        };
        Ok(old.iter().zip(random).map(change).collect())
    }
}

fn random(len: usize) -> Result<Vec<u8>, Failure> {
    use std::io::Read;
    let path = Path::new("/dev/urandom");
    let mut bytes = vec![0; len];
    let read = std::fs::File::open(path).and_then(|mut file| file.read_exact(&mut bytes));
    read.map_err(Failure::io("read", path))?;
    Ok(bytes)
}

#[cfg(test)]
mod tests;
