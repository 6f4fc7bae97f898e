//! The codes of frames by the numbers that superblocks and memory files tell (S-2.6, S-14.8).

use keepfs_codes::Protection;

/// Codes by their number in the superblock; the one of pools that tell none is first.
const CODES: [Protection; 6] = [
    Protection::Crc,
    Protection::Off,
    Protection::Pcrc,
    Protection::Pq,
    Protection::Evenodd64,
    Protection::Evenodd256,
];

/// The code with this number.
pub fn of(number: u8) -> Option<Protection> {
    CODES.get(usize::from(number)).copied()
}

/// The code's number. `None`: no pool can have it.
pub fn number(code: Protection) -> Option<u8> {
    CODES.iter().position(|known| *known == code).map(|number| number as u8)
}
