//! Columns of EVENODD: polynomials over bytes modulo 1 + x + … + x^16 (S-15.8), held as 16 bytes, byte r that of x^r.

/// A byte in every place: 1 + x + … + x^15, which is x^16.
const ONES: u128 = 0x0101_0101_0101_0101_0101_0101_0101_0101;

/// `column * x^power`, for a power of 0..=16; x^17 is 1.
#[inline]
pub(crate) fn times_x(column: u128, power: usize) -> u128 {
    if power == 0 {
        return column;
    }
    let up = 8 * (power as u32 - 1);
    let down = 8 * (16 - power as u32);
    // Bytes below place 17 - power go up, those above it come back at the bottom, the one at it becomes x^16.
    let sixteenth = (column >> down) & 0xff;
    ((column << up) << 8) ^ ((column >> down) >> 8) ^ (sixteenth * ONES)
}

/// `column / x^power`.
#[inline]
pub(crate) fn over_x(column: u128, power: usize) -> u128 {
    times_x(column, (17 - power) % 17)
}

/// The `e` for which `e * (1 + x^distance)` is `column`, for a distance of 1..=16.
///
/// Lifted to polynomials modulo x^17 - 1: there the multiples of 1 + x^distance are those whose coefficients sum to
/// zero, which one of `column` and `column + (1 + x + … + x^16)·c` does; then e follows place by place (EVENODD, Blaum
/// et al. 1995, section IV).
pub(crate) fn over_one_plus_x(column: u128, distance: usize) -> u128 {
    let bytes = column.to_le_bytes();
    let c = bytes.iter().fold(0, |sum, byte| sum ^ byte);
    let lifted = |place: usize| c ^ bytes.get(place).copied().unwrap_or(0);
    let mut e = [0u8; 17];
    let mut place = 16;
    for _ in 0..16 {
        let next = (place + distance) % 17;
        e[next] = lifted(next) ^ e[place];
        place = next;
    }
    let (low, _) = e.split_first_chunk::<16>().expect("17 bytes hold 16");
    u128::from_le_bytes(*low)
}

/// P and Q of a block, by Horner's rule from its last column on.
pub(crate) fn parities(columns: &[[u8; 16]]) -> (u128, u128) {
    let (mut p, mut low, mut sixteenth) = (0, 0u128, 0u128);
    for column in columns.iter().rev() {
        let column = u128::from_le_bytes(*column);
        p ^= column;
        let top = low >> 120;
        low = (low << 8) ^ sixteenth ^ column;
        sixteenth = top;
    }
    (p, low ^ (sixteenth * ONES))
}

#[cfg(test)]
mod tests;
