//! Staged data as the store drives it: behind a commit, and where a page of it is not what was staged.

mod follow;
mod mend;
