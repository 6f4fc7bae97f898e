//! Shrinks a failing run to operations that are all needed (delta debugging: Zeller and Hildebrandt's ddmin).

use super::Op;

/// The operations of `ops` without which `fails` does not say `true` any more, in their order. `fails` must say
/// `true` of `ops` itself, else `ops` come back as they are. It is called O(n log n) times if a few operations
/// matter, O(n²) times at worst.
pub fn shrink(ops: &[Op], fails: &mut dyn FnMut(&[Op]) -> bool) -> Vec<Op> {
    let mut kept = ops.to_vec();
    if !fails(&kept) {
        return kept;
    }
    let mut piece = kept.len().div_ceil(2);
    while piece > 0 {
        let removed_any = remove_pieces(&mut kept, piece, fails);
        if piece == 1 && !removed_any {
            break;
        }
        piece = if removed_any { piece.min(kept.len()) } else { piece / 2 };
    }
    kept
}

/// Tries to do without each run of `piece` operations in turn.
fn remove_pieces(kept: &mut Vec<Op>, piece: usize, fails: &mut dyn FnMut(&[Op]) -> bool) -> bool {
    let mut removed_any = false;
    let mut at = 0;
    while at < kept.len() {
        let end = (at + piece).min(kept.len());
        let without: Vec<Op> = kept[..at].iter().chain(&kept[end..]).cloned().collect();
        if fails(&without) {
            *kept = without;
            removed_any = true;
        } else {
            at = end;
        }
    }
    removed_any
}
