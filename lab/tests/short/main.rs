//! Short forms of what the lab's programs do, those that may share a process: `inject` and `scribble` look for memory in all of
//! theirs and have their own.

mod crash;
mod crossed;
mod read_only;
