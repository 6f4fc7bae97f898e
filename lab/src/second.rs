//! Second lives: servers that are killed at any instant and followed by others, beside a model (X-1.1, S-16.3).
//!
//! The parent is what kernel and keeper are to a mount: it holds the memory files, gives them to each new server, and sends
//! again what was not answered, under the number it had ([`parent`]). The child is the server: a volume that answers
//! requests ([`child`]). Each client works in a directory of its own and knows what every answer must be ([`client`]).

pub mod child;
pub mod client;
pub mod parent;
pub mod wire;
