//! What the words mean.

use super::*;

#[test]
fn every_byte_becomes_another() {
    let old: Vec<u8> = (0..=255).collect();
    let flipped = Pattern::Flip.over(&old).expect("random");
    assert!(old.iter().zip(&flipped).all(|(a, b)| (a ^ b).count_ones() == 1));
    let random = Pattern::Random.over(&old).expect("random");
    assert!(old.iter().zip(&random).all(|(a, b)| a != b));
    assert_eq!(
        "ab0c"
            .parse::<Pattern>()
            .and_then(|p| p.over(&[0; 5]).map_err(|e| e.to_string())),
        Ok(vec![0xab, 0x0c, 0xab, 0x0c, 0xab])
    );
    for wrong in ["", "a", "xy", "flop", "é"] {
        assert!(wrong.parse::<Pattern>().is_err(), "{wrong}");
    }
}
