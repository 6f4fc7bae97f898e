//! Random numbers that are the same in every run: SplitMix64, and gamma variates on top of it.

/// SplitMix64 (Steele, Lea and Flood 2014).
pub struct Random(pub u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// A number below `end` (which is not 0).
    pub fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }

    /// Uniform in (0, 1].
    fn unit(&mut self) -> f64 {
        ((self.next() >> 11) + 1) as f64 / (1u64 << 53) as f64
    }

    /// Gamma distributed with mean `mean` and shape 1.5, as filebench draws its file sizes (Marsaglia and Tsang 2000).
    pub fn gamma(&mut self, mean: f64) -> f64 {
        const SHAPE: f64 = 1.5;
        let d = SHAPE - 1.0 / 3.0;
        let c = 1.0 / (9.0 * d).sqrt();
        loop {
            let normal = (-2.0 * self.unit().ln()).sqrt() * (std::f64::consts::TAU * self.unit()).cos();
            let v = (1.0 + c * normal).powi(3);
            if v > 0.0 && self.unit().ln() < 0.5 * normal * normal + d - d * v + d * v.ln() {
                return d * v * mean / SHAPE;
            }
        }
    }
}
