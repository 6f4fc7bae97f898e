//! What a status says is wrong with a pool, and what helps.

mod damage;
pub mod ended;
mod losses;

pub use damage::damaged;
pub use losses::lost;

/// So many of something, in words.
pub fn counted(count: u64, what: &str) -> String {
    let plural = if count == 1 { "" } else { "s" };
    format!("{count} {what}{plural}")
}
