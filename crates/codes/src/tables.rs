//! Compile-time arithmetic in `GF(2)[x]/P`: reflected polynomials, powers of x, byte tables.
//!
//! A reflected 64-bit value holds the coefficient of x^(63-m) in bit m. The degree-32 polynomial of
//! CRC-32C is held in the same 64-bit form (its residues use the upper 32 bits), so that both
//! checksums share the folding kernels.

/// A generator polynomial in reflected 64-bit form.
#[derive(Clone, Copy)]
pub(crate) struct Poly {
    /// The terms below the leading one, reflected.
    low: u64,
    /// The bit of a value that, when set before a multiplication by x, overflows the degree.
    top: u64,
}

/// CRC-64/NVME: 0xAD93D23594C93659, primitive, HD >= 5 on a frame.
pub(crate) const NVME: Poly = Poly {
    low: 0x9A6C_9329_AC4B_C9B5,
    top: 1,
};

/// CRC-32C (Castagnoli): 0x1EDC6F41.
pub(crate) const CASTAGNOLI: Poly = Poly {
    low: (0x82F6_3B78_u64) << 32,
    top: 1 << 32,
};

impl Poly {
    /// `value * x mod P`.
    pub(crate) const fn step(self, value: u64) -> u64 {
        let carry = value & self.top != 0;
        let shifted = (value & !self.top) >> 1;
        shifted ^ if carry { self.low } else { 0 }
    }

    /// `value / x mod P`: undoes [`Poly::step`].
    pub(crate) const fn back(self, value: u64) -> u64 {
        match value >> 63 {
            0 => value << 1,
            _ => ((value ^ self.low) << 1) | self.top,
        }
    }

    /// `x^n mod P`.
    pub(crate) const fn power(self, n: u64) -> u64 {
        let mut value = 1 << 63;
        let mut i = 0;
        while i < n {
            value = self.step(value);
            i += 1;
        }
        value
    }
}

/// Tables for eight bytes a step: `table[k][b]` is byte `b` followed by `k` zero bytes.
/// Entries of a degree-32 polynomial sit in the upper 32 bits.
pub(crate) const fn slices(poly: Poly) -> [[u64; 256]; 8] {
    let mut table = [[0u64; 256]; 8];
    let mut byte = 0;
    while byte < 256 {
        table[0][byte] = times_x8(poly, reflected_byte(poly, byte as u64));
        byte += 1;
    }
    let mut k = 1;
    while k < 8 {
        let mut byte = 0;
        while byte < 256 {
            table[k][byte] = times_x8(poly, table[k - 1][byte]);
            byte += 1;
        }
        k += 1;
    }
    table
}

/// The polynomial of one message byte, in the form the CRC register uses it: the byte's lowest bit
/// is its highest power, and the register's lowest used bit is the highest power below the degree.
const fn reflected_byte(poly: Poly, byte: u64) -> u64 {
    byte << poly.top.trailing_zeros()
}

/// `value * x^8 mod P`.
const fn times_x8(poly: Poly, mut value: u64) -> u64 {
    let mut i = 0;
    while i < 8 {
        value = poly.step(value);
        i += 1;
    }
    value
}

/// Constants that fold an accumulator forward: `by(d)` moves a 128-bit value over `d` bits.
#[cfg(all(target_arch = "x86_64", target_feature = "sse2"))]
#[derive(Clone, Copy)]
pub(crate) struct Fold {
    /// For the low (earlier) quadword: x^(d+63).
    pub(crate) low: u64,
    /// For the high quadword: x^(d-1).
    pub(crate) high: u64,
}

#[cfg(all(target_arch = "x86_64", target_feature = "sse2"))]
impl Fold {
    pub(crate) const fn by(poly: Poly, bits: u64) -> Self {
        Self {
            low: poly.power(bits + 63),
            high: poly.power(bits - 1),
        }
    }
}

/// All fold distances the kernels use, in bits.
#[cfg(all(target_arch = "x86_64", target_feature = "sse2"))]
pub(crate) struct Folds {
    pub(crate) by_2048: Fold,
    pub(crate) by_1536: Fold,
    pub(crate) by_1024: Fold,
    pub(crate) by_512: Fold,
    pub(crate) by_384: Fold,
    pub(crate) by_256: Fold,
    pub(crate) by_128: Fold,
}

#[cfg(all(target_arch = "x86_64", target_feature = "sse2"))]
impl Folds {
    pub(crate) const fn of(poly: Poly) -> Self {
        Self {
            by_2048: Fold::by(poly, 2048),
            by_1536: Fold::by(poly, 1536),
            by_1024: Fold::by(poly, 1024),
            by_512: Fold::by(poly, 512),
            by_384: Fold::by(poly, 384),
            by_256: Fold::by(poly, 256),
            by_128: Fold::by(poly, 128),
        }
    }
}
