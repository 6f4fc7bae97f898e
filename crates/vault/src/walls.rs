//! What nobody outside the vault can do: each way in which a frame could once be written beside the door is tried here, and does
//! not compile (decision 0879).
//!
//! What can be done compiles, with the same arguments:
//!
//! ```
//! use keepfs_vault::arena::{Arena, Held, Line};
//! use keepfs_vault::{restart, undo, update};
//!
//! fn through_the_door(arena: &Arena, undo: &mut undo::UndoSlot<'_>, line: &Line) -> Result<(), keepfs_vault::Error> {
//!     let group = keepfs_codes::identity::Group::Bitmap;
//!     update::put(arena, undo, (group, 0), line, (100, b"right"))?;
//!     update::flip(arena, undo, 0, line, (100, 1, false))?;
//!     update::take_all_back(arena, undo, |_| group);
//!     Ok(())
//! }
//!
//! fn as_a_whole(arena: &Arena, crc: u64) {
//!     arena.fill_as(0, &[0; 4096], crc, arena.binding(0));
//!     arena.refill(0, &[0; 4096], crc);
//! }
//!
//! fn mended(held: &mut Held<'_>, crc: u64) {
//!     let verdict = held.locate(held.binding());
//!     held.mend(&verdict, held.binding());
//!     held.replace_as(&[0; 4096], crc, held.binding());
//! }
//!
//! fn left_by_a_dead_server(arena: &Arena, log: &undo::UndoLog) {
//!     restart::roll_back(arena, log);
//! }
//! ```
//!
//! What the door does in its steps, alone (S-13.1, S-15.11):
//!
//! Bytes without record, sum and parity.
//!
//! ```compile_fail,E0624
//! fn past_the_door(arena: &keepfs_vault::arena::Arena) {
//!     arena.copy(0, 100, b"stray");
//! }
//! ```
//!
//! Bits without them.
//!
//! ```compile_fail,E0624
//! fn past_the_door(arena: &keepfs_vault::arena::Arena) {
//!     arena.flip(0, 100, 1);
//! }
//! ```
//!
//! Sum and parity without bytes.
//!
//! ```compile_fail,E0624
//! fn past_the_door(arena: &keepfs_vault::arena::Arena) {
//!     let group = keepfs_codes::identity::Group::Bitmap;
//!     arena.fold(0, group, (100, &[0], &[1]), 7);
//! }
//! ```
//!
//! A writer who writes nothing, for whom verifiers wait.
//!
//! ```compile_fail,E0624
//! fn past_the_door(arena: &keepfs_vault::arena::Arena) {
//!     arena.enter(0);
//! }
//! ```
//!
//! A version that nobody made.
//!
//! ```compile_fail,E0624
//! fn past_the_door(arena: &keepfs_vault::arena::Arena) {
//!     arena.leave(0);
//! }
//! ```
//!
//! A change without its record.
//!
//! ```compile_fail,E0603
//! fn past_the_door(arena: &keepfs_vault::arena::Arena, line: &keepfs_vault::arena::Line) {
//!     let place = (keepfs_codes::identity::Group::Bitmap, 0);
//!     keepfs_vault::update::change(arena, place, line, (100, &[1], 7));
//! }
//! ```
//!
//! A record without its change.
//!
//! ```compile_fail,E0603
//! fn past_the_door(undo: &mut keepfs_vault::undo::UndoSlot<'_>, line: &keepfs_vault::arena::Line) {
//!     keepfs_vault::update::record(undo, 0, line, (100, &[1], 7));
//! }
//! ```
//!
//! The same, past the door.
//!
//! ```compile_fail,E0624
//! fn past_the_door(undo: &mut keepfs_vault::undo::UndoSlot<'_>) {
//!     undo.keep(loop {});
//! }
//! ```
//!
//! Old bytes that nobody has verified.
//!
//! ```compile_fail,E0451
//! fn past_the_door() {
//!     keepfs_vault::arena::Line { number: 0, bytes: [0; 256] };
//! }
//! ```
//!
//! The memory of the frames, of their control words and sums, and of their parity:
//!
//! ```compile_fail,E0616
//! fn past_the_door(arena: &keepfs_vault::arena::Arena) {
//!     arena.frames.store(100, b"stray");
//! }
//! ```
//!
//! ```compile_fail,E0616
//! fn past_the_door(arena: &keepfs_vault::arena::Arena) {
//!     arena.control.xor_u64(0, 1);
//! }
//! ```
//!
//! ```compile_fail,E0616
//! fn past_the_door(arena: &keepfs_vault::arena::Arena) {
//!     arena.parity.xor_u64(0, 1);
//! }
//! ```
//!
//! The blocks of Greenan and Miller, which make parity of whatever stands there (decision 0421):
//!
//! ```compile_fail,E0624
//! fn past_the_door(arena: &keepfs_vault::arena::Arena) {
//!     arena.write_blocks(0, 100, b"stray", false);
//! }
//! ```
//!
//! ```compile_fail,E0624
//! fn past_the_door(arena: &keepfs_vault::arena::Arena) {
//!     arena.write_printed(0, 100..101, &mut |_, scratch| scratch[0] = 1);
//! }
//! ```
//!
//! What a restart stores absolutely, where it has proved it (S-13.6):
//!
//! Bytes.
//!
//! ```compile_fail,E0624
//! fn past_the_door(arena: &keepfs_vault::arena::Arena) {
//!     arena.restore(0, 100, b"stray");
//! }
//! ```
//!
//! Parity of bytes that nobody has proved.
//!
//! ```compile_fail,E0624
//! fn past_the_door(arena: &keepfs_vault::arena::Arena) {
//!     arena.restore_parity(0, &[0; 4096]);
//! }
//! ```
//!
//! The sum of a line.
//!
//! ```compile_fail,E0624
//! fn past_the_door(arena: &keepfs_vault::arena::Arena) {
//!     arena.restore_sum(0, 1, 7);
//! }
//! ```
//!
//! The word of a frame.
//!
//! ```compile_fail,E0624
//! fn past_the_door(arena: &keepfs_vault::arena::Arena) {
//!     arena.restore_word(0);
//! }
//! ```
//!
//! What gives a frame sums, or a name, whatever stands in it (S-15.3, S-15.4):
//!
//! ```compile_fail,E0624
//! fn past_the_door(arena: &keepfs_vault::arena::Arena) {
//!     arena.bind(0, arena.binding(1));
//! }
//! ```
//!
//! ```compile_fail,E0624
//! fn past_the_door(arena: &keepfs_vault::arena::Arena) {
//!     arena.encode(0, &[0; 4096], 7);
//! }
//! ```
//!
//! ```compile_fail,E0624
//! fn past_the_door(arena: &keepfs_vault::arena::Arena) {
//!     arena.put_whole(0, &[0; 4096], 7);
//! }
//! ```
//!
//! ```compile_fail,E0624
//! fn past_the_door(arena: &keepfs_vault::arena::Arena) {
//!     arena.set_sums(0, &[0; 16]);
//! }
//! ```
//!
//! The parts of a repair, of which [`Held::mend`](crate::arena::Held::mend) is the whole (S-15.21):
//!
//! Bytes that no code has confirmed.
//!
//! ```compile_fail,E0624
//! fn past_the_door(held: &mut keepfs_vault::arena::Held<'_>, repair: &keepfs_codes::Repair) {
//!     held.correct(repair);
//! }
//! ```
//!
//! Without the feature `strays`, which only tests have, there are no stray writes either.
#![cfg_attr(
    not(feature = "strays"),
    doc = "
```compile_fail,E0599
fn past_the_door(arena: &keepfs_vault::arena::Arena) {
    arena.stray(0, 100, b\"stray\");
}
```
"
)]
