//! The door as tests use it: on bare arenas, where nothing is mended. A product has none of this.

use crate::arena::{Arena, FrameNo, Line};
use crate::error::Error;
use crate::undo::{Lost, UndoSlot};
use keepfs_codes::identity::Group;
use keepfs_codes::line;

/// A line as somebody read it who is a writer by now: a writer that a test has killed half-way would be waited for.
fn line_of(arena: &Arena, frame: FrameNo, offset: usize) -> Line {
    let number = line::at(offset);
    let mut line = Line::none();
    match arena.try_line(frame, arena.binding(frame), number, &mut line) {
        true => line,
        false => arena.line_as_it_is(frame, number),
    }
}

/// Stores bytes anywhere in a frame.
pub fn put(
    arena: &Arena,
    undo: &mut UndoSlot<'_>,
    (group, frame): (Group, FrameNo),
    offset: usize,
    new: &[u8],
) -> Result<(), Error> {
    super::put_all(arena, undo, (group, frame), (offset, new), |at, line| {
        *line = line_of(arena, frame, at);
        Ok(())
    })
}

/// Flips bits of one byte.
pub fn flip(
    arena: &Arena,
    undo: &mut UndoSlot<'_>,
    frame: FrameNo,
    offset: usize,
    mask: u8,
    from: bool,
) -> Result<(), Error> {
    let line = line_of(arena, frame, offset);
    super::flip(arena, undo, frame, &line, (offset, mask, from))
}

/// Takes all back.
pub fn take_all_back(arena: &Arena, undo: &mut UndoSlot<'_>) -> Vec<Lost> {
    super::take_all_back(arena, undo, |frame| arena.binding(frame).group)
}

/// One more writer of a frame, which changes nothing.
pub fn enter(arena: &Arena, frame: FrameNo) {
    arena.enter(frame);
}

/// One less.
pub fn leave(arena: &Arena, frame: FrameNo) {
    arena.leave(frame);
}
