//! Sizes as people type and read them: powers of 1024.

/// A number of bytes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Size(pub u64);

const UNITS: &[(&str, u32)] = &[("K", 10), ("M", 20), ("G", 30), ("T", 40), ("P", 50)];

impl std::str::FromStr for Size {
    type Err = String;

    /// `4096`, `512K`, `1.5G`; also `10GiB` and `10g`. A part of a byte is left out.
    fn from_str(text: &str) -> Result<Size, String> {
        let wrong = || format!("'{text}' is not a size; write a number of bytes or one with K, M, G or T (10G, 1.5T)");
        let upper = text.to_ascii_uppercase();
        let plain = upper.strip_suffix("IB").or(upper.strip_suffix('B')).unwrap_or(&upper);
        let unit = UNITS.iter().find(|(unit, _)| plain.ends_with(unit));
        let (digits, shift) = match unit {
            Some((unit, shift)) => (&plain[..plain.len() - unit.len()], *shift),
            None => (plain, 0),
        };
        bytes(digits, shift).map(Size).ok_or_else(wrong)
    }
}

/// `digits` times 2^`shift`, rounded down, with a decimal point only where there is a unit.
fn bytes(digits: &str, shift: u32) -> Option<u64> {
    let number = |digits: &str| {
        let is_one = digits.bytes().all(|digit| digit.is_ascii_digit());
        is_one.then(|| digits.parse::<u64>().ok()).flatten()
    };
    let Some((whole, part)) = digits.split_once('.') else {
        return number(digits)?.checked_mul(1 << shift);
    };
    let tenths = 10u128.checked_pow(part.len() as u32).filter(|_| shift > 0)?;
    let part = (u128::from(number(part)?) << shift) / tenths;
    number(whole)?.checked_mul(1 << shift)?.checked_add(part as u64)
}

impl std::fmt::Display for Size {
    /// Three digits that mean something: `1.21G`, `64.0M`, `512`.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let unit = UNITS.iter().rev().find(|(_, shift)| self.0 >> shift > 0);
        let Some((unit, shift)) = unit else {
            return f.pad(&self.0.to_string());
        };
        let value = self.0 as f64 / (1u64 << shift) as f64;
        let decimals = match value {
            v if v < 9.995 => 2,
            v if v < 99.95 => 1,
            _ => 0,
        };
        f.pad(&format!("{value:.decimals$}{unit}"))
    }
}

#[cfg(test)]
mod tests;
